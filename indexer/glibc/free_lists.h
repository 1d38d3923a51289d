/* Free lists: tcaches, fastbins and bins.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_GLIBC_FREE_LISTS_H
#define HF_INDEXER_GLIBC_FREE_LISTS_H

#include "indexer/glibc/chunk_table.h"
#include "indexer/glibc/glibc_heap.h"

/** Follow the fastbins and all tcaches, and mark what is in them in the table:
 * cached chunks, and the tcaches themselves as internal. */
struct hf_error *hf_caches_mark(const struct hf_glibc_heap *heap,
				struct hf_chunk_table *table) HF_MUST_CHECK;

/** Follow the bins of all arenas through table->frees, in our own memory, and
 * count what does not fit together. */
struct hf_error *hf_bins_check(const struct hf_glibc_heap *heap,
			       struct hf_chunk_table *table) HF_MUST_CHECK;

#endif
