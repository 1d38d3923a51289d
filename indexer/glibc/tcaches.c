/* Tcaches: find those of all threads, and of threads that are gone.
 * SPDX-License-Identifier: MIT */
#include "indexer/glibc/tcaches.h"

#include <string.h>

#include "indexer/glibc/arenas.h"

/* glibc keeps the address of a thread's tcache in a variable of its static TLS,
 * and the tcache in an ordinary chunk. Neither has a name in a stripped libc:
 * what a word of TLS points to is a tcache if it looks like one. */

enum { SIZE_FLAGS = 7 };

void hf_tcache_list_sizes(uint32_t bin, uint64_t *min_ret, uint64_t *max_ret)
{
	if (bin < HF_TCACHE_SMALL_BINS) {
		*min_ret = *max_ret = HF_CHUNK_MIN + HF_CHUNK_ALIGN * bin;
		return;
	}
	*min_ret = UINT64_C(1) << (10 + bin - HF_TCACHE_SMALL_BINS);
	*max_ret = 2 * *min_ret - 1;
}

bool hf_tcache_read(const struct hf_glibc_heap *heap, uint64_t addr,
		    struct hf_tcache *ret)
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
		if (!hf_work_step(heap->work))
			return false;
		ret->num_entries++;
		hf_tcache_list_sizes(i, &min_bytes, &max_bytes);
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
			struct hf_tcache tcache;
			struct hf_error *err = hf_work_turn(heap->work);

			if (err)
				return err;
			if (words[w] < HF_CHUNK_HEADER ||
			    words[w] % HF_CHUNK_ALIGN != 0 ||
			    !hf_image_find_segment(heap->image, words[w]) ||
			    !hf_tcache_read(heap, words[w], &tcache))
				continue;
			candidate.in_use = tcache.num_entries != 0;
			err = hf_array_append(ret, candidate);
			if (err)
				return err;
		}
	}
	return NULL;
}

static int compare_candidates(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->distance != y->distance)
		return x->distance > y->distance ? 1 : -1;
	return (x->addr > y->addr) - (x->addr < y->addr);
}

/* `tcache` is a variable in libc's static TLS block: it stands at the same
 * distance from the descriptor in every thread. The distance that the most
 * threads agree on; those with something in them count more, since a tcache
 * that is empty looks like any block of zeros. Sorts the candidates. */
static uint64_t choose_distance(const struct hf_glibc_heap *heap,
				candidate_array *candidates)
{
	uint64_t best_distance = 0, best_votes = 0, best_addr = 0;

	if (candidates->num)
		qsort(candidates->data, candidates->num,
		      sizeof(candidates->data[0]), compare_candidates);
	for (size_t i = 0; i < candidates->num && !heap->work->stopped;) {
		const struct candidate *first = &candidates->data[i];
		uint64_t votes = 0;

		for (; i < candidates->num && hf_work_step(heap->work) &&
		       candidates->data[i].distance == first->distance; i++)
			votes += candidates->data[i].in_use ? 1000 : 1;
		/* Between equals, the first chunk of the heap: malloc makes
		 * the tcache before anything else. */
		if (votes > best_votes ||
		    (votes == best_votes && first->addr < best_addr)) {
			best_votes = votes;
			best_distance = first->distance;
			best_addr = first->addr;
		}
	}
	return best_distance;
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

struct hf_error *hf_tcaches_find(const struct hf_glibc_heap *heap,
				 const struct hf_chunk_table *table,
				 hf_addr_array *ret)
{
	__attribute__((cleanup(candidate_array_deinit)))
	candidate_array candidates = { 0 };
	struct hf_error *err = find_candidates(heap, &candidates);
	uint64_t distance;
	size_t num = 0;

	if (err)
		return err;
	distance = choose_distance(heap, &candidates);
	for (size_t i = 0; i < candidates.num; i++) {
		if (candidates.data[i].distance != distance &&
		    !candidates.data[i].in_use)
			continue;
		err = hf_array_append(ret, candidates.data[i].addr);
		if (err)
			return err;
	}
	for (size_t i = 0; i < table->tcaches.num; i++) {
		struct hf_tcache tcache;

		err = hf_work_turn(heap->work);
		if (err)
			return err;
		if (!hf_tcache_read(heap, table->tcaches.data[i], &tcache) ||
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
