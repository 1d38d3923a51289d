/* Block sink: everything a heap reader reports, kept for comparison.
 * SPDX-License-Identifier: MIT */
#ifndef HF_TESTS_SUPPORT_BLOCK_SINK_H
#define HF_TESTS_SUPPORT_BLOCK_SINK_H

#include "indexer/heap_reader.h"
#include "util/array.h"

struct block_sink {
	HF_ARRAY(struct hf_block) blocks; /* as they came */
	HF_ARRAY(struct hf_area) areas;   /* index is the area id */
	struct hf_heap_sink sink;         /* hand this to walk() */
};

/** Aborts later when a block is outside of its area, when a batch is not in
 * order, or when area totals are not the sums of the blocks. */
void block_sink_init(struct block_sink *sink, struct hf_anomalies *anomalies);
void block_sink_deinit(struct block_sink *sink);

/** After the walk: sort blocks by address, check that none overlap, and that
 * the totals of each area are right. Aborts if not. */
void block_sink_finish(struct block_sink *sink);

#endif
