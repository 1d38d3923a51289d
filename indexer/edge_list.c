/* Edge list: edges in the order they are found, before their number is known.
 * SPDX-License-Identifier: MIT */
#include "indexer/edge_list.h"

#include <string.h>

enum {
	ENTRY_BYTES = HF_EDGE_CHUNK_EDGES * sizeof(uint32_t),
	BITMAP_BYTES = HF_EDGE_CHUNK_EDGES / 8,
};

/* The three arrays of a chunk are one allocation that begins at `target`. */
static void chunk_free(struct hf_edge_chunk *chunk)
{
	free(chunk->target);
	*chunk = (struct hf_edge_chunk){ 0 };
}

void hf_edge_list_deinit(struct hf_edge_list *list)
{
	for (size_t i = 0; i < list->num_chunks; i++)
		chunk_free(&list->chunks[i]);
	free(list->chunks);
	*list = (struct hf_edge_list){ 0 };
}

struct hf_error *hf_edge_list_grow(struct hf_edge_list *list)
{
	if (list->num_chunks == list->chunk_capacity) {
		size_t capacity = list->chunk_capacity * 2 + 8;
		struct hf_edge_chunk *chunks =
			reallocarray(list->chunks, capacity, sizeof(*chunks));

		if (!chunks)
			return &hf_enomem;
		list->chunks = chunks;
		list->chunk_capacity = capacity;
	}
	/* Fresh zero pages: the bitmap is only ever set. */
	char *memory = calloc(1, 2 * (size_t)ENTRY_BYTES + BITMAP_BYTES);
	if (!memory)
		return &hf_enomem;
	list->last = (struct hf_edge_chunk){
		.target = (uint32_t *)memory,
		.slot = (uint32_t *)(memory + ENTRY_BYTES),
		.is_interior = (uint64_t *)(memory + 2 * (size_t)ENTRY_BYTES),
	};
	list->chunks[list->num_chunks++] = list->last;
	list->num_in_last = 0;
	return NULL;
}

/* OR num bits of `from` into the zero bits of `to` from bit `at` on. */
static void move_bits(uint64_t *to, uint64_t at, const uint64_t *from,
		      uint32_t num)
{
	unsigned int shift = at % 64;

	to += at / 64;
	for (uint32_t i = 0; i < (num + 63) / 64; i++) {
		to[i] |= from[i] << shift;
		if (shift && from[i] >> (64 - shift))
			to[i + 1] |= from[i] >> (64 - shift);
	}
}

void hf_edge_list_move(struct hf_edge_list *list, uint64_t at,
		       uint32_t *target, uint32_t *slot, uint64_t *is_interior)
{
	for (size_t i = 0; i < list->num_chunks; i++) {
		struct hf_edge_chunk *chunk = &list->chunks[i];
		uint32_t num = i + 1 < list->num_chunks ?
				       HF_EDGE_CHUNK_EDGES :
				       list->num_in_last;

		memcpy(target + at, chunk->target, num * sizeof(*target));
		memcpy(slot + at, chunk->slot, num * sizeof(*slot));
		move_bits(is_interior, at, chunk->is_interior, num);
		at += num;
		chunk_free(chunk);
	}
	hf_edge_list_deinit(list);
}

uint64_t hf_edge_list_bytes(const struct hf_edge_list *list)
{
	return list->num_chunks * sizeof(*list->chunks) +
	       list->num * (2 * sizeof(uint32_t)) + list->num / 8;
}
