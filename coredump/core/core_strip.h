/* Core strip: what of a process a debugger needs to show its stacks.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_CORE_CORE_STRIP_H
#define HF_COREDUMP_CORE_CORE_STRIP_H

#include "coredump/image.h"
#include "coredump/process_info.h"
#include "util/array.h"

struct hf_strip_ranges {
	HF_ARRAY(struct hf_range) list; /* of bytes; ascending, disjoint */
};

/**
 * Live stacks, thread descriptors and TLS blocks, the list of loaded libraries
 * and what it points to, and the dynamic linker's own data. Not in it: heaps,
 * data of the program and of other libraries, and the arguments and
 * environment above the main thread's frames.
 *
 * @param process for its auxv.
 */
struct hf_error *hf_strip_ranges_find(const struct hf_image *image,
				      const struct hf_process_info *process,
				      struct hf_strip_ranges *ret)
	HF_MUST_CHECK;

static inline void hf_auto_hf_strip_ranges(void *ranges)
{
	hf_array_deinit(&((struct hf_strip_ranges *)ranges)->list);
}

#endif
