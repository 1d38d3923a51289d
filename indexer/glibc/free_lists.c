/* Free lists: what is cached, and whether the bins are in order.
 * SPDX-License-Identifier: MIT */
#include "indexer/glibc/free_lists.h"

#include <inttypes.h>

#include "indexer/glibc/chunk_index.h"
#include "indexer/glibc/tcaches.h"

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

/* A chunk is marked in the table when a list comes to it, and no list goes on
 * from a chunk that is marked already: all of them together take as many steps
 * as there are chunks, whatever the target says. Where the walk saw no chunks,
 * in damage, a list may lead back out of it; that has a limit of its own. */

enum {
	SIZE_FLAGS = 7,
	FD = 16, /* offset in a chunk */
	MAX_LOST = 1 << 16,
};

struct caches {
	const struct hf_glibc_heap *heap;
	struct hf_chunk_table *table;
	struct hf_chunk_index index;
	uint32_t lost_left; /* chunks outside of the table, of all lists */
};

struct list {
	const char *kind;          /* of its anomalies */
	uint64_t addr;             /* of its head, for anomalies */
	uint64_t first;            /* chunk header */
	uint64_t min_bytes, max_bytes; /* of its chunks */
	uint64_t max_num;          /* more of them is damage */
	bool links_to_user;        /* else to chunk headers */
};

/* Mark what is in the caches.
 * @return false: it is marked already, or damaged beyond its list. */
static bool mark(struct caches *caches, uint64_t chunk, bool has_entry,
		 size_t entry, enum hf_chunk_state state)
{
	enum hf_chunk_state old = HF_CHUNK_GAP;
	const char *what = "no chunk begins there";

	if (has_entry) {
		old = hf_chunk_table_state(caches->table, entry);
		what = "it is free, or no chunk";
	}
	if (old == HF_CHUNK_LIVE) {
		hf_chunk_table_set_state(caches->table, entry, state);
		return true;
	}
	if (old == HF_CHUNK_CACHED || old == HF_CHUNK_INTERNAL)
		what = "twice in the caches";
	hf_anomaly_add(caches->heap->anomalies, HF_GLIBC_READER,
		       "cached chunk", chunk, "%s", what);
	if (old == HF_CHUNK_CACHED || old == HF_CHUNK_INTERNAL ||
	    caches->lost_left == 0)
		return false;
	caches->lost_left--;
	return true;
}

/* Go to a chunk of a list, mark it, and read its link: from the table, else
 * from the target. @return false: the list ends here. */
static bool visit(struct caches *caches, const struct list *list,
		  uint64_t chunk, uint64_t *next_ret)
{
	const struct hf_glibc_heap *heap = caches->heap;
	const struct hf_chunk_link *link = NULL;
	uint64_t words[2], size; /* size and fd */
	size_t entry = 0;
	bool has_entry;

	if (chunk % HF_CHUNK_ALIGN == 0)
		link = hf_chunk_table_find_link(caches->table, chunk);
	if (link) {
		words[0] = (uint64_t)link->size_units * HF_CHUNK_ALIGN;
		words[1] = link->stored;
	} else if (chunk % HF_CHUNK_ALIGN != 0 ||
		   !hf_pages_peek(heap->pages, chunk + 8, words,
				  sizeof(words))) {
		hf_anomaly_add(heap->anomalies, HF_GLIBC_READER, list->kind,
			       list->addr, "entry 0x%" PRIx64 " is no chunk",
			       chunk);
		return false;
	}
	size = words[0] & ~(uint64_t)SIZE_FLAGS;
	if (size < list->min_bytes || size > list->max_bytes) {
		hf_anomaly_add(heap->anomalies, HF_GLIBC_READER, list->kind,
			       list->addr, "entry 0x%" PRIx64 " has size 0x%"
			       PRIx64, chunk, words[0]);
		return false;
	}
	*next_ret = hf_link_target(&heap->layout, chunk + FD, words[1]);
	if (link) {
		entry = link->entry;
		has_entry = true;
	} else {
		has_entry = hf_chunk_index_find(&caches->index, chunk, &entry);
	}
	return mark(caches, chunk, has_entry, entry, HF_CHUNK_CACHED);
}

/* Mark the chunks of a singly linked list. */
static struct hf_error *follow(struct caches *caches, const struct list *list,
			       uint64_t *num_ret)
{
	const struct hf_glibc_heap *heap = caches->heap;
	uint64_t chunk = list->first, next;

	*num_ret = 0;
	while (chunk) {
		struct hf_error *err = hf_work_turn(heap->work);

		if (err)
			return err;
		if (*num_ret >= list->max_num) {
			hf_anomaly_add(heap->anomalies, HF_GLIBC_READER,
				       list->kind, list->addr,
				       "more than %" PRIu64 " entries",
				       list->max_num);
			return NULL;
		}
		if (!visit(caches, list, chunk, &next))
			return NULL;
		(*num_ret)++;
		chunk = list->links_to_user && next ? next - HF_CHUNK_HEADER :
						      next;
	}
	return NULL;
}

static struct hf_error *follow_fastbins(struct caches *caches)
{
	const struct hf_glibc_heap *heap = caches->heap;
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
				.max_num = UINT64_MAX,
			};
			struct hf_error *err = follow(caches, &list, &num);

			if (err)
				return err;
		}
	}
	return NULL;
}

/* How long a list may be: one more than it says, since a thread may have been
 * stopped between putting a chunk in and counting it. */
static uint64_t max_entries(const struct hf_glibc_heap *heap,
			    const struct hf_tcache *tcache, uint32_t i)
{
	uint64_t all = heap->parameters.tcache_count, left = tcache->counts[i];

	if (heap->layout.tcache == HF_TCACHE_COUNTS)
		return left + 1;
	return all >= left && all > 0 ? all - left + 1 : UINT64_MAX;
}

static struct hf_error *follow_tcache(struct caches *caches,
				      const struct hf_tcache *tcache)
{
	const struct hf_glibc_heap *heap = caches->heap;
	struct hf_error *err;

	for (uint32_t i = 0; i < heap->layout.tcache_num; i++) {
		uint64_t num;
		struct list list = {
			.kind = "tcache list",
			.addr = tcache->addr,
			.first = tcache->entries[i] ?
					 tcache->entries[i] - HF_CHUNK_HEADER :
					 0,
			.max_num = max_entries(heap, tcache, i),
			.links_to_user = true,
		};

		hf_tcache_list_sizes(i, &list.min_bytes, &list.max_bytes);
		err = follow(caches, &list, &num);
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
	return NULL;
}

static struct hf_error *follow_tcaches(struct caches *caches)
{
	__attribute__((cleanup(hf_addr_array_deinit)))
	hf_addr_array tcaches = { 0 };
	struct hf_error *err = hf_tcaches_find(caches->heap, caches->table,
					       &tcaches);

	for (size_t i = 0; i < tcaches.num && !err; i++) {
		struct hf_tcache tcache;

		if (hf_tcache_read(caches->heap, tcaches.data[i], &tcache))
			err = follow_tcache(caches, &tcache);
	}
	/* Now that no list can lead to one of them. */
	for (size_t i = 0; i < tcaches.num && !err; i++) {
		uint64_t chunk = tcaches.data[i] - HF_CHUNK_HEADER;
		size_t entry = 0;
		bool has_entry = hf_chunk_index_find(&caches->index, chunk,
						     &entry);

		mark(caches, chunk, has_entry, entry, HF_CHUNK_INTERNAL);
		err = hf_work_turn(caches->heap->work);
	}
	return err;
}

struct hf_error *hf_caches_mark(const struct hf_glibc_heap *heap,
				struct hf_chunk_table *table)
{
	struct caches caches = {
		.heap = heap, .table = table, .lost_left = MAX_LOST,
	};
	struct hf_error *err = hf_chunk_index_init(&caches.index, heap, table);

	if (!err)
		err = follow_fastbins(&caches);
	if (!err && heap->layout.tcache != HF_TCACHE_NONE)
		err = follow_tcaches(&caches);
	hf_chunk_index_deinit(&caches.index);
	return err ? err : hf_work_check(heap->work);
}
