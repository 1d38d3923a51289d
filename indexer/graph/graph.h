/* Graph: who points to whom, as an immutable CSR.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_GRAPH_GRAPH_H
#define HF_INDEXER_GRAPH_GRAPH_H

#include "util/error.h"
#include "util/progress.h"

/* Pure algorithms live in this folder: no image, no SQL, no recursion. Nodes
 * are 0 .. num_nodes - 1. The virtual root that holds the entries is no node.
 * All arrays are flat; a phase frees what the next one does not need. */

#define HF_NODE_NONE UINT32_MAX       /* not reached, no such node */
#define HF_NODE_ROOT (UINT32_MAX - 1) /* the virtual root */
#define HF_MAX_NODES (UINT32_MAX - 16)

struct hf_graph {
	uint32_t num_nodes;
	uint64_t num_edges;
	uint64_t *first;  /* num_nodes + 1 entries: edges of node i are
			   * target[first[i]] .. target[first[i + 1] - 1] */
	uint32_t *target; /* num_edges entries */
};

/** An owned copy of nothing: allocate first and target. */
struct hf_error *hf_graph_init(struct hf_graph *graph, uint32_t num_nodes,
			       uint64_t num_edges) HF_MUST_CHECK;
void hf_graph_deinit(struct hf_graph *graph);

/**
 * Breadth first from the entries.
 *
 * @param parent num_nodes entries, all HF_NODE_NONE or set by an earlier run
 * (such nodes are walls). Set to the node before it on a shortest path, or
 * HF_NODE_ROOT for an entry.
 * @param distance num_nodes entries; set where parent is: 0 for an entry.
 * Among equal distances the parent is the first in breadth-first order.
 */
struct hf_error *hf_graph_reach(const struct hf_graph *graph,
				const uint32_t *entries, uint32_t num_entries,
				uint32_t *parent, uint32_t *distance,
				const struct hf_progress *progress)
	HF_MUST_CHECK;

/**
 * One node of each source component (a strongly connected component without
 * an edge into it from outside) of the nodes whose parent is HF_NODE_NONE:
 * from them, and from no smaller set, all of these nodes can be reached.
 * Edges from nodes with a parent do not count (there can be none).
 *
 * @param heads_ret caller frees; ascending.
 */
struct hf_error *hf_graph_heads(const struct hf_graph *graph,
				const uint32_t *parent, uint32_t **heads_ret,
				uint32_t *num_ret,
				const struct hf_progress *progress)
	HF_MUST_CHECK;

/**
 * Immediate dominators over the virtual root, which points to the entries,
 * by semi-NCA (Georgiadis, "Linear-Time Algorithms for Dominators and Related
 * Problems", Princeton 2005).
 *
 * Only nodes whose idom is still HF_NODE_NONE take part: others are walls, so
 * a second run with other entries continues where the first could not go.
 *
 * @param idom num_nodes entries; set to the dominator or HF_NODE_ROOT.
 * @param order num_nodes entries; the nodes of this run are appended in
 * preorder of its depth-first tree (a dominator precedes what it dominates).
 * @param num_ordered in: entries of order in use; out: with this run's.
 */
struct hf_error *hf_graph_dominators(const struct hf_graph *graph,
				     const uint32_t *entries,
				     uint32_t num_entries, uint32_t *idom,
				     uint32_t *order, uint32_t *num_ordered,
				     const struct hf_progress *progress)
	HF_MUST_CHECK;

/**
 * Sum sizes up the dominator tree: retained[v] = size of v + retained of all
 * it immediately dominates. retained[] holds the sizes before the call.
 */
void hf_graph_retained(const uint32_t *idom, const uint32_t *order,
		       uint32_t num_ordered, uint64_t *retained);

#endif
