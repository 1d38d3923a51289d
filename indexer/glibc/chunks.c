/* Chunks: the walk through one region, and around its damage.
 * SPDX-License-Identifier: MIT */
#include "indexer/glibc/chunks.h"

#include <inttypes.h>
#include <string.h>

/* A chunk (glibc 2.17 .. 2.42, malloc/malloc.c "Chunk representations"):
 *
 *   chunk ->  +0  prev_size   size of the chunk before, if that is free;
 *                             else the last 8 bytes of its user's data
 *             +8  size | A M P
 *   mem   -> +16  user's data, or when free: fd
 *            +24                             bk
 *   next  ->  +size
 *
 *   P  PREV_INUSE: the chunk before is in use. Whether *this* chunk is in use
 *      is said by the next one's P. Chunks in tcaches and fastbins are "in
 *      use" here.
 *   M  IS_MMAPPED: has its own mapping, is in no region
 *   A  NON_MAIN_ARENA: belongs to a thread's arena; only on chunks in use
 *
 * The newest region of an arena ends in `top`. Others end in fenceposts:
 *
 *   a thread's heap              a segment of the main arena
 *     +0   prev_size               +0   ..
 *     +8   0x10 | P?               +8   0x10 | P?
 *     +16  0x10                    +16  ..
 *     +24  0 | P                   +24  0x10 | P
 *   end +32                      end +32
 *
 * or, when the old top was too small for that, a heap ends in one chunk of
 * 0x20 bytes before the 0 | P, and a segment in three of 0x10.
 */

enum {
	PREV_INUSE = 1,
	IS_MMAPPED = 2,
	NON_MAIN_ARENA = 4,
	SIZE_FLAGS = 7,
};

enum {
	READ_MIN = 16 * 1024,
	READ_MAX = 1024 * 1024,
	CHAIN_NEED = 12,            /* chunks in a row that prove a start */
	/* Addresses tried while looking for a start, for each region, where a
	 * chain costs as much as many of them: a second at most, then the rest
	 * of the region is given up. */
	RESYNC_BUDGET = 1 << 26,
	CHAIN_COST = 16 * CHAIN_NEED,
};

struct hf_chunk_walk {
	const struct hf_glibc_heap *heap; /* borrowed */
	const struct hf_progress *progress;
	uint64_t done_bytes;              /* for progress */
	/* The piece of the region that is being looked at: */
	uint64_t buf_addr, limit;
	size_t buf_len, ask;
	uint64_t *buf;                    /* READ_MAX bytes */
	/* The last entry, if it is a chunk: whether it is free is known at the
	 * next one's header. */
	bool has_last;
	uint64_t last, last_bytes, last_fd, last_bk, last_flags;
	bool last_is_tcache;
	bool keeps_links;                 /* there may be long lists */
	size_t resync_budget;
};

struct hf_error *hf_chunk_walk_create(const struct hf_glibc_heap *heap,
				      const struct hf_progress *progress,
				      struct hf_chunk_walk **ret)
{
	HF_AUTO_FREE struct hf_chunk_walk *walk = calloc(1, sizeof(*walk));

	if (!walk)
		return &hf_enomem;
	walk->buf = malloc(READ_MAX);
	if (!walk->buf)
		return &hf_enomem;
	walk->heap = heap;
	walk->progress = progress;
	*ret = HF_TAKE(walk);
	return NULL;
}

void hf_chunk_walk_destroy(struct hf_chunk_walk *walk)
{
	if (!walk)
		return;
	free(walk->buf);
	free(walk);
}

/* Borrow len bytes at addr (multiple of 16) until the next call, or NULL. */
static const uint64_t *view(struct hf_chunk_walk *walk, uint64_t addr,
			    size_t len)
{
	uint64_t want;

	if (addr - walk->buf_addr < walk->buf_len &&
	    walk->buf_len - (addr - walk->buf_addr) >= len)
		return walk->buf + (addr - walk->buf_addr) / 8;
	if (addr >= walk->limit || walk->limit - addr < len)
		return NULL;
	/* Read more and more while the walk goes on where the last piece
	 * ended, less when it skips over large chunks. */
	if (addr - walk->buf_addr <= walk->buf_len + walk->ask)
		walk->ask = walk->ask * 2 > READ_MAX ? READ_MAX :
						       walk->ask * 2;
	else
		walk->ask = READ_MIN;
	want = walk->limit - addr < walk->ask ? walk->limit - addr : walk->ask;
	walk->buf_addr = addr;
	walk->buf_len = hf_image_read_some(walk->heap->image, addr, walk->buf,
					   want);
	return walk->buf_len >= len ? walk->buf : NULL;
}

/* A chunk of the right size: could it be a tcache with something in it?
 * A thread may have been stopped between an entry and its count, so one list
 * may disagree. */
static bool looks_like_tcache(const struct hf_malloc_layout *layout,
			      const void *bytes)
{
	const uint8_t *counts = bytes;
	const uint64_t *entries =
		(const uint64_t *)(counts + layout->tcache_entries);
	uint32_t num = 0, wrong = 0;

	for (uint32_t i = 0; i < layout->tcache_num; i++) {
		uint64_t entry = entries[i];
		uint16_t count = 0;

		if (entry % HF_CHUNK_ALIGN != 0)
			return false;
		num += entry != 0;
		if (layout->tcache != HF_TCACHE_COUNTS)
			continue;
		memcpy(&count, counts + i * layout->tcache_count_bytes,
		       layout->tcache_count_bytes);
		wrong += (count == 0) != (entry == 0);
	}
	return num > 0 && wrong <= (num > 1 ? 1 : 0);
}

/* Keep the first word of what may be in a list: it leads to this region. (With
 * safe-linking that is rare for user's data; without, any pointer will do.) */
static struct hf_error *keep_link(struct hf_chunk_walk *walk,
				  const struct hf_malloc_region *region,
				  struct hf_chunk_table *table)
{
	uint64_t target = hf_link_target(&walk->heap->layout,
					 walk->last + HF_CHUNK_HEADER,
					 walk->last_fd);

	if (target % HF_CHUNK_ALIGN != 0 ||
	    (target - region->start >= region->end - region->start &&
	     (target != 0 || !walk->heap->layout.safe_linking)))
		return NULL;
	return hf_chunk_table_add_link(table, walk->last, walk->last_bytes,
				       walk->last_fd);
}

/* The next header says whether the last chunk is in use. */
static struct hf_error *settle_last(struct hf_chunk_walk *walk,
				    const struct hf_malloc_region *region,
				    struct hf_chunk_table *table, bool in_use,
				    uint64_t prev_size)
{
	struct hf_anomalies *anomalies = walk->heap->anomalies;
	struct hf_free_chunk chunk;
	uint64_t units;

	if (!walk->has_last)
		return NULL;
	walk->has_last = false;
	units = walk->last_bytes / HF_CHUNK_ALIGN;
	if (in_use) {
		if (region->is_heap != !!(walk->last_flags & NON_MAIN_ARENA))
			hf_anomaly_add(anomalies, HF_GLIBC_READER,
				       "arena bit of a chunk", walk->last,
				       "flags 0x%" PRIx64, walk->last_flags);
		if (walk->last_is_tcache)
			return hf_array_append(&table->tcaches,
					       walk->last + HF_CHUNK_HEADER);
		if (walk->keeps_links && units < HF_CHUNK_LINK_UNITS)
			return keep_link(walk, region, table);
		return NULL;
	}
	if (prev_size != walk->last_bytes)
		hf_anomaly_add(anomalies, HF_GLIBC_READER,
			       "prev_size of a chunk",
			       walk->last + walk->last_bytes,
			       "it is 0x%" PRIx64 ", the chunk before has 0x%"
			       PRIx64, prev_size, walk->last_bytes);
	hf_chunk_table_set_state(table, table->entries.num - 1, HF_CHUNK_FREE);
	chunk = (struct hf_free_chunk){
		.addr = walk->last, .fd = walk->last_fd, .bk = walk->last_bk,
		.size_units = units > UINT32_MAX ? UINT32_MAX : units,
	};
	return hf_array_append(&table->frees, chunk);
}

static struct hf_error *append(struct hf_chunk_walk *walk,
			       struct hf_chunk_table *table, uint64_t bytes,
			       enum hf_chunk_state state)
{
	walk->has_last = false;
	return hf_chunk_table_append(table, bytes, state);
}

/* The first address from `from` on where a chain of chunks begins, or the
 * region's end. */
static uint64_t find_chain(struct hf_chunk_walk *walk,
			   const struct hf_malloc_region *region,
			   uint64_t from)
{
	struct hf_chain chain = { region->end, region->top, region->is_heap };
	uint64_t addr = hf_chunk_align(from);

	while (addr < region->end && region->end - addr >= HF_CHUNK_HEADER) {
		const uint64_t *header;
		uint64_t size;

		if (walk->resync_budget == 0 ||
		    !hf_work_step(walk->heap->work))
			return region->end;
		walk->resync_budget--;
		header = view(walk, addr, HF_CHUNK_HEADER);
		if (!header) { /* a hole: on with the next page */
			addr = (addr + 4096) & ~UINT64_C(4095);
			continue;
		}
		size = header[1] & ~(uint64_t)SIZE_FLAGS;
		if (addr == region->top ||
		    (size >= HF_CHUNK_MIN && size % HF_CHUNK_ALIGN == 0 &&
		     size <= region->end - addr &&
		     !(header[1] & IS_MMAPPED))) {
			size_t cost = CHAIN_COST;

			if (hf_chain_holds(walk->heap, &chain, addr,
					   CHAIN_NEED))
				return addr;
			walk->resync_budget -= walk->resync_budget < cost ?
						       walk->resync_budget :
						       cost;
		}
		addr += HF_CHUNK_ALIGN;
	}
	return region->end;
}

/* What is at addr is no chunk. Skip to where chunks begin again. */
static struct hf_error *skip_damage(struct hf_chunk_walk *walk,
				    struct hf_malloc_region *region,
				    struct hf_chunk_table *table,
				    const char *kind, uint64_t word,
				    uint64_t *addr)
{
	uint64_t bad = *addr, from = bad + HF_CHUNK_ALIGN, next;
	struct hf_error *err;

	/* Perhaps it is the size of the chunk before that is wrong, and real
	 * chunks begin inside of it. */
	if (walk->has_last)
		from = walk->last + HF_CHUNK_ALIGN;
	next = find_chain(walk, region, from);
	hf_anomaly_add(walk->heap->anomalies, HF_GLIBC_READER, kind, bad,
		       "size word 0x%" PRIx64 ", next chunks at 0x%" PRIx64,
		       word, next);
	if (walk->has_last && next < bad) {
		err = hf_chunk_table_resize_last(table, next - walk->last);
		if (err)
			return err;
		walk->has_last = false;
		*addr = next;
		return NULL;
	}
	err = settle_last(walk, region, table, true, 0);
	if (err)
		return err;
	if (next >= region->end && region->open_end) {
		region->end = bad; /* nothing proves that there is more */
		return NULL;
	}
	if (next - bad >= HF_CHUNK_ALIGN) {
		/* The end of a region may not be a multiple of 16. */
		uint64_t bytes = (next - bad) & ~(uint64_t)(HF_CHUNK_ALIGN - 1);

		err = append(walk, table, bytes, HF_CHUNK_GAP);
		if (err)
			return err;
	}
	*addr = next;
	return NULL;
}

/* The header at addr is a fencepost of a segment of the main arena. What
 * follows it belongs to others, to a later segment, or to nobody. */
static struct hf_error *pass_fenceposts(struct hf_chunk_walk *walk,
					struct hf_malloc_region *region,
					struct hf_chunk_table *table,
					uint64_t *addr)
{
	struct hf_chain chain = { region->end, region->top, false };
	const uint64_t *header;
	uint64_t next;
	struct hf_error *err;

	while (region->end - *addr >= HF_CHUNK_HEADER &&
	       (header = view(walk, *addr, HF_CHUNK_HEADER)) &&
	       header[1] == (HF_CHUNK_HEADER | PREV_INUSE)) {
		err = append(walk, table, HF_CHUNK_HEADER, HF_CHUNK_FENCE);
		if (err)
			return err;
		*addr += HF_CHUNK_HEADER;
	}
	if (region->end - *addr < HF_CHUNK_MIN) {
		if (region->open_end)
			region->end = *addr;
		*addr = region->end;
		return NULL;
	}
	if (hf_chain_holds(walk->heap, &chain, *addr, CHAIN_NEED))
		return NULL;
	next = find_chain(walk, region, *addr);
	if (next >= region->end && region->open_end) {
		region->end = *addr;
		return NULL;
	}
	if (next >= region->end)
		hf_anomaly_add(walk->heap->anomalies, HF_GLIBC_READER,
			       "no chunks after fenceposts", *addr,
			       "0x%" PRIx64 " bytes up to the end of the heap",
			       region->end - *addr);
	else
		region->foreign_bytes += next - *addr;
	err = append(walk, table,
		     (next - *addr) & ~(uint64_t)(HF_CHUNK_ALIGN - 1),
		     HF_CHUNK_GAP);
	*addr = next;
	return err;
}

static struct hf_error *append_chunk(struct hf_chunk_walk *walk,
				     struct hf_chunk_table *table,
				     uint64_t addr, uint64_t size,
				     uint64_t flags)
{
	const uint64_t *chunk = view(walk, addr, HF_CHUNK_MIN);
	uint64_t fd = chunk ? chunk[2] : 0, bk = chunk ? chunk[3] : 0;
	struct hf_error *err;
	bool is_tcache = false;

	if (hf_is_tcache_chunk(&walk->heap->layout, size)) {
		/* Its last list may be where the next chunk's prev_size is. */
		chunk = view(walk, addr, HF_CHUNK_HEADER +
			     hf_chunk_align(walk->heap->layout.tcache_bytes));
		is_tcache = chunk && looks_like_tcache(&walk->heap->layout,
						       chunk + 2);
	}
	err = append(walk, table, size, HF_CHUNK_LIVE);
	if (err)
		return err;
	walk->has_last = true;
	walk->last = addr;
	walk->last_bytes = size;
	walk->last_fd = fd;
	walk->last_bk = bk;
	walk->last_flags = flags;
	walk->last_is_tcache = is_tcache;
	return NULL;
}

/* The end of a thread's heap: 0 | P. What lies before it, if it is not the
 * usual fencepost, is one of 0x20 bytes that looks like a chunk in use. */
static struct hf_error *end_heap(struct hf_chunk_walk *walk,
				 struct hf_chunk_table *table)
{
	if (walk->has_last && walk->last_bytes == HF_CHUNK_MIN &&
	    !(walk->last_flags & NON_MAIN_ARENA))
		hf_chunk_table_set_state(table, table->entries.num - 1,
					 HF_CHUNK_FENCE);
	else if (walk->has_last)
		hf_anomaly_add(walk->heap->anomalies, HF_GLIBC_READER,
			       "fenceposts", walk->last, "the last chunk of "
			       "a heap has 0x%" PRIx64 " bytes",
			       walk->last_bytes);
	return append(walk, table, HF_CHUNK_HEADER, HF_CHUNK_FENCE);
}

/* Fastbins have no limit; tcaches have, unless somebody raised it. */
static bool may_have_long_lists(const struct hf_glibc_heap *heap,
				const struct hf_malloc_arena *arena)
{
	for (uint32_t i = 0; i < heap->layout.num_fastbins; i++) {
		if (arena->fastbins[i])
			return true;
	}
	return heap->parameters.tcache_count > 100;
}

struct hf_error *hf_chunk_walk_region(struct hf_chunk_walk *walk,
				      struct hf_malloc_region *region,
				      struct hf_chunk_table *table)
{
	const struct hf_malloc_arena *arena =
		&walk->heap->arenas.data[region->arena];
	uint64_t addr = hf_chunk_align(region->first), reported = addr;
	struct hf_error *err = NULL;

	if (addr != region->first) {
		hf_anomaly_add(walk->heap->anomalies, HF_GLIBC_READER,
			       "first chunk of a heap", region->first,
			       "not aligned");
		region->first = addr;
	}
	walk->limit = region->end;
	walk->buf_addr = walk->buf_len = 0;
	walk->ask = READ_MIN;
	walk->has_last = false;
	walk->keeps_links = may_have_long_lists(walk->heap, arena);
	walk->resync_budget = RESYNC_BUDGET;
	region->first_entry = table->entries.num;
	region->foreign_bytes = 0;

	while (!err && addr < region->end &&
	       region->end - addr >= HF_CHUNK_HEADER) {
		const uint64_t *header = view(walk, addr, HF_CHUNK_HEADER);
		uint64_t size, flags, left = region->end - addr, prev_size;

		if (addr - reported >= READ_MAX) {
			walk->done_bytes += addr - reported;
			reported = addr;
			err = hf_progress_update(walk->progress, "heap",
						 walk->done_bytes, 0);
			if (err)
				break;
		}
		err = hf_work_turn(walk->heap->work);
		if (err)
			break;
		if (!header) {
			err = skip_damage(walk, region, table,
					  "unreadable chunk", 0, &addr);
			continue;
		}
		prev_size = header[0];
		size = header[1] & ~(uint64_t)SIZE_FLAGS;
		flags = header[1] & SIZE_FLAGS;
		if (addr == region->top) {
			if (size < HF_CHUNK_MIN || size % HF_CHUNK_ALIGN ||
			    size > left) {
				hf_anomaly_add(walk->heap->anomalies,
					       HF_GLIBC_READER, "top chunk",
					       addr, "size word 0x%" PRIx64,
					       header[1]);
				size = left & ~(uint64_t)(HF_CHUNK_ALIGN - 1);
			}
			err = settle_last(walk, region, table,
					  flags & PREV_INUSE, prev_size);
			if (!err)
				err = append(walk, table, size, HF_CHUNK_TOP);
			if (region->open_end)
				region->end = addr + size;
			addr = region->end;
			break;
		}
		if (region->is_heap && header[1] == PREV_INUSE &&
		    left < HF_CHUNK_MIN) {
			err = end_heap(walk, table);
			addr = region->end;
			break;
		}
		if ((flags & IS_MMAPPED) || size > left ||
		    size % HF_CHUNK_ALIGN || size < HF_CHUNK_HEADER) {
			err = skip_damage(walk, region, table, "chunk size",
					  header[1], &addr);
			continue;
		}
		/* A thread was stopped while it cut a chunk from top, or put one
		 * to it: one of the two was not written yet. */
		if (arena->suspect && addr < region->top &&
		    size > region->top - addr)
			size = region->top - addr;
		if (size == HF_CHUNK_HEADER) {
			struct hf_chain chain = { region->end, region->top,
						  region->is_heap };

			if (!hf_chain_holds(walk->heap, &chain, addr, 1)) {
				err = skip_damage(walk, region, table,
						  "chunk size", header[1],
						  &addr);
				continue;
			}
			err = settle_last(walk, region, table,
					  flags & PREV_INUSE, prev_size);
			if (!err)
				err = append(walk, table, size,
					     HF_CHUNK_FENCE);
			addr += size;
			if (!err && !region->is_heap)
				err = pass_fenceposts(walk, region, table,
						      &addr);
			continue;
		}
		err = settle_last(walk, region, table,
				  flags & PREV_INUSE, prev_size);
		if (!err)
			err = append_chunk(walk, table, addr, size, flags);
		addr += size;
	}
	if (!err)
		err = settle_last(walk, region, table, true, 0);
	if (!err && region->end != addr && !region->open_end)
		hf_anomaly_add(walk->heap->anomalies, HF_GLIBC_READER,
			       "end of a heap", addr, "chunks end 0x%" PRIx64
			       " bytes before it", region->end - addr);
	walk->done_bytes += addr - reported;
	region->num_entries = table->entries.num - region->first_entry;
	return err;
}
