/* Report: areas and blocks of a walked heap, on their way to the sink.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_GLIBC_REPORT_H
#define HF_INDEXER_GLIBC_REPORT_H

#include "indexer/glibc/chunk_table.h"
#include "indexer/glibc/glibc_heap.h"
#include "indexer/heap_reader.h"

struct hf_report {
	const struct hf_heap_sink *sink; /* borrowed */
	struct hf_work *work;            /* borrowed */
	struct hf_block batch[4096];
	size_t num; /* blocks in the batch */
};

/**
 * Report every area and block of one libc's heap, from the chunk table alone.
 *
 * @param first_arena number of this libc's main arena among all arenas.
 */
struct hf_error *hf_report_heap(struct hf_report *report,
				const struct hf_glibc_heap *heap,
				const struct hf_chunk_table *table,
				uint32_t first_arena) HF_MUST_CHECK;

#endif
