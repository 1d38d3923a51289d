/* Mappings: chunks with their own mapping, and segments of the main arena.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_GLIBC_MAPPINGS_H
#define HF_INDEXER_GLIBC_MAPPINGS_H

#include "indexer/glibc/glibc_heap.h"

/**
 * Fill in heap->mmapped, sorted, and append to heap->regions the segments of a
 * main arena that is not contiguous. Nothing in glibc links either; they are
 * recognised at page starts of private anonymous memory that no region has.
 * Needs heap->extents, ->parameters and ->regions (sorted); leaves the regions
 * sorted.
 */
struct hf_error *hf_mappings_scan(struct hf_glibc_heap *heap) HF_MUST_CHECK;

#endif
