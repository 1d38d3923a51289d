/* Arenas: the list of arenas, and the memory each of them has.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_GLIBC_ARENAS_H
#define HF_INDEXER_GLIBC_ARENAS_H

#include "indexer/glibc/glibc_heap.h"

/** Fill in heap->extents: readable and writable private memory that belongs to
 * no file, neighbours merged. */
struct hf_error *hf_extents_find(struct hf_glibc_heap *heap) HF_MUST_CHECK;

/** The extent that contains addr, or NULL. */
const struct hf_range *hf_extent_at(const struct hf_glibc_heap *heap,
				    uint64_t addr);

/** Read mp_ at heap->parameters.addr, if that is not 0. */
void hf_parameters_read(struct hf_glibc_heap *heap);

/** Fill in heap->arenas: main_arena, then the others in the order of their
 * list. @return NULL, FAULT if main_arena is unreadable, or NO_MEMORY. */
struct hf_error *hf_arenas_read(struct hf_glibc_heap *heap) HF_MUST_CHECK;

/**
 * Fill in heap->regions for all heaps of threads' arenas, and for the main
 * arena's memory from brk (or its first segment from mmap). The other segments
 * of a main arena that is not contiguous are found by hf_mappings_scan().
 */
struct hf_error *hf_regions_find(struct hf_glibc_heap *heap) HF_MUST_CHECK;

/** Sort heap->regions, and drop those that overlap an earlier one. */
void hf_regions_sort(struct hf_glibc_heap *heap);

#endif
