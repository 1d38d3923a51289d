/* Malloc code: which functions of a module are malloc's.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_GLIBC_MALLOC_CODE_H
#define HF_INDEXER_GLIBC_MALLOC_CODE_H

#include "indexer/allocator_place.h"
#include "indexer/glibc/anchors.h"

/**
 * Find the code of malloc.c in a module by what it does: it alone refers to
 * main_arena and mp_. Needs no symbols. Fills in code, module and returns of
 * *ret; an empty code range when there is no such cluster of references.
 *
 * @return NULL, NO_MEMORY or INTERRUPTED.
 */
struct hf_error *hf_malloc_code_find(const struct hf_image *image,
				     const struct hf_module *module,
				     const struct hf_malloc_layout *layout,
				     const struct hf_anchors *anchors,
				     struct hf_work *work,
				     struct hf_allocator_place *ret)
	HF_MUST_CHECK;

#endif
