/* Free lists: what is cached, and whether the bins are in order.
 * SPDX-License-Identifier: MIT */
#include "indexer/glibc/free_lists.h"

#include <inttypes.h>
#include <string.h>

#include "indexer/glibc/arenas.h"

/* glibc 2.17 .. 2.42, malloc/malloc.c:
 *
 * fastbinsY[i]: singly linked through fd, for chunks of 32 + 16 * i bytes;
 *   links point to chunk headers. Up to 2.42.
 * tcache->entries[i]: singly linked through the first word of the user's
 *   bytes, and links point there. Sizes are 32 + 16 * i; from 2.42 on the
 *   lists from 64 on have chunks from 2^(10 + i - 64) up to twice that.
 * Safe-linking (2.32): a stored link is link ^ (address of the link >> 12);
 *   the heads in fastbinsY and entries are plain.
 *
 * The second word of a cached chunk's user bytes is the tcache's address
 * (2.29) or a random key (2.34): a hint only, nothing here depends on it.
 *
 * bins: circular and doubly linked through fd and bk. Bin i's header is a
 *   pretended chunk, so that its fd and bk are the two words of the bin:
 *   it stands 16 bytes before them. A free chunk is in exactly one.
 */

enum {
	SIZE_FLAGS = 7,
	FD = 16, /* offset in a chunk */
};

/* Marks are addresses of chunk headers with the reason in the low bits. */
enum mark {
	MARK_CACHED = 0,
	MARK_INTERNAL = 1,
	MARK_BITS = 15,
};

typedef HF_ARRAY(uint64_t) mark_array;

static void mark_array_deinit(mark_array *marks)
{
	hf_array_deinit(marks);
}

/* How many chunks of a size the walk saw: no list is longer. */
static uint64_t list_bound(const struct hf_chunk_table *table,
			   uint64_t min_bytes, uint64_t max_bytes)
{
	uint64_t units = min_bytes / HF_CHUNK_ALIGN;

	if (min_bytes == max_bytes && units < HF_CHUNK_NUM_COUNTS)
		return table->counts[units];
	return table->entries.num;
}

struct list {
	const char *kind;          /* of its anomalies */
	uint64_t addr;             /* of its head, for anomalies */
	uint64_t first;            /* chunk header */
	uint64_t min_bytes, max_bytes; /* of its chunks */
};

/* A chunk of a list: its size and link from the table, which is marked at
 * once, or from the target, with a mark for later. */
static struct hf_error *visit(const struct hf_glibc_heap *heap,
			      struct hf_chunk_table *table,
			      const struct list *list, uint64_t chunk,
			      mark_array *marks, uint64_t *next_ret,
			      bool *ok_ret)
{
	const struct hf_chunk_link *link = NULL;
	uint64_t words[2], size; /* size and fd */

	*ok_ret = false;
	if (chunk % HF_CHUNK_ALIGN == 0)
		link = hf_chunk_table_find_link(table, chunk);
	if (link) {
		size = (uint64_t)link->size_units * HF_CHUNK_ALIGN;
		words[0] = size;
		words[1] = link->stored;
	} else if (chunk % HF_CHUNK_ALIGN != 0 ||
		   !hf_pages_peek(heap->pages, chunk + 8, words,
				  sizeof(words))) {
		hf_anomaly_add(heap->anomalies, HF_GLIBC_READER, list->kind,
			       list->addr, "entry 0x%" PRIx64 " is no chunk",
			       chunk);
		return NULL;
	}
	size = words[0] & ~(uint64_t)SIZE_FLAGS;
	if (size < list->min_bytes || size > list->max_bytes) {
		hf_anomaly_add(heap->anomalies, HF_GLIBC_READER, list->kind,
			       list->addr, "entry 0x%" PRIx64 " has size 0x%"
			       PRIx64, chunk, words[0]);
		return NULL;
	}
	*next_ret = hf_link_target(&heap->layout, chunk + FD, words[1]);
	*ok_ret = true;
	if (!link)
		return hf_array_append(marks, chunk | MARK_CACHED);
	if (hf_chunk_table_state(table, link->entry) == HF_CHUNK_LIVE) {
		hf_chunk_table_set_state(table, link->entry, HF_CHUNK_CACHED);
		return NULL;
	}
	hf_anomaly_add(heap->anomalies, HF_GLIBC_READER, "cached chunk", chunk,
		       "twice in the caches");
	*ok_ret = false; /* from here on it has been followed already */
	return NULL;
}

/* Mark the chunks of a singly linked list. */
static struct hf_error *follow(const struct hf_glibc_heap *heap,
			       struct hf_chunk_table *table,
			       const struct list *list, bool links_to_user,
			       mark_array *marks, uint64_t *num_ret)
{
	uint64_t bound = list_bound(table, list->min_bytes, list->max_bytes);
	uint64_t chunk = list->first;

	*num_ret = 0;
	while (chunk) {
		struct hf_error *err;
		uint64_t next;
		bool ok;

		if (*num_ret >= bound) {
			hf_anomaly_add(heap->anomalies, HF_GLIBC_READER,
				       list->kind, list->addr,
				       "more than the %" PRIu64 " chunks of "
				       "its size: a loop, or damage", bound);
			return NULL;
		}
		err = visit(heap, table, list, chunk, marks, &next, &ok);
		if (err || !ok)
			return err;
		(*num_ret)++;
		chunk = links_to_user && next ? next - HF_CHUNK_HEADER : next;
	}
	return NULL;
}

static struct hf_error *follow_fastbins(const struct hf_glibc_heap *heap,
					struct hf_chunk_table *table,
					mark_array *marks)
{
	uint64_t num;

	for (size_t a = 0; a < heap->arenas.num; a++) {
		const struct hf_malloc_arena *arena = &heap->arenas.data[a];

		for (uint32_t i = 0; i < heap->layout.num_fastbins; i++) {
			uint64_t bytes = HF_CHUNK_MIN + HF_CHUNK_ALIGN * i;
			struct list list = {
				.kind = "fastbin",
				.addr = arena->addr + heap->layout.fastbins +
					8 * i,
				.first = arena->fastbins[i],
				.min_bytes = bytes, .max_bytes = bytes,
			};
			struct hf_error *err = follow(heap, table, &list,
						      false, marks, &num);

			if (err)
				return err;
		}
	}
	return NULL;
}

/* A copy of a tcache_perthread_struct. */
struct tcache {
	uint64_t addr;
	uint64_t num_entries; /* lists that are not empty */
	uint64_t entries[HF_TCACHE_MAX_BINS];
	uint16_t counts[HF_TCACHE_MAX_BINS];
};

static void list_sizes(uint32_t bin, uint64_t *min_ret, uint64_t *max_ret)
{
	if (bin < HF_TCACHE_SMALL_BINS) {
		*min_ret = *max_ret = HF_CHUNK_MIN + HF_CHUNK_ALIGN * bin;
		return;
	}
	*min_ret = UINT64_C(1) << (10 + bin - HF_TCACHE_SMALL_BINS);
	*max_ret = 2 * *min_ret - 1;
}

/* Read the tcache at a user address: a chunk of its size whose lists begin
 * with chunks of their sizes. @return false if it is none. */
static bool read_tcache(const struct hf_glibc_heap *heap, uint64_t addr,
			struct tcache *ret)
{
	const struct hf_malloc_layout *layout = &heap->layout;
	uint64_t words[HF_TCACHE_BYTES_MAX / 8], size, wrong = 0, same_slots = 0, good = 0;
	const uint8_t *bytes = (const uint8_t *)words;

	if (addr % HF_CHUNK_ALIGN != 0 || addr < HF_CHUNK_HEADER ||
	    !hf_pages_peek_u64(heap->pages, addr - 8, &size) ||
	    !hf_is_tcache_chunk(layout, size & ~(uint64_t)SIZE_FLAGS) ||
	    !hf_pages_peek(heap->pages, addr, words, layout->tcache_bytes))
		return false;
	memset(ret, 0, sizeof(*ret));
	ret->addr = addr;
	for (uint32_t i = 0; i < layout->tcache_num; i++) {
		uint64_t entry, min_bytes, max_bytes;

		memcpy(&entry, bytes + layout->tcache_entries + 8 * i, 8);
		memcpy(&ret->counts[i],
		       bytes + i * layout->tcache_count_bytes,
		       layout->tcache_count_bytes);
		ret->entries[i] = entry;
		if (layout->tcache == HF_TCACHE_COUNTS)
			wrong += (entry == 0) != (ret->counts[i] == 0);
		else
			same_slots += ret->counts[i] == ret->counts[0];
		if (!entry)
			continue;
		ret->num_entries++;
		list_sizes(i, &min_bytes, &max_bytes);
		if (entry % HF_CHUNK_ALIGN != 0 ||
		    !hf_pages_peek_u64(heap->pages, entry - 8, &size)) {
			wrong++;
			continue;
		}
		size &= ~(uint64_t)SIZE_FLAGS;
		if (size >= min_bytes && size <= max_bytes)
			good++;
		else
			wrong++;
	}
	/* With nothing in it, all must be as it was set up. */
	if (ret->num_entries == 0 && layout->tcache == HF_TCACHE_SLOTS)
		return same_slots == layout->tcache_num && ret->counts[0] != 0;
	/* One list may be half changed by a thread that was stopped. If more
	 * is wrong it is damaged; then several lists that begin with a chunk
	 * of just their size, and few that do not, say what it is. */
	return wrong <= (ret->num_entries > 1 ? 1 : 0) ||
	       (good >= 3 && ret->num_entries - good <= good / 4);
}

static struct hf_error *follow_tcache(const struct hf_glibc_heap *heap,
				      struct hf_chunk_table *table,
				      const struct tcache *tcache,
				      mark_array *marks)
{
	struct hf_error *err;

	for (uint32_t i = 0; i < heap->layout.tcache_num; i++) {
		uint64_t num;
		struct list list = {
			.kind = "tcache list",
			.addr = tcache->addr,
			.first = tcache->entries[i] ?
					 tcache->entries[i] - HF_CHUNK_HEADER :
					 0,
		};

		list_sizes(i, &list.min_bytes, &list.max_bytes);
		err = follow(heap, table, &list, true, marks, &num);
		if (err)
			return err;
		if (heap->layout.tcache == HF_TCACHE_COUNTS &&
		    num != tcache->counts[i])
			hf_anomaly_add(heap->anomalies, HF_GLIBC_READER,
				       "tcache count", tcache->addr,
				       "list %" PRIu32 " has %" PRIu64
				       " entries, counts says %u", i, num,
				       tcache->counts[i]);
	}
	return hf_array_append(marks, (tcache->addr - HF_CHUNK_HEADER) |
					      MARK_INTERNAL);
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* A word of a thread's static TLS that points to what may be a tcache. */
struct candidate {
	uint64_t addr;      /* user address */
	uint64_t distance;  /* of the word below the thread's descriptor */
	size_t thread;
	bool in_use;        /* has something in it: certain */
};

typedef HF_ARRAY(struct candidate) candidate_array;

static void candidate_array_deinit(candidate_array *array)
{
	hf_array_deinit(array);
}

enum {
	TLS_MAX = 64 * 1024, /* of one thread, below its descriptor */
	TLS_UNKNOWN = 4096,
};

static struct hf_error *find_candidates(const struct hf_glibc_heap *heap,
					candidate_array *ret)
{
	size_t num;
	const struct hf_thread *threads = hf_image_threads(heap->image, &num);
	HF_AUTO_FREE uint64_t *words = malloc(TLS_MAX);

	if (!words)
		return &hf_enomem;
	for (size_t i = 0; i < num; i++) {
		uint64_t end = threads[i].regs.fs_base & ~UINT64_C(7);
		uint64_t start = threads[i].tls.start, bytes, got;
		const struct hf_range *extent = hf_extent_at(heap, end - 8);

		if (!extent || end < 8)
			continue;
		if (start >= end || start < extent->start ||
		    end - start > TLS_MAX) {
			/* Not known: the last of it, where libc's block is. */
			start = extent->start;
			if (end - start > TLS_UNKNOWN)
				start = end - TLS_UNKNOWN;
		}
		start = (start + 7) & ~UINT64_C(7);
		bytes = end - start;
		got = hf_image_read_some(heap->image, start, words, bytes);
		for (uint64_t w = 0; w < got / 8; w++) {
			struct candidate candidate = {
				.addr = words[w],
				.distance = end - (start + 8 * w),
				.thread = i,
			};
			struct tcache tcache;
			struct hf_error *err;

			if (words[w] < HF_CHUNK_HEADER ||
			    words[w] % HF_CHUNK_ALIGN != 0 ||
			    !hf_image_find_segment(heap->image, words[w]) ||
			    !read_tcache(heap, words[w], &tcache))
				continue;
			candidate.in_use = tcache.num_entries != 0;
			err = hf_array_append(ret, candidate);
			if (err)
				return err;
		}
	}
	return NULL;
}

/* `tcache` is a variable in libc's static TLS block: it stands at the same
 * distance from the descriptor in every thread. The distance that the most
 * threads agree on; those with something in them count more, since a tcache
 * that is empty looks like any block of zeros. */
static uint64_t choose_distance(const candidate_array *candidates)
{
	uint64_t best_distance = 0, best_votes = 0, best_addr = 0;

	for (size_t i = 0; i < candidates->num; i++) {
		const struct candidate *one = &candidates->data[i];
		uint64_t votes = 0;

		for (size_t k = 0; k < candidates->num; k++) {
			if (candidates->data[k].distance == one->distance)
				votes += candidates->data[k].in_use ? 1000 : 1;
		}
		/* Between equals, the first chunk of the heap: malloc makes
		 * the tcache before anything else. */
		if (votes > best_votes ||
		    (votes == best_votes && one->addr < best_addr)) {
			best_votes = votes;
			best_distance = one->distance;
			best_addr = one->addr;
		}
	}
	return best_distance;
}

/* All tcaches: those that threads point to, and those of threads that are not
 * here any more (the image may be a child that the program itself forked),
 * which still have something in them. Sorted, each once. */
static struct hf_error *find_tcaches(const struct hf_glibc_heap *heap,
				     const struct hf_chunk_table *table,
				     mark_array *ret)
{
	__attribute__((cleanup(candidate_array_deinit)))
	candidate_array candidates = { 0 };
	struct hf_error *err = find_candidates(heap, &candidates);
	uint64_t distance;
	size_t num = 0;

	if (err)
		return err;
	distance = choose_distance(&candidates);
	for (size_t i = 0; i < candidates.num; i++) {
		if (candidates.data[i].distance != distance &&
		    !candidates.data[i].in_use)
			continue;
		err = hf_array_append(ret, candidates.data[i].addr);
		if (err)
			return err;
	}
	for (size_t i = 0; i < table->tcaches.num; i++) {
		struct tcache tcache;

		if (!read_tcache(heap, table->tcaches.data[i], &tcache) ||
		    tcache.num_entries == 0)
			continue;
		err = hf_array_append(ret, tcache.addr);
		if (err)
			return err;
	}
	if (ret->num == 0)
		return NULL;
	qsort(ret->data, ret->num, sizeof(ret->data[0]), compare_u64);
	for (size_t i = 0; i < ret->num; i++) {
		if (num == 0 || ret->data[num - 1] != ret->data[i])
			ret->data[num++] = ret->data[i];
	}
	ret->num = num;
	return NULL;
}

/* Set the states of marked chunks. Both are sorted by address. */
static void apply_marks(const struct hf_glibc_heap *heap,
			struct hf_chunk_table *table, const mark_array *marks)
{
	size_t m = 0;

	for (size_t r = 0; r < heap->regions.num && m < marks->num; r++) {
		const struct hf_malloc_region *region = &heap->regions.data[r];
		uint64_t addr = region->first;

		for (size_t e = region->first_entry;
		     e < region->first_entry + region->num_entries; e++) {
			uint64_t next = addr + hf_chunk_table_size(table, e);

			while (m < marks->num &&
			       (marks->data[m] & ~(uint64_t)MARK_BITS) < addr) {
				hf_anomaly_add(heap->anomalies,
					       HF_GLIBC_READER,
					       "cached chunk", marks->data[m],
					       "no chunk begins there");
				m++;
			}
			while (m < marks->num &&
			       (marks->data[m] & ~(uint64_t)MARK_BITS) ==
				       addr) {
				bool internal = marks->data[m] & MARK_INTERNAL;
				enum hf_chunk_state state =
					hf_chunk_table_state(table, e);

				m++;
				if (state == HF_CHUNK_LIVE) {
					hf_chunk_table_set_state(
						table, e,
						internal ? HF_CHUNK_INTERNAL :
							   HF_CHUNK_CACHED);
					continue;
				}
				hf_anomaly_add(heap->anomalies,
					       HF_GLIBC_READER,
					       "cached chunk", addr,
					       state == HF_CHUNK_CACHED ?
						       "twice in the caches" :
						       "it is free, or no "
						       "chunk");
			}
			addr = next;
			if (m == marks->num)
				break;
		}
	}
	for (; m < marks->num; m++)
		hf_anomaly_add(heap->anomalies, HF_GLIBC_READER, "cached chunk",
			       marks->data[m], "no chunk begins there");
}

struct hf_error *hf_caches_mark(const struct hf_glibc_heap *heap,
				struct hf_chunk_table *table)
{
	__attribute__((cleanup(mark_array_deinit))) mark_array marks = { 0 };
	__attribute__((cleanup(mark_array_deinit))) mark_array tcaches = { 0 };
	struct hf_error *err = follow_fastbins(heap, table, &marks);

	if (err)
		return err;
	if (heap->layout.tcache != HF_TCACHE_NONE) {
		err = find_tcaches(heap, table, &tcaches);
		if (err)
			return err;
	}
	for (size_t i = 0; i < tcaches.num; i++) {
		struct tcache tcache;

		if (!read_tcache(heap, tcaches.data[i], &tcache))
			continue;
		err = follow_tcache(heap, table, &tcache, &marks);
		if (err)
			return err;
	}
	if (marks.num)
		qsort(marks.data, marks.num, sizeof(marks.data[0]),
		      compare_u64);
	apply_marks(heap, table, &marks);
	return NULL;
}
