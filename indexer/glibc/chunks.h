/* Chunks: walk a region of the heap from chunk to chunk.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_GLIBC_CHUNKS_H
#define HF_INDEXER_GLIBC_CHUNKS_H

#include "indexer/glibc/chunk_table.h"
#include "indexer/glibc/glibc_heap.h"
#include "util/progress.h"

struct hf_chunk_walk;

/** @param heap borrowed as long as the walk lives. */
struct hf_error *hf_chunk_walk_create(const struct hf_glibc_heap *heap,
				      const struct hf_progress *progress,
				      struct hf_chunk_walk **ret)
	HF_MUST_CHECK;
void hf_chunk_walk_destroy(struct hf_chunk_walk *walk);

/**
 * Append everything in the region to the table, without gaps, from
 * region->first to region->end. If the region's end is open, it is set to
 * where its chunks end.
 *
 * Damage is counted in heap->anomalies, and the walk goes on at the next
 * address where a chain of valid chunks begins.
 */
struct hf_error *hf_chunk_walk_region(struct hf_chunk_walk *walk,
				      struct hf_malloc_region *region,
				      struct hf_chunk_table *table)
	HF_MUST_CHECK;

/** A place in a region, as far as its chunks can tell. */
struct hf_chain {
	uint64_t limit;   /* end of the memory */
	uint64_t top;     /* of the arena: a chain may end there; or 0 */
	bool is_heap;     /* of a thread's arena */
};

/** A chunk on the way along a chain. */
struct hf_chain_at {
	uint64_t addr;
	uint64_t prev_bytes; /* size of the one before; 0 at the start */
};

enum hf_chain_step {
	HF_CHAIN_BAD,
	HF_CHAIN_CHUNK,
	HF_CHAIN_END, /* at top, fenceposts, or the end of a heap */
};

/** Go from a chunk to the next. */
enum hf_chain_step hf_chain_go(const struct hf_glibc_heap *heap,
			       const struct hf_chain *chain,
			       struct hf_chain_at *at);

/**
 * Whether `need` valid chunks follow one another from addr, or fewer up to
 * the arena's top, to fenceposts, or to the limit of a heap.
 */
bool hf_chain_holds(const struct hf_glibc_heap *heap,
		    const struct hf_chain *chain, uint64_t addr, size_t need);

/** Where a chain from addr to fenceposts or top ends, or 0: none. */
uint64_t hf_chain_end(const struct hf_glibc_heap *heap,
		      const struct hf_chain *chain, uint64_t addr);

HF_DEFINE_AUTO(struct hf_chunk_walk *, hf_chunk_walk, hf_chunk_walk_destroy)

#endif
