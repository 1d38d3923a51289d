/* Layout of the address map, for its builder, its filters and their tests.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_GRAPH_ADDRESS_MAP_INTERNAL_H
#define HF_INDEXER_GRAPH_ADDRESS_MAP_INTERNAL_H

#include <stddef.h>

#include "indexer/graph/address_map.h"

/* From an address to an object:
 *
 *   hulls       two intervals (the brk heap and the mappings are far apart)
 *               that hold all objects. Most words fail here, 8 at a time.
 *   region      address >> 32: top[region] says where the region's part of
 *               the directory begins; 0, a part of zeros, if it has none.
 *   page        2 MiB (or 64 KiB where objects are thinly spread):
 *               directory[top + page in region] is a page of the flat space;
 *               0, an empty page, if no object touches it.
 *   cell        64 granules of a page: one bit for each, set where an object
 *               starts, and the number of objects that start before the cell.
 *
 *   address = | region (from bit 32) | page | cell | granule (6 bits) | byte |
 *
 * The number of starts at or below the granule, less one, is the object. If
 * the granule's own bit is set and the address is aligned, it is the object's
 * first byte and nothing else is to be looked up. Else it is inside if it is
 * less than the size away from the start.
 *
 * Pages that lie wholly inside one object share one flat page, so that an
 * object of terabytes costs 32 KiB and its part of the directory. */

struct hf_map_cell {
	uint64_t starts;   /* one bit for each granule */
	uint32_t before;   /* objects that start before this cell */
	uint32_t unused;
};

enum hf_filter {
	HF_FILTER_SCALAR,
	HF_FILTER_AVX2,
	HF_FILTER_AVX512,
	HF_NUM_FILTERS
};

struct hf_hull {
	uint64_t start, len;
};

struct hf_address_map {
	const uint64_t *starts;  /* borrowed */
	const uint64_t *sizes;   /* borrowed */
	uint32_t num;
	bool has_empty;          /* an object without a single byte */
	enum hf_filter filter;   /* the best this processor has */
	struct hf_hull hulls[2]; /* the second may be empty */
	uint64_t first_region;
	uint64_t num_regions;
	uint32_t page_shift;
	uint32_t granule_shift;  /* 3 or 4 */
	uint32_t num_parts;      /* of the directory, the zero one included */
	uint32_t num_pages;      /* flat pages, the empty one included */
	uint32_t *top;           /* num_regions entries */
	uint32_t *directory;     /* num_parts << (32 - page_shift) entries */
	struct hf_map_cell *cells; /* num_pages << (page_shift - cell_shift) */
};

static inline uint32_t hf_map_cell_shift(const struct hf_address_map *map)
{
	return map->granule_shift + 6;
}

/** Whether this processor can run the filter. */
bool hf_filter_is_supported(enum hf_filter filter);

/** hf_address_map_scan with a filter that is supported. */
size_t hf_address_map_scan_with(const struct hf_address_map *map,
				enum hf_filter filter, const uint64_t *words,
				size_t num_words, struct hf_hit *hits);

#endif
