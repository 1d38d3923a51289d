/* Address map: from any address to the object that contains it.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_GRAPH_ADDRESS_MAP_H
#define HF_INDEXER_GRAPH_ADDRESS_MAP_H

#include "util/error.h"

/* All ranges that hold objects are laid side by side in one space of granules
 * (8 or 16 bytes, by the alignment of the starts). One bit for each granule
 * marks a start; a running count for each 64 bits turns the bit into an index
 * in two reads: bitmap and rank, 16 bytes for each KiB of heap. */

struct hf_address_map;

/**
 * @param starts ascending, distinct, 8-byte aligned; borrowed.
 * @param sizes bytes of each object; objects do not overlap; borrowed.
 */
struct hf_error *hf_address_map_create(const uint64_t *starts,
				       const uint64_t *sizes, uint32_t num,
				       struct hf_address_map **ret)
	HF_MUST_CHECK;
void hf_address_map_destroy(struct hf_address_map *map);

/** Bytes of memory the map takes. */
uint64_t hf_address_map_bytes(const struct hf_address_map *map);

/** Index of the object that contains addr, or UINT32_MAX. */
uint32_t hf_address_map_find(const struct hf_address_map *map, uint64_t addr);

/** A word that points into an object. */
struct hf_hit {
	uint32_t word;     /* index of the word in the scanned piece */
	uint32_t object;   /* index of the object it points into */
	bool interior;     /* not to its first byte */
};

/**
 * Find every word that points into an object, in order: a vectorised filter
 * by address range, then bitmap and rank in batches with prefetching.
 *
 * @param hits room for num_words entries.
 * @return number of hits.
 */
size_t hf_address_map_scan(const struct hf_address_map *map,
			   const uint64_t *words, size_t num_words,
			   struct hf_hit *hits);

HF_DEFINE_AUTO(struct hf_address_map *, hf_address_map, hf_address_map_destroy)

#endif
