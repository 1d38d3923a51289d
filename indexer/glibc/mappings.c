/* Mappings: find mmapped chunks and segments by what they look like.
 * SPDX-License-Identifier: MIT */
#include "indexer/glibc/mappings.h"

#include <inttypes.h>

#include "indexer/glibc/arenas.h"
#include "indexer/glibc/chunks.h"

/* A chunk with its own mapping (glibc 2.17 .. 2.42, sysmalloc_mmap):
 *
 *   mapping -> +0  prev_size = 0
 *              +8  size | M       size: that of the mapping
 *             +16  user's data, size - 16 bytes
 *
 * memalign() leaves that header and writes another one further on, so that the
 * data behind it are aligned; the bytes in between are lost:
 *
 *   mapping -> +0  0, size | M             as above, now stale
 *           +lead  prev_size = lead
 *         +lead+8  (size - lead) | M
 *        +lead+16  user's data, aligned
 *
 * realloc() may resize the mapping, and the stale header keeps the old size; it
 * may also move it to a base with another alignment. From 2.43 on, the mapping is 16 bytes longer than lead + size,
 * and bit 0 of prev_size says that it has huge pages.
 *
 * mp_.n_mmaps and mp_.mmapped_mem count them: once both agree, the search is
 * over. Neighbouring mappings may be merged by the kernel, so it goes on behind
 * each hit. Three searches, each when the one before did not find all: from
 * the starts of mappings; from every page; and from every page with the aligned
 * chunk at any place where memalign could have put it before a move, which
 * looks at every page of large chunks.
 */

enum {
	PREV_INUSE = 1,
	IS_MMAPPED = 2,
	SIZE_FLAGS = 7,
	PAGE = 4096,
};

/* Where a chain that led nowhere had its first chunk in each page: a chain
 * that comes to one of these goes the same way. Segments are looked for in
 * ascending order, and chains only go up, so that one trail is enough. */
struct trail {
	HF_ARRAY(uint64_t) addrs; /* ascending, one per page */
	uint64_t end;             /* where it led to */
};

struct scan {
	struct hf_glibc_heap *heap;
	struct trail dead, now; /* the one that went furthest; the new one */
	uint64_t chain_budget;  /* chunks that may still be looked at */
	uint64_t found_bytes;
	uint64_t segment_bytes; /* of the main arena, in regions */
	bool deep;              /* aligned chunks may have been moved */
	uint64_t deep_budget;   /* pages that may still be looked at for that */
};

enum { DEEP_BUDGET = 1 << 24 }; /* 64 GiB; some seconds */

static bool mmaps_complete(const struct scan *scan)
{
	const struct hf_glibc_heap *heap = scan->heap;

	return heap->parameters.addr &&
	       heap->mmapped.num == heap->parameters.n_mmaps &&
	       scan->found_bytes == heap->parameters.mmapped_mem;
}

static bool segments_complete(const struct scan *scan)
{
	const struct hf_malloc_arena *main_arena = &scan->heap->arenas.data[0];

	return !main_arena->noncontiguous ||
	       scan->segment_bytes >= main_arena->system_mem;
}

static bool scan_complete(const struct scan *scan)
{
	return mmaps_complete(scan) && segments_complete(scan);
}

/* Is there a chunk `lead` bytes into the mapping at start, ending with a page?
 * @return the end of the mapping, or 0. */
static uint64_t mmapped_end(const struct hf_glibc_heap *heap, uint64_t start,
			    uint64_t lead, uint64_t limit,
			    uint64_t *size_ret)
{
	uint64_t header[2], size, total, end;

	if (!hf_pages_peek(heap->pages, start + lead, header, sizeof(header)))
		return 0;
	if (heap->layout.mmap_tail)
		header[0] &= ~UINT64_C(1);
	size = header[1] & ~(uint64_t)SIZE_FLAGS;
	if ((header[1] & SIZE_FLAGS) != IS_MMAPPED || header[0] != lead ||
	    size % HF_CHUNK_ALIGN != 0 || size < HF_CHUNK_MIN ||
	    __builtin_add_overflow(size, lead + heap->layout.mmap_tail,
				   &total) ||
	    total % PAGE != 0 || __builtin_add_overflow(start, total, &end) ||
	    end > limit)
		return 0;
	*size_ret = size;
	return end;
}

/* An aligned chunk in a mapping that was moved since: at a power of two, or
 * at a multiple of a page, less the header. */
static bool find_moved(struct scan *scan, uint64_t start, uint64_t stale_bytes,
		       uint64_t limit, struct hf_mmapped_chunk *ret)
{
	const struct hf_glibc_heap *heap = scan->heap;
	uint64_t left = limit - start < stale_bytes ? limit - start :
						      stale_bytes;

	if ((stale_bytes + heap->layout.mmap_tail) % PAGE != 0)
		return false;
	for (uint64_t at = HF_CHUNK_MIN; at < left && scan->deep_budget &&
				       hf_work_step(heap->work);
	     at = at < PAGE ? at * 2 : at + PAGE) {
		scan->deep_budget--;
		ret->end = mmapped_end(heap, start, at - HF_CHUNK_HEADER, limit,
				       &ret->size_bytes);
		if (ret->end) {
			ret->chunk = start + at - HF_CHUNK_HEADER;
			return true;
		}
	}
	return false;
}

/* The chunk in the mapping at start, which may be an aligned one. */
static bool find_mmapped(struct scan *scan, uint64_t start, uint64_t limit,
			 struct hf_mmapped_chunk *ret)
{
	const struct hf_glibc_heap *heap = scan->heap;
	uint64_t size = 0, end = mmapped_end(heap, start, 0, limit, &size);
	uint64_t mem = start + HF_CHUNK_HEADER, last = 0;
	uint64_t header[2];

	/* The header at the start says M in every case. */
	if (!hf_pages_peek(heap->pages, start, header, sizeof(header)) ||
	    (header[1] & SIZE_FLAGS) != IS_MMAPPED ||
	    (header[0] & ~UINT64_C(1)) != 0)
		return false;
	ret->start = start;
	if (scan->deep && find_moved(scan, start, header[1] &
				     ~(uint64_t)SIZE_FLAGS, limit, ret))
		return true;
	ret->end = end;
	ret->chunk = start;
	ret->size_bytes = size;
	/* Where memalign could have put another one, alignment by alignment.
	 * The smallest lead first: user's data can only look like a header
	 * behind the real one. */
	for (uint64_t align = HF_CHUNK_MIN; align && align < limit - start;
	     align *= 2) {
		uint64_t aligned = (mem + align - 1) & ~(align - 1);
		uint64_t chunk = aligned - HF_CHUNK_HEADER, aligned_end;

		if (aligned < mem)
			break;
		if (chunk - start < HF_CHUNK_MIN && !heap->layout.mmap_tail)
			chunk += align;
		if (chunk == start || chunk == last || chunk >= limit)
			continue;
		last = chunk;
		aligned_end = mmapped_end(heap, start, chunk - start, limit,
					  &size);
		if (!aligned_end)
			continue;
		ret->end = aligned_end;
		ret->chunk = chunk;
		ret->size_bytes = size;
		return true;
	}
	return end != 0;
}

static void scan_deinit(struct scan *scan)
{
	hf_array_deinit(&scan->dead.addrs);
	hf_array_deinit(&scan->now.addrs);
}

/* The first address of a trail from addr on. */
static size_t trail_find(const struct trail *trail, uint64_t addr)
{
	size_t low = 0, high = trail->addrs.num;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (trail->addrs.data[mid] < addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Follow the chain from start until it ends, or leads nowhere, or comes to
 * the trail of one that led nowhere. *end_ret is 0 in both of these. */
static struct hf_error *follow_chain(struct scan *scan,
				     const struct hf_chain *chain,
				     uint64_t start, uint64_t *end_ret)
{
	struct hf_chain_at at = { .addr = start };
	size_t next_dead = trail_find(&scan->dead, start);
	enum hf_chain_step step = HF_CHAIN_CHUNK;
	uint64_t page = 0;

	*end_ret = 0;
	scan->now.addrs.num = 0;
	while (step == HF_CHAIN_CHUNK) {
		struct hf_error *err;

		while (next_dead < scan->dead.addrs.num &&
		       scan->dead.addrs.data[next_dead] < at.addr)
			next_dead++;
		if (next_dead < scan->dead.addrs.num &&
		    scan->dead.addrs.data[next_dead] == at.addr)
			return NULL;
		if (at.addr / PAGE != page) {
			page = at.addr / PAGE;
			err = hf_array_append(&scan->now.addrs, at.addr);
			if (err)
				return err;
		}
		if (scan->chain_budget == 0)
			return NULL;
		scan->chain_budget--;
		err = hf_work_turn(scan->heap->work);
		if (err)
			return err;
		step = hf_chain_go(scan->heap, chain, &at);
	}
	scan->now.end = at.addr;
	if (step == HF_CHAIN_END && at.addr % PAGE == 0) {
		*end_ret = at.addr;
	} else if (scan->now.end > scan->dead.end) {
		struct trail dead = scan->now;

		scan->now = scan->dead;
		scan->dead = dead;
	}
	return NULL;
}

/* A segment of the main arena: from its first chunk to fenceposts or top.
 * @param end_ret 0: none begins at start. */
static struct hf_error *find_segment(struct scan *scan, uint64_t start,
				     uint64_t limit, uint64_t *end_ret)
{
	const struct hf_glibc_heap *heap = scan->heap;
	const struct hf_malloc_arena *arena = &heap->arenas.data[0];
	struct hf_chain chain = { limit, arena->top, false };
	uint64_t header[2];

	*end_ret = 0;
	if (segments_complete(scan) ||
	    !hf_pages_peek(heap->pages, start, header, sizeof(header)) ||
	    header[0] != 0 || (header[1] & SIZE_FLAGS) != PREV_INUSE)
		return NULL;
	return follow_chain(scan, &chain, start, end_ret);
}

/* What begins at this page, if anything. @return its end, or 0. */
static struct hf_error *look_at(struct scan *scan, uint64_t start,
				uint64_t limit, uint64_t *end_ret)
{
	struct hf_glibc_heap *heap = scan->heap;
	struct hf_mmapped_chunk chunk = { 0 };
	struct hf_error *err = hf_work_turn(heap->work);
	uint64_t end;

	*end_ret = 0;
	if (err)
		return err;
	if (!mmaps_complete(scan) && find_mmapped(scan, start, limit, &chunk)) {
		*end_ret = chunk.end;
		scan->found_bytes += chunk.end - chunk.start;
		return hf_array_append(&heap->mmapped, chunk);
	}
	err = find_segment(scan, start, limit, &end);
	if (!err && end) {
		const struct hf_malloc_arena *arena = &heap->arenas.data[0];
		struct hf_malloc_region region = {
			.arena = 0, .start = start, .first = start, .end = end,
		};

		if (arena->top - start < end - start)
			region.top = arena->top;
		*end_ret = end;
		scan->segment_bytes += end - start;
		return hf_array_append(&heap->regions, region);
	}
	return err;
}

/* Whatever is known already: [start, end) of the next one at or after addr. */
static bool next_known(const struct hf_glibc_heap *heap, size_t num_regions,
		       size_t num_mmapped, uint64_t addr, struct hf_range *ret)
{
	size_t low = 0, high = num_regions;
	bool found = false;

	/* Both arrays are sorted and disjoint up to these numbers. */
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (heap->regions.data[mid].end > addr)
			high = mid;
		else
			low = mid + 1;
	}
	if (low < num_regions) {
		ret->start = heap->regions.data[low].start;
		ret->end = heap->regions.data[low].end;
		found = true;
	}
	low = 0;
	high = num_mmapped;
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (heap->mmapped.data[mid].end > addr)
			high = mid;
		else
			low = mid + 1;
	}
	if (low < num_mmapped &&
	    (!found || heap->mmapped.data[low].start < ret->start)) {
		ret->start = heap->mmapped.data[low].start;
		ret->end = heap->mmapped.data[low].end;
		found = true;
	}
	return found;
}

/* Free memory of an extent, [addr, limit): hits in a row from its start. */
static struct hf_error *scan_starts(struct scan *scan, uint64_t addr,
				    uint64_t limit)
{
	uint64_t end = 1;

	while (addr < limit && end && !scan_complete(scan)) {
		struct hf_error *err = look_at(scan, addr, limit, &end);

		if (err)
			return err;
		addr = end;
	}
	return NULL;
}

/* The same, at every page that is there. */
static struct hf_error *scan_pages(struct scan *scan, uint64_t addr,
				   uint64_t limit)
{
	size_t num, low = 0, high;
	const struct hf_range *resident = hf_image_resident(scan->heap->image,
							    &num);

	high = num;
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (resident[mid].end > addr)
			high = mid;
		else
			low = mid + 1;
	}
	while (addr < limit && low < num && !scan_complete(scan)) {
		struct hf_error *err;
		uint64_t end;

		if (addr < resident[low].start)
			addr = (resident[low].start + PAGE - 1) &
			       ~(uint64_t)(PAGE - 1);
		if (addr >= resident[low].end) {
			low++;
			continue;
		}
		if (addr >= limit)
			break;
		err = look_at(scan, addr, limit, &end);
		if (err)
			return err;
		addr = end ? end : addr + PAGE;
	}
	return NULL;
}

static int compare_mmapped(const void *a, const void *b)
{
	const struct hf_mmapped_chunk *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/* One pass over all free memory of all extents. */
static struct hf_error *scan_extents(struct scan *scan,
				     struct hf_error *(*scan_free)(
					     struct scan *scan, uint64_t addr,
					     uint64_t limit))
{
	struct hf_glibc_heap *heap = scan->heap;
	size_t num_regions = heap->regions.num;
	size_t num_mmapped = heap->mmapped.num;

	scan->dead.addrs.num = 0;
	scan->dead.end = 0;
	for (size_t i = 0; i < heap->extents.num; i++) {
		const struct hf_range *extent = &heap->extents.data[i];
		uint64_t addr = extent->start;

		while (addr < extent->end) {
			struct hf_range known;
			uint64_t limit = extent->end;
			struct hf_error *err;

			if (!next_known(heap, num_regions, num_mmapped, addr,
					&known) ||
			    known.start >= extent->end)
				known.start = known.end = extent->end;
			if (known.start > addr) {
				limit = known.start;
				err = scan_free(scan, addr, limit);
				if (err)
					return err;
			}
			addr = known.end;
		}
	}
	if (heap->mmapped.num)
		qsort(heap->mmapped.data, heap->mmapped.num,
		      sizeof(heap->mmapped.data[0]), compare_mmapped);
	hf_regions_sort(heap);
	return NULL;
}

/* How many chunks fit into all of the memory that is there, and as many more
 * for chains that led nowhere. */
static uint64_t chunks_at_most(const struct hf_glibc_heap *heap)
{
	size_t num;
	const struct hf_range *resident = hf_image_resident(heap->image, &num);
	uint64_t bytes = 0;

	for (size_t i = 0; i < num; i++)
		bytes += resident[i].end - resident[i].start;
	return 2 * (bytes / HF_CHUNK_MIN) + PAGE;
}

struct hf_error *hf_mappings_scan(struct hf_glibc_heap *heap)
{
	__attribute__((cleanup(scan_deinit))) struct scan scan = {
		.heap = heap, .deep_budget = DEEP_BUDGET,
	};
	const struct hf_malloc_parameters *parameters = &heap->parameters;
	struct hf_error *err = NULL;

	if (heap->arenas.num == 0)
		return NULL;
	scan.chain_budget = chunks_at_most(heap);
	for (size_t i = 0; i < heap->regions.num; i++) {
		if (heap->regions.data[i].arena == 0 &&
		    !heap->regions.data[i].open_end)
			scan.segment_bytes += heap->regions.data[i].end -
					      heap->regions.data[i].start;
	}
	if (!scan_complete(&scan))
		err = scan_extents(&scan, scan_starts);
	if (!err && !scan_complete(&scan))
		err = scan_extents(&scan, scan_pages);
	if (!err && parameters->addr && !mmaps_complete(&scan)) {
		/* What was found may be the stale header of a moved one. */
		heap->mmapped.num = 0;
		scan.found_bytes = 0;
		scan.deep = true;
		err = scan_extents(&scan, scan_pages);
	}
	if (!err)
		err = hf_work_check(heap->work);
	if (err)
		return err;
	if (parameters->addr && !mmaps_complete(&scan))
		hf_anomaly_add(heap->anomalies, HF_GLIBC_READER,
			       "mmapped chunks", parameters->addr,
			       "found %zu (0x%" PRIx64 " bytes), mp_ says %"
			       PRIu64 " (0x%" PRIx64 ")", heap->mmapped.num,
			       scan.found_bytes, parameters->n_mmaps,
			       parameters->mmapped_mem);
	return NULL;
}
