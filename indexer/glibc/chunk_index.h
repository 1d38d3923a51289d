/* Chunk index: from an address to its entry in the chunk table.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_GLIBC_CHUNK_INDEX_H
#define HF_INDEXER_GLIBC_CHUNK_INDEX_H

#include "indexer/glibc/chunk_table.h"
#include "indexer/glibc/glibc_heap.h"

/* The table has sizes only. The index remembers the address of every 64th
 * entry, a quarter of a byte per chunk; a look-up is a binary search and a
 * few sums. */

struct hf_chunk_mark {
	uint64_t addr;
	size_t entry;
};

struct hf_chunk_index {
	const struct hf_chunk_table *table; /* borrowed */
	HF_ARRAY(struct hf_chunk_mark) marks; /* ascending by both */
};

/** Of a table that is filled; heap->regions are sorted. On failure too, deinit
 * it. */
struct hf_error *hf_chunk_index_init(struct hf_chunk_index *index,
				     const struct hf_glibc_heap *heap,
				     const struct hf_chunk_table *table)
	HF_MUST_CHECK;
void hf_chunk_index_deinit(struct hf_chunk_index *index);

/** The entry that begins at addr. @return false: none does. */
bool hf_chunk_index_find(const struct hf_chunk_index *index, uint64_t addr,
			 size_t *entry_ret);

#endif
