/* Scan: the words of holders and blocks, read as edges of the graph.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_SCAN_H
#define HF_INDEXER_SCAN_H

#include "indexer/block_table.h"
#include "indexer/graph/graph.h"
#include "indexer/holder.h"

/* Nodes: 0 .. holders.num - 1 are the root holders, then the blocks in
 * address order. Edges of a node are in the order of their slots. */

struct hf_edges {
	struct hf_graph graph;
	uint32_t *slot_words;  /* num_edges entries: offset of the word in its
				* source, in units of 8 bytes. A source whose
				* start is not a multiple of 8 counts from the
				* multiple below. UINT32_MAX: 32 GiB and up */
	uint64_t *is_interior; /* bitmap over edges: points behind the first
				* byte of its target */
	uint64_t *first_word;  /* num of blocks entries: content of the first
				* word of each block, 0 if not readable. For
				* vtables; may be freed and set to NULL */
	uint64_t scanned_bytes;  /* bytes of blocks, holders and registers that
				  * were read */
	uint64_t missing_bytes;  /* bytes of blocks and holders that were not
				  * there to be read */
	uint64_t peak_bytes;     /* of the scan's own arrays, these included */
};

/**
 * Read every aligned word of every holder and live block (of registers: those
 * of struct user_regs_struct, then, outside of the C library's system calls, the
 * XSTATE area behind them); each that points
 * into a live block is an edge. Words of internal blocks count too (they are
 * blocks of the table). A word counts if it lies wholly inside its block.
 *
 * Registers are the words of user_regs_struct; slots follow its order.
 *
 * @param holders without ranges that overlap each other or blocks.
 */
struct hf_error *hf_scan(const struct hf_image *image,
			 const struct hf_holders *holders,
			 const struct hf_block_table *blocks,
			 const struct hf_progress *progress,
			 struct hf_edges *ret) HF_MUST_CHECK;
void hf_edges_deinit(struct hf_edges *edges);

#endif
