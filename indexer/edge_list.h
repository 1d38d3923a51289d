/* Edge list: edges in the order they are found, before their number is known.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_EDGE_LIST_H
#define HF_INDEXER_EDGE_LIST_H

#include <stddef.h>

#include "util/error.h"

/* Chunks of a fixed size, each in a mapping of its own. Nothing is copied
 * while the list grows, what is not filled takes no memory, and when it is
 * joined to flat arrays each chunk goes back to the system as soon as it is
 * copied: the peak is one chunk above the edges themselves. Each thread can
 * fill a list of its own; joining them in address order gives the same
 * arrays. */

enum {
	/* 4 Mi edges of 8 1/8 bytes: above 32 MiB, where glibc's malloc uses
	 * mmap whatever was freed before. */
	HF_EDGE_CHUNK_EDGES = 1 << 22,
};

struct hf_edge_chunk {
	uint32_t *target;
	uint32_t *slot;
	uint64_t *is_interior; /* bitmap */
};

struct hf_edge_list {
	struct hf_edge_chunk *chunks;
	size_t num_chunks, chunk_capacity;
	struct hf_edge_chunk last; /* a copy of the last of chunks */
	uint32_t num_in_last;
	uint64_t num;
};

void hf_edge_list_deinit(struct hf_edge_list *list);

/** Begin a new chunk. For hf_edge_list_add only. */
struct hf_error *hf_edge_list_grow(struct hf_edge_list *list) HF_MUST_CHECK;

/** @return NULL or hf_enomem. */
static inline HF_MUST_CHECK struct hf_error *
hf_edge_list_add(struct hf_edge_list *list, uint32_t target, uint32_t slot,
		 bool is_interior)
{
	if (list->num == 0 || list->num_in_last == HF_EDGE_CHUNK_EDGES) {
		struct hf_error *err = hf_edge_list_grow(list);

		if (err)
			return err;
	}
	uint32_t i = list->num_in_last++;
	list->last.target[i] = target;
	list->last.slot[i] = slot;
	list->last.is_interior[i / 64] |= (uint64_t)is_interior << (i % 64);
	list->num++;
	return NULL;
}

/**
 * Append the edges to flat arrays from index `at` on, and empty the list.
 *
 * @param is_interior bitmap; zero from `at` on, with one word to spare.
 */
void hf_edge_list_move(struct hf_edge_list *list, uint64_t at,
		       uint32_t *target, uint32_t *slot,
		       uint64_t *is_interior);

/** Memory in use. */
uint64_t hf_edge_list_bytes(const struct hf_edge_list *list);

#endif
