/* Bitmap: one bit for each node; small enough to stay in the cache.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_GRAPH_BITMAP_H
#define HF_INDEXER_GRAPH_BITMAP_H

#include <stdint.h>

#include "indexer/graph/flat_array.h"

/** All bits clear. @return NULL without memory; free() it. */
static inline uint64_t *hf_bitmap_alloc(uint64_t num_bits)
{
	return hf_flat_zeroed(num_bits / 64 + 1, sizeof(uint64_t));
}

static inline bool hf_bitmap_has(const uint64_t *bitmap, uint64_t bit)
{
	return bitmap[bit / 64] >> (bit % 64) & 1;
}

static inline void hf_bitmap_set(uint64_t *bitmap, uint64_t bit)
{
	bitmap[bit / 64] |= (uint64_t)1 << (bit % 64);
}

#endif
