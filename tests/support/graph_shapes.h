/* Graph shapes: small graphs of every kind, from a seed.
 * SPDX-License-Identifier: MIT */
#ifndef HF_TESTS_SUPPORT_GRAPH_SHAPES_H
#define HF_TESTS_SUPPORT_GRAPH_SHAPES_H

#include "indexer/graph/graph.h"

/** xorshift64*: the same numbers everywhere. */
uint64_t hf_test_random(uint64_t *seed);

struct hf_test_edge {
	uint32_t from, to;
};

/** Edges of a node keep the order they are given in. */
struct hf_graph hf_test_graph_of(uint32_t num_nodes,
				 const struct hf_test_edge *edges,
				 uint64_t num_edges);

/** A graph of 1 to max_nodes nodes: sparse, dense, tree, list, cycles, ladder,
 * layers, islands or nothing but self loops, some with edges doubled and some
 * with edges turned round; node numbers shuffled. */
struct hf_graph hf_test_graph(uint64_t *seed, uint32_t max_nodes);

/** Some nodes as entries, maybe none, maybe one of them twice.
 * @return their number, at most max_entries. */
uint32_t hf_test_entries(const struct hf_graph *graph, uint64_t *seed,
			 uint32_t *entries, uint32_t max_entries);

#endif
