/* Retained: sizes summed up the dominator tree.
 * SPDX-License-Identifier: MIT */
#include "indexer/graph/graph.h"

enum { AHEAD_NODE = 32, AHEAD_DOMINATOR = 16 };

void hf_graph_retained(const uint32_t *idom, const uint32_t *order,
		       uint32_t num_ordered, uint64_t *retained)
{
	/* Backwards: all that a node dominates comes after it. */
	for (uint32_t i = num_ordered; i-- > 0;) {
		if (i >= AHEAD_NODE) {
			uint32_t node = order[i - AHEAD_NODE];

			__builtin_prefetch(&idom[node]);
			__builtin_prefetch(&retained[node]);
			node = idom[order[i - AHEAD_DOMINATOR]];
			if (node < HF_MAX_NODES)
				__builtin_prefetch(&retained[node], 1);
		}
		uint32_t dominator = idom[order[i]];
		if (dominator != HF_NODE_ROOT)
			retained[dominator] += retained[order[i]];
	}
}
