/* Tcaches: find those of all threads, and of threads that are gone.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_GLIBC_TCACHES_H
#define HF_INDEXER_GLIBC_TCACHES_H

#include "indexer/glibc/chunk_table.h"
#include "indexer/glibc/glibc_heap.h"

/** A copy of a tcache_perthread_struct. */
struct hf_tcache {
	uint64_t addr;        /* user address */
	uint64_t num_entries; /* lists that are not empty */
	uint64_t entries[HF_TCACHE_MAX_BINS];
	uint16_t counts[HF_TCACHE_MAX_BINS]; /* or slots that are left */
};

typedef HF_ARRAY(uint64_t) hf_addr_array;

static inline void hf_addr_array_deinit(hf_addr_array *array)
{
	hf_array_deinit(array);
}

/** Read the tcache at a user address: a chunk of its size whose lists begin
 * with chunks of their sizes. @return false if it is none. */
bool hf_tcache_read(const struct hf_glibc_heap *heap, uint64_t addr,
		    struct hf_tcache *ret);

/** The sizes of the chunks in a list, [*min_ret, *max_ret]. */
void hf_tcache_list_sizes(uint32_t list, uint64_t *min_ret, uint64_t *max_ret);

/** User addresses of all tcaches: those that threads point to, and those of
 * threads that are not here any more (the image may be a child that the
 * program itself forked), which still have something in them. Sorted, each
 * once. */
struct hf_error *hf_tcaches_find(const struct hf_glibc_heap *heap,
				 const struct hf_chunk_table *table,
				 hf_addr_array *ret) HF_MUST_CHECK;

#endif
