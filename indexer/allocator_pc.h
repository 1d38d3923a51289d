/* Allocator pc: which threads were stopped inside malloc or free.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_ALLOCATOR_PC_H
#define HF_INDEXER_ALLOCATOR_PC_H

#include "coredump/image.h"

enum hf_in_allocator { HF_NOT_IN_ALLOCATOR, HF_IN_ALLOCATOR,
		       HF_IN_ALLOCATOR_UNKNOWN };

/**
 * For each thread, whether its program counter lies in the code of malloc.
 *
 * Only the innermost frame is looked at: a thread that waits in the kernel
 * on behalf of malloc (for an arena's lock, for mmap) is not seen here; heap
 * readers count locked arenas.
 *
 * @param ret num_threads entries.
 */
struct hf_error *hf_in_allocator(const struct hf_image *image,
				 enum hf_in_allocator *ret) HF_MUST_CHECK;

#endif
