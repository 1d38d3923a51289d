/* Unwind: the frames of one thread, innermost first, without names.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_STACKS_UNWIND_H
#define HF_INDEXER_STACKS_UNWIND_H

#include "indexer/stacks/dwfl_image.h"
#include "indexer/stacks/memory_unwind.h"
#include "indexer/stacks/stacks.h"
#include "util/array.h"

struct hf_unwinder;

/** A frame as it was found. */
struct hf_raw_frame {
	uint64_t pc, sp;
	enum hf_frame_how how;
	bool is_caller;  /* pc is behind a call */
	bool is_signal;  /* the kernel's frame for a handler */
};

struct hf_raw_frames {
	struct hf_raw_frame *data;
	size_t num, capacity;
};

/** @param image, dwfl borrowed as long as the unwinder lives. */
struct hf_error *hf_unwinder_create(const struct hf_image *image, Dwfl *dwfl,
				    struct hf_unwinder **ret) HF_MUST_CHECK;
void hf_unwinder_destroy(struct hf_unwinder *unwinder);

/** Replaces what is in `frames`. */
struct hf_error *hf_unwind_thread(struct hf_unwinder *unwinder,
				  const struct hf_thread *thread,
				  struct hf_raw_frames *frames,
				  enum hf_stack_end *end_ret) HF_MUST_CHECK;

HF_DEFINE_AUTO(struct hf_unwinder *, hf_unwinder, hf_unwinder_destroy)

#endif
