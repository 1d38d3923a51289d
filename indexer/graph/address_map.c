/* Address map: from any address to the object that contains it.
 * SPDX-License-Identifier: MIT */
#include "indexer/graph/address_map.h"

#include <inttypes.h>

#include "indexer/graph/address_map_internal.h"
#include "indexer/graph/flat_array.h"

enum {
	REGION_SHIFT = 32,
	WIDE_PAGE_SHIFT = 21,
	NARROW_PAGE_SHIFT = 16,
	ADDRESS_BITS = 47, /* user space with four-level page tables */
};

/* Objects without bytes take part in the numbering, so they have a place. */
static inline uint64_t last_byte(const struct hf_address_map *map, uint32_t i)
{
	return map->starts[i] + (map->sizes[i] ? map->sizes[i] - 1 : 0);
}

static struct hf_error *check_objects(struct hf_address_map *map)
{
	uint64_t all_starts = 0, limit = 0; /* of the objects before */

	for (uint32_t i = 0; i < map->num; i++) {
		uint64_t end;

		if (__builtin_add_overflow(map->starts[i], map->sizes[i],
					   &end) ||
		    end > (uint64_t)1 << ADDRESS_BITS ||
		    map->starts[i] >= (uint64_t)1 << ADDRESS_BITS)
			return hf_bad_data("object at 0x%" PRIx64
					   " ends above the user space",
					   map->starts[i]);
		if (map->starts[i] < limit ||
		    (i && map->starts[i] == map->starts[i - 1]))
			return hf_bad_data("object at 0x%" PRIx64
					   " is not above the one before",
					   map->starts[i]);
		if (map->starts[i] % 8)
			return hf_bad_data("object at 0x%" PRIx64
					   " is not aligned to 8 bytes",
					   map->starts[i]);
		limit = end;
		all_starts |= map->starts[i];
		map->has_empty |= map->sizes[i] == 0;
	}
	map->granule_shift = all_starts % 16 ? 3 : 4;
	return NULL;
}

/* Two intervals, parted at the widest gap between neighbours. */
static void find_hulls(struct hf_address_map *map)
{
	uint32_t parting = 0;
	uint64_t widest = 0;

	if (map->num == 0)
		return;
	for (uint32_t i = 1; i < map->num; i++) {
		uint64_t gap = map->starts[i] - last_byte(map, i - 1);

		if (gap > widest) {
			widest = gap;
			parting = i;
		}
	}
	uint64_t start = map->starts[0];
	uint64_t end = last_byte(map, map->num - 1) + 1;
	map->hulls[0] = (struct hf_hull){ start, end - start };
	if (parting) {
		map->hulls[0].len = last_byte(map, parting - 1) + 1 - start;
		map->hulls[1].start = map->starts[parting];
		map->hulls[1].len = end - map->starts[parting];
	}
	map->first_region = start >> REGION_SHIFT;
	map->num_regions = ((end - 1) >> REGION_SHIFT) - map->first_region + 1;
}

/* What a page size would cost. */
struct plan {
	uint64_t num_pages; /* flat ones, with the empty one */
	uint64_t num_parts; /* of the directory, with the zero one */
	uint64_t bytes;
};

static struct plan make_plan(const struct hf_address_map *map,
			     uint32_t page_shift)
{
	struct plan plan = { .num_pages = 1, .num_parts = 1 };
	uint64_t next_page = 0, next_region = 0; /* the first not counted */

	for (uint32_t i = 0; i < map->num; i++) {
		uint64_t low = map->starts[i] >> page_shift;
		uint64_t high = last_byte(map, i) >> page_shift;
		uint64_t region = map->starts[i] >> REGION_SHIFT;
		uint64_t last_region = last_byte(map, i) >> REGION_SHIFT;

		plan.num_pages += (low >= next_page) + (high > low) +
				  (high > low + 1);
		next_page = high + 1;
		if (region < next_region)
			region = next_region;
		if (last_region >= region)
			plan.num_parts += last_region - region + 1;
		next_region = last_region + 1;
	}
	plan.bytes = (plan.num_pages << (page_shift - hf_map_cell_shift(map))) *
			     sizeof(struct hf_map_cell) +
		     (plan.num_parts << (REGION_SHIFT - page_shift)) *
			     sizeof(uint32_t);
	return plan;
}

static struct hf_error *allocate(struct hf_address_map *map)
{
	struct plan wide = make_plan(map, WIDE_PAGE_SHIFT);
	struct plan narrow = make_plan(map, NARROW_PAGE_SHIFT);
	struct plan *plan = &wide;

	map->page_shift = WIDE_PAGE_SHIFT;
	/* The directory of wide pages is small enough for the first cache. */
	if (narrow.bytes < wide.bytes / 2) {
		plan = &narrow;
		map->page_shift = NARROW_PAGE_SHIFT;
	}
	uint32_t page_cells_shift = map->page_shift - hf_map_cell_shift(map);
	if (plan->num_pages > UINT32_MAX >> page_cells_shift)
		return hf_error_create(HF_ERROR_UNSUPPORTED,
				       "a heap of more than 4 TiB");
	map->num_pages = (uint32_t)plan->num_pages;
	map->num_parts = (uint32_t)plan->num_parts;
	map->top = hf_flat_zeroed(map->num_regions, sizeof(*map->top));
	map->directory = hf_flat_zeroed(
		(size_t)map->num_parts << (REGION_SHIFT - map->page_shift),
		sizeof(*map->directory));
	map->cells = hf_flat_zeroed((size_t)map->num_pages << page_cells_shift,
				    sizeof(*map->cells));
	if (!map->top || !map->directory || !map->cells)
		return &hf_enomem;
	return NULL;
}

/* Hands out parts of the directory and flat pages, in ascending order. */
struct layout {
	struct hf_address_map *map;
	uint32_t num_parts, num_pages;
};

static uint32_t *directory_entry(struct layout *layout, uint64_t page)
{
	struct hf_address_map *map = layout->map;
	uint32_t part_shift = REGION_SHIFT - map->page_shift;
	uint32_t *top = &map->top[(page >> part_shift) - map->first_region];

	if (!*top)
		*top = layout->num_parts++ << part_shift;
	return &map->directory[*top + (page & ((1u << part_shift) - 1))];
}

static uint32_t own_page(struct layout *layout, uint64_t page)
{
	uint32_t *entry = directory_entry(layout, page);

	if (!*entry)
		*entry = layout->num_pages++;
	return *entry;
}

/* Cells [low, high] of a flat page: `before` objects start before them. */
static void fill_cells(struct hf_address_map *map, uint32_t flat_page,
		       uint64_t low, uint64_t high, uint32_t before)
{
	uint32_t shift = map->page_shift - hf_map_cell_shift(map);
	struct hf_map_cell *cells =
		&map->cells[(size_t)flat_page << shift];

	for (uint64_t i = low; i <= high; i++)
		cells[i].before = before;
}

static void place_object(struct layout *layout, uint32_t index)
{
	struct hf_address_map *map = layout->map;
	uint32_t cell_shift = hf_map_cell_shift(map);
	uint32_t page_cells_shift = map->page_shift - cell_shift;
	uint64_t cell_mask = ((uint64_t)1 << page_cells_shift) - 1;
	uint64_t start = map->starts[index], last = last_byte(map, index);
	uint64_t page = start >> map->page_shift;
	uint64_t last_page = last >> map->page_shift;
	uint64_t cell = start >> cell_shift & cell_mask;
	uint64_t last_cell = last >> cell_shift & cell_mask;
	uint32_t flat_page = own_page(layout, page);
	struct hf_map_cell *first =
		&map->cells[((size_t)flat_page << page_cells_shift) + cell];

	if (!first->starts)
		first->before = index;
	first->starts |= (uint64_t)1 << (start >> map->granule_shift & 63);
	if (page == last_page) {
		fill_cells(map, flat_page, cell + 1, last_cell, index + 1);
		return;
	}
	fill_cells(map, flat_page, cell + 1, cell_mask, index + 1);
	if (page + 1 < last_page) {
		uint32_t shared = own_page(layout, page + 1);

		fill_cells(map, shared, 0, cell_mask, index + 1);
		for (page += 2; page < last_page; page++)
			*directory_entry(layout, page) = shared;
	}
	flat_page = own_page(layout, last_page);
	fill_cells(map, flat_page, 0, last_cell, index + 1);
}

struct hf_error *hf_address_map_create(const uint64_t *starts,
				       const uint64_t *sizes, uint32_t num,
				       struct hf_address_map **ret)
{
	HF_AUTO(hf_address_map)
	struct hf_address_map *map = calloc(1, sizeof(*map));
	struct hf_error *err;

	if (!map)
		return &hf_enomem;
	map->starts = starts;
	map->sizes = sizes;
	map->num = num;
	err = check_objects(map);
	if (err)
		return err;
	find_hulls(map);
	err = allocate(map);
	if (err)
		return err;
	struct layout layout = { .map = map, .num_parts = 1, .num_pages = 1 };
	for (uint32_t i = 0; i < num; i++)
		place_object(&layout, i);
	for (int i = 0; i < HF_NUM_FILTERS; i++)
		if (hf_filter_is_supported((enum hf_filter)i))
			map->filter = (enum hf_filter)i;
	*ret = HF_TAKE(map);
	return NULL;
}

void hf_address_map_destroy(struct hf_address_map *map)
{
	if (!map)
		return;
	free(map->top);
	free(map->directory);
	free(map->cells);
	free(map);
}

uint64_t hf_address_map_bytes(const struct hf_address_map *map)
{
	return sizeof(*map) + map->num_regions * sizeof(*map->top) +
	       ((uint64_t)map->num_parts << (REGION_SHIFT - map->page_shift)) *
		       sizeof(*map->directory) +
	       ((uint64_t)map->num_pages
		<< (map->page_shift - hf_map_cell_shift(map))) *
		       sizeof(*map->cells);
}

uint32_t hf_address_map_find(const struct hf_address_map *map, uint64_t addr)
{
	struct hf_hit hit;

	if (hf_address_map_scan_with(map, HF_FILTER_SCALAR, &addr, 1, &hit))
		return hit.object;
	return UINT32_MAX;
}

size_t hf_address_map_scan(const struct hf_address_map *map,
			   const uint64_t *words, size_t num_words,
			   struct hf_hit *hits)
{
	return hf_address_map_scan_with(map, map->filter, words, num_words,
					hits);
}
