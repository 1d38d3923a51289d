/* Memory unwind: one frame outwards, by what is in memory alone.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_STACKS_MEMORY_UNWIND_H
#define HF_INDEXER_STACKS_MEMORY_UNWIND_H

#include "indexer/stacks/frame_state.h"

struct hf_memory_unwinder;

/** For modules without a file, and for code without unwind information. By
 * libunwind. @param image borrowed as long as the unwinder lives. */
struct hf_error *hf_memory_unwinder_create(const struct hf_image *image,
					   struct hf_memory_unwinder **ret)
	HF_MUST_CHECK;
void hf_memory_unwinder_destroy(struct hf_memory_unwinder *unwinder);

/**
 * From a frame to its caller.
 *
 * @param state in: the frame; out: its caller.
 * @param is_caller the frame has called another: its pc is behind the call,
 * which may have been the last of its function.
 * @param by_cfi_ret whether call frame information was found (in memory); else
 * the frame pointer was followed.
 * @return false: there is no caller, or no way to it.
 */
bool hf_memory_unwinder_step(struct hf_memory_unwinder *unwinder,
			     struct hf_frame_state *state, bool is_caller,
			     bool *by_cfi_ret);

HF_DEFINE_AUTO(struct hf_memory_unwinder *, hf_memory_unwinder,
	       hf_memory_unwinder_destroy)

#endif
