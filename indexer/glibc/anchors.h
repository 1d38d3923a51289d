/* Anchors: where main_arena and mp_ are in one libc.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_GLIBC_ANCHORS_H
#define HF_INDEXER_GLIBC_ANCHORS_H

#include "indexer/glibc/malloc_layout.h"
#include "indexer/glibc/work.h"

struct hf_anchors {
	uint64_t main_arena;
	uint64_t mp;            /* 0: not found */
	bool arena_by_symbol;   /* else by its structure */
	bool mp_by_symbol;
	uint32_t empty_bins;    /* of main_arena; 0: never initialised */
	bool is_consistent;     /* the list of arenas leads back to it, and the
				 * bytes it counts are possible: the layout is
				 * right */
	bool has_tcache;        /* the first chunk of the heap has the size of
				 * this layout's tcache, as it mostly has */
};

/**
 * Find them by symbols, else by what they look like.
 *
 * @param use_symbols false: look at the structure only.
 * @return NULL, NOT_FOUND: no arena of this layout in the module, or
 * INTERRUPTED.
 */
struct hf_error *hf_anchors_find(const struct hf_image *image,
				 const struct hf_module *module,
				 const struct hf_malloc_layout *layout,
				 bool use_symbols, struct hf_work *work,
				 struct hf_anchors *ret)
	HF_MUST_CHECK;

#endif
