/* Suspects: what threads inside malloc were at work on.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_GLIBC_SUSPECTS_H
#define HF_INDEXER_GLIBC_SUSPECTS_H

#include "indexer/glibc/chunk_table.h"
#include "indexer/glibc/glibc_heap.h"

/** Fill in heap->held: the words that the threads of heap->is_inside have in
 * registers and on top of their stacks. Mark arenas that these point to. After
 * hf_arenas_read. */
struct hf_error *hf_suspects_find(struct hf_glibc_heap *heap) HF_MUST_CHECK;

/**
 * Mark live chunks in the table, and mmapped ones, that such a word points to,
 * and lists of chunks that are linked as fastbins are and hang on one of them.
 * After the lists were followed: what is cached is known.
 */
struct hf_error *hf_suspects_mark(struct hf_glibc_heap *heap,
				  struct hf_chunk_table *table) HF_MUST_CHECK;

#endif
