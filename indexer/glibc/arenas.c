/* Arenas: main_arena, the arenas of threads, and their heaps.
 * SPDX-License-Identifier: MIT */
#include "indexer/glibc/arenas.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "indexer/glibc/chunks.h"

/* The main arena takes its memory from brk, from mp_.sbrk_base on; everything
 * up to `top` is one region, unless others call sbrk too. When brk fails, it
 * takes segments by mmap, says so in flags (NONCONTIGUOUS_BIT), and links them
 * nowhere.
 *
 * The arena of a thread has one or more heaps (glibc malloc/arena.c), each in
 * a reservation of HEAP_MAX bytes that is aligned to its size:
 *
 *   first heap   heap_info | malloc_state | pad | chunk chunk ... | reserve
 *   later heap   heap_info | chunk chunk ...                      | reserve
 *                ^ ar_ptr, prev (the heap before), size (without the reserve)
 *
 * HEAP_MAX is 64 MiB, or 4 huge pages where hp_pagesize is set (2.35, 2.36).
 */

enum {
	MAX_ARENAS = 1 << 16,
	PAGE = 4096,
	NONCONTIGUOUS_BIT = 2,
};

struct hf_error *hf_extents_find(struct hf_glibc_heap *heap)
{
	static const char hugetlb[] = "/anon_hugepage";
	size_t num;
	const struct hf_segment *segments = hf_image_segments(heap->image,
							      &num);

	for (size_t i = 0; i < num; i++) {
		const struct hf_segment *segment = &segments[i];
		struct hf_range range = { segment->start, segment->end };
		struct hf_range *last = NULL;
		bool is_hugetlb = segment->path &&
				  strncmp(segment->path, hugetlb,
					  sizeof(hugetlb) - 1) == 0;
		struct hf_error *err;

		if ((segment->prot & (PROT_READ | PROT_WRITE)) !=
		    (PROT_READ | PROT_WRITE))
			continue;
		if (segment->kind != HF_SEGMENT_ANON &&
		    segment->kind != HF_SEGMENT_BRK && !is_hugetlb)
			continue;
		if (heap->extents.num)
			last = &heap->extents.data[heap->extents.num - 1];
		if (last && last->end == range.start) {
			last->end = range.end;
			continue;
		}
		err = hf_array_append(&heap->extents, range);
		if (err)
			return err;
	}
	return NULL;
}

const struct hf_range *hf_extent_at(const struct hf_glibc_heap *heap,
				    uint64_t addr)
{
	size_t low = 0, high = heap->extents.num;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct hf_range *range = &heap->extents.data[mid];

		if (addr < range->start)
			high = mid;
		else if (addr >= range->end)
			low = mid + 1;
		else
			return range;
	}
	return NULL;
}

void hf_parameters_read(struct hf_glibc_heap *heap)
{
	const struct hf_malloc_layout *layout = &heap->layout;
	struct hf_malloc_parameters *parameters = &heap->parameters;
	uint64_t addr = parameters->addr;
	uint32_t n_mmaps = 0;

	if (!addr)
		return;
	if (!hf_pages_peek(heap->pages, addr + layout->n_mmaps, &n_mmaps, 4) ||
	    !hf_pages_peek_u64(heap->pages, addr + layout->mmapped_mem,
			       &parameters->mmapped_mem) ||
	    !hf_pages_peek_u64(heap->pages, addr + layout->sbrk_base,
			       &parameters->sbrk_base)) {
		hf_anomaly_add(heap->anomalies, HF_GLIBC_READER,
			       "unreadable mp_", addr, "not readable");
		*parameters = (struct hf_malloc_parameters){ 0 };
		return;
	}
	parameters->n_mmaps = n_mmaps;
	if (layout->hp_pagesize != HF_NO_OFFSET)
		hf_pages_peek_u64(heap->pages, addr + layout->hp_pagesize,
				  &parameters->hp_pagesize);
	if (layout->tcache_count != HF_NO_OFFSET)
		hf_pages_peek_u64(heap->pages, addr + layout->tcache_count,
				  &parameters->tcache_count);
}

/* Copy one malloc_state. @return false if it is unreadable. */
static bool read_arena(struct hf_glibc_heap *heap, uint64_t addr,
		       struct hf_malloc_arena *ret, uint64_t *next_ret)
{
	const struct hf_malloc_layout *layout = &heap->layout;
	uint64_t words[HF_MALLOC_STATE_MAX / 8];
	const uint8_t *bytes = (const uint8_t *)words;
	uint32_t lock, flags;

	if (!hf_pages_peek(heap->pages, addr, words, layout->state_bytes))
		return false;
	memset(ret, 0, sizeof(*ret));
	memcpy(&lock, bytes, sizeof(lock));
	memcpy(&flags, bytes + layout->flags, sizeof(flags));
	ret->addr = addr;
	ret->locked = lock != 0;
	ret->noncontiguous = flags & NONCONTIGUOUS_BIT;
	ret->top = words[layout->top / 8];
	ret->system_mem = words[layout->system_mem / 8];
	*next_ret = words[layout->next / 8];
	for (uint32_t i = 0; i < layout->num_fastbins; i++)
		ret->fastbins[i] = words[layout->fastbins / 8 + i];
	for (uint32_t i = 1; i < HF_MALLOC_NUM_BINS; i++) {
		ret->bins[i].fd = words[layout->bins / 8 + 2 * (i - 1)];
		ret->bins[i].bk = words[layout->bins / 8 + 2 * (i - 1) + 1];
	}
	if (lock != 0)
		hf_anomaly_add(heap->anomalies, HF_GLIBC_READER,
			       "arena locked", addr, "a thread was stopped "
			       "inside malloc: free lists may be half changed");
	/* Before its first use, top is the bin of unsorted chunks. */
	if (ret->top == 0 || ret->top - addr < layout->state_bytes) {
		ret->top = 0;
	} else if (hf_pages_peek_u64(heap->pages, ret->top + 8,
				     &ret->top_bytes)) {
		ret->top_bytes &= ~(uint64_t)(HF_CHUNK_ALIGN - 1);
	} else {
		hf_anomaly_add(heap->anomalies, HF_GLIBC_READER,
			       "top of an arena", addr,
			       "top 0x%" PRIx64 " is not readable", ret->top);
		ret->top = 0;
	}
	return true;
}

static bool is_known_arena(const struct hf_glibc_heap *heap, uint64_t addr)
{
	for (size_t i = 0; i < heap->arenas.num; i++) {
		if (heap->arenas.data[i].addr == addr)
			return true;
	}
	return false;
}

struct hf_error *hf_arenas_read(struct hf_glibc_heap *heap)
{
	uint64_t addr = heap->main_arena;

	do {
		struct hf_malloc_arena arena;
		uint64_t next, ar_ptr;
		struct hf_error *err = hf_work_turn(heap->work);

		if (err)
			return err;
		if (!read_arena(heap, addr, &arena, &next)) {
			if (addr == heap->main_arena)
				return hf_error_fault(addr);
			hf_anomaly_add(heap->anomalies, HF_GLIBC_READER,
				       "list of arenas", addr,
				       "arena is not readable");
			break;
		}
		/* An arena of a thread stands behind its heap_info. */
		if (addr != heap->main_arena &&
		    ((addr - heap->layout.heap_info_bytes) % PAGE != 0 ||
		     !hf_pages_peek_u64(heap->pages,
					addr - heap->layout.heap_info_bytes,
					&ar_ptr) ||
		     ar_ptr != addr)) {
			hf_anomaly_add(heap->anomalies, HF_GLIBC_READER,
				       "list of arenas", addr,
				       "no heap_info before the arena");
			break;
		}
		err = hf_array_append(&heap->arenas, arena);
		if (err)
			return err;
		addr = next;
		if (addr != heap->main_arena && is_known_arena(heap, addr)) {
			hf_anomaly_add(heap->anomalies, HF_GLIBC_READER,
				       "list of arenas", addr,
				       "the list is a loop without "
				       "main_arena");
			break;
		}
	} while (addr != heap->main_arena && addr != 0 &&
		 heap->arenas.num < MAX_ARENAS);
	return NULL;
}

static bool read_heap_info(const struct hf_glibc_heap *heap, uint64_t addr,
			   uint64_t arena, uint64_t *prev_ret,
			   uint64_t *size_ret)
{
	uint64_t words[3];

	if (!hf_pages_peek(heap->pages, addr, words, sizeof(words)) ||
	    words[0] != arena)
		return false;
	*prev_ret = words[1];
	*size_ret = words[2];
	return true;
}

/* The heap that holds the top of an arena, or 0. */
static uint64_t find_newest_heap(const struct hf_glibc_heap *heap,
				 const struct hf_malloc_arena *arena)
{
	const uint64_t sizes[] = {
		heap->parameters.hp_pagesize * 4, UINT64_C(64) << 20,
		UINT64_C(8) << 20, UINT64_C(4) << 30,
	};
	uint64_t prev, size;

	if (!arena->top)
		return 0;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t addr = arena->top & ~(sizes[i] - 1);

		if (sizes[i] == 0 || (sizes[i] & (sizes[i] - 1)) != 0)
			continue;
		if (read_heap_info(heap, addr, arena->addr, &prev, &size) &&
		    arena->top - addr < size)
			return addr;
	}
	return 0;
}

static struct hf_error *find_heaps(struct hf_glibc_heap *heap,
				   uint32_t arena_id, size_t max_heaps)
{
	const struct hf_malloc_arena *arena = &heap->arenas.data[arena_id];
	const struct hf_malloc_layout *layout = &heap->layout;
	uint64_t oldest = arena->addr - layout->heap_info_bytes;
	uint64_t addr = find_newest_heap(heap, arena), total = 0;
	bool saw_oldest = false;
	struct hf_error *err;

	if (!addr) {
		hf_anomaly_add(heap->anomalies, HF_GLIBC_READER,
			       "top of an arena", arena->addr,
			       "no heap of it holds top 0x%" PRIx64,
			       arena->top);
		addr = oldest;
	}
	for (uint32_t i = 0; addr; i++) {
		const struct hf_range *extent = hf_extent_at(heap, addr);
		struct hf_malloc_region region = {
			.arena = arena_id, .is_heap = true, .start = addr,
		};
		uint64_t prev, size;

		err = hf_work_turn(heap->work);
		if (err)
			return err;
		if (heap->regions.num >= max_heaps) {
			hf_anomaly_add(heap->anomalies, HF_GLIBC_READER,
				       "heap_info", addr,
				       "more heaps than pages: a loop");
			break;
		}
		if (!extent || addr % PAGE != 0 ||
		    !read_heap_info(heap, addr, arena->addr, &prev, &size) ||
		    size < PAGE || size % PAGE != 0) {
			hf_anomaly_add(heap->anomalies, HF_GLIBC_READER,
				       "heap_info", addr,
				       "heap %" PRIu32 " of the arena at 0x%"
				       PRIx64, i, arena->addr);
			break;
		}
		if (size > extent->end - addr) {
			hf_anomaly_add(heap->anomalies, HF_GLIBC_READER,
				       "heap_info", addr, "size 0x%" PRIx64
				       ", but only 0x%" PRIx64 " are mapped",
				       size, extent->end - addr);
			size = extent->end - addr;
		}
		region.end = addr + size;
		region.first = addr + layout->heap_info_bytes;
		if (addr == oldest) {
			saw_oldest = true;
			region.first = hf_chunk_align(arena->addr +
						      layout->state_bytes);
		}
		if (region.first > region.end)
			break;
		if (arena->top - region.first < region.end - region.first)
			region.top = arena->top;
		err = hf_array_append(&heap->regions, region);
		if (err)
			return err;
		total += size;
		addr = saw_oldest ? 0 : prev;
	}
	if (!saw_oldest)
		hf_anomaly_add(heap->anomalies, HF_GLIBC_READER, "heap_info",
			       arena->addr, "the list of heaps does not lead "
			       "to the first one");
	else if (total != arena->system_mem)
		hf_anomaly_add(heap->anomalies, HF_GLIBC_READER,
			       "system_mem of an arena", arena->addr,
			       "it says 0x%" PRIx64 ", its heaps have 0x%"
			       PRIx64, arena->system_mem, total);
	return NULL;
}

/* Without mp_: the main heap begins with the brk segment, or some bytes later
 * in a static program, whose start-up code takes the TLS block of the main
 * thread from sbrk before malloc is ready. */
static uint64_t find_first_chunk(const struct hf_glibc_heap *heap,
				 const struct hf_range *extent, uint64_t top)
{
	struct hf_chain chain = { extent->end, top, false };
	uint64_t last = extent->end, addr;
	enum { NEED = 1000, MAX_BEFORE = 1 << 20 };

	if (top >= extent->start && top < extent->end)
		last = top + 1;
	if (last - extent->start > MAX_BEFORE)
		last = extent->start + MAX_BEFORE;
	for (addr = extent->start; addr < last; addr += HF_CHUNK_ALIGN) {
		if (hf_chain_holds(heap, &chain, addr, NEED))
			return addr;
	}
	return extent->start;
}

/* Where the main region ends: with top; or with the first fenceposts, and what
 * comes after them is looked for as another segment; or, when the chunks are
 * damaged, nobody knows before the walk. */
static void set_main_end(const struct hf_glibc_heap *heap,
			 const struct hf_malloc_arena *arena,
			 const struct hf_range *extent,
			 struct hf_malloc_region *region)
{
	const struct hf_segment *segment;
	struct hf_chain chain = { extent->end, arena->top, false };

	if (!arena->noncontiguous &&
	    arena->top - region->start < extent->end - region->start &&
	    arena->top_bytes <= extent->end - arena->top) {
		/* All of it, also when others took some in between. */
		region->top = arena->top;
		region->end = arena->top + arena->top_bytes;
		return;
	}
	region->end = hf_chain_end(heap, &chain, region->first);
	if (!region->end) {
		segment = hf_image_find_segment(heap->image, region->start);
		region->end = segment ? segment->end : extent->end;
		region->open_end = true;
	}
	if (arena->top - region->start < region->end - region->start)
		region->top = arena->top;
}

static struct hf_error *find_main_region(struct hf_glibc_heap *heap)
{
	const struct hf_malloc_arena *arena = &heap->arenas.data[0];
	struct hf_malloc_region region = { .arena = 0 };
	const struct hf_range *extent = NULL;
	uint64_t start = heap->parameters.sbrk_base;

	if (arena->system_mem == 0)
		return NULL; /* never used */
	if (start) {
		extent = hf_extent_at(heap, start);
	} else {
		size_t num;
		const struct hf_segment *segments =
			hf_image_segments(heap->image, &num);

		for (size_t i = 0; i < num && !extent; i++) {
			if (segments[i].kind == HF_SEGMENT_BRK)
				extent = hf_extent_at(heap, segments[i].start);
			if (extent)
				start = segments[i].start;
		}
		if (extent) {
			struct hf_range range = { start, extent->end };

			start = find_first_chunk(heap, &range, arena->top);
		}
	}
	if (!extent) {
		/* Without mp_ and brk: hf_mappings_scan finds the segments. */
		if (start || !arena->noncontiguous)
			hf_anomaly_add(heap->anomalies, HF_GLIBC_READER,
				       "start of the main heap", start,
				       "not mapped");
		return NULL;
	}
	region.start = start;
	region.first = hf_chunk_align(start);
	set_main_end(heap, arena, extent, &region);
	return hf_array_append(&heap->regions, region);
}

struct hf_error *hf_regions_find(struct hf_glibc_heap *heap)
{
	struct hf_error *err = find_main_region(heap);
	size_t num, max_heaps = 1; /* the main one */
	const struct hf_range *resident = hf_image_resident(heap->image, &num);

	/* Each has its heap_info in a page that is there. */
	for (size_t i = 0; i < num; i++)
		max_heaps += (resident[i].end - resident[i].start) / PAGE;
	for (size_t i = 1; i < heap->arenas.num && !err; i++)
		err = find_heaps(heap, i, max_heaps);
	return err ? err : hf_work_check(heap->work);
}

static int compare_regions(const void *a, const void *b)
{
	const struct hf_malloc_region *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

void hf_regions_sort(struct hf_glibc_heap *heap)
{
	size_t num = 0;

	if (heap->regions.num == 0)
		return;
	qsort(heap->regions.data, heap->regions.num,
	      sizeof(heap->regions.data[0]), compare_regions);
	for (size_t i = 0; i < heap->regions.num; i++) {
		struct hf_malloc_region *region = &heap->regions.data[i];

		if (num > 0 &&
		    region->start < heap->regions.data[num - 1].end) {
			struct hf_malloc_region *last =
				&heap->regions.data[num - 1];

			/* An end that is only a limit gives way. */
			if (last->open_end && region->start >= last->first +
							       HF_CHUNK_MIN) {
				last->end = region->start;
			} else {
				hf_anomaly_add(heap->anomalies,
					       HF_GLIBC_READER,
					       "overlapping heaps",
					       region->start, "arenas %" PRIu32
					       " and %" PRIu32, last->arena,
					       region->arena);
				continue;
			}
		}
		heap->regions.data[num++] = *region;
	}
	heap->regions.num = num;
}
