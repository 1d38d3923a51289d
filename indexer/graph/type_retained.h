/* Retained bytes of a type: what would go if all its instances went.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_GRAPH_TYPE_RETAINED_H
#define HF_INDEXER_GRAPH_TYPE_RETAINED_H

#include "util/error.h"

/**
 * For each type, the sum of retained[v] over its nodes v that have no node of
 * the same type above them in the dominator tree: nothing is counted twice.
 * A lower bound of what the set retains together.
 *
 * @param idom as of hf_graph_dominators.
 * @param order num_ordered nodes, dominators first.
 * @param type type of each node, < num_types.
 * @param ret num_types entries; zeroed, then filled in.
 */
struct hf_error *hf_type_retained(const uint32_t *idom, uint32_t num_nodes,
				  const uint32_t *order, uint32_t num_ordered,
				  const uint64_t *retained,
				  const uint32_t *type, uint32_t num_types,
				  uint64_t *ret) HF_MUST_CHECK;

#endif
