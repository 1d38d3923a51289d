/* Retained bytes of a type: what would go if all its instances went.
 * SPDX-License-Identifier: MIT */
#include "indexer/graph/type_retained.h"

#include <string.h>

#include "indexer/graph/graph.h"

/* A walk over the dominator tree in which above[t] counts the nodes of type t
 * on the way from the root. Children hang in lists (first child, next
 * sibling); the way back up is idom itself, so there is no stack. */

struct tree {
	const uint32_t *idom;
	uint32_t *child;   /* first child of each node, or HF_NODE_NONE */
	uint32_t *sibling; /* next node under the same dominator, or NONE */
	uint32_t top;      /* first node under the virtual root */
};

static void hang_in(struct tree *tree, const uint32_t *order, uint32_t num)
{
	tree->top = HF_NODE_NONE;
	for (uint32_t i = num; i-- > 0;) {
		uint32_t v = order[i], d = tree->idom[v];
		uint32_t *list = d == HF_NODE_ROOT ? &tree->top
						   : &tree->child[d];

		tree->sibling[v] = *list;
		*list = v;
	}
}

static void sum_up(const struct tree *tree, const uint64_t *retained,
		   const uint32_t *type, uint32_t *above, uint64_t *ret)
{
	uint32_t v = tree->top;

	while (v != HF_NODE_NONE) {
		if (!above[type[v]]++)
			ret[type[v]] += retained[v];
		if (tree->child[v] != HF_NODE_NONE) {
			v = tree->child[v];
			continue;
		}
		above[type[v]]--;
		while (tree->sibling[v] == HF_NODE_NONE &&
		       tree->idom[v] != HF_NODE_ROOT) {
			v = tree->idom[v];
			above[type[v]]--;
		}
		v = tree->sibling[v];
	}
}

struct hf_error *hf_type_retained(const uint32_t *idom, uint32_t num_nodes,
				  const uint32_t *order, uint32_t num_ordered,
				  const uint64_t *retained,
				  const uint32_t *type, uint32_t num_types,
				  uint64_t *ret)
{
	HF_AUTO_FREE uint32_t *child =
		malloc(((size_t)num_nodes + 1) * sizeof(*child));
	HF_AUTO_FREE uint32_t *sibling =
		malloc(((size_t)num_nodes + 1) * sizeof(*sibling));
	HF_AUTO_FREE uint32_t *above =
		calloc((size_t)num_types + 1, sizeof(*above));
	struct tree tree = { idom, child, sibling, HF_NODE_NONE };

	if (!child || !sibling || !above)
		return &hf_enomem;
	memset(child, 0xff, ((size_t)num_nodes + 1) * sizeof(*child));
	memset(ret, 0, num_types * sizeof(*ret));
	hang_in(&tree, order, num_ordered);
	sum_up(&tree, retained, type, above, ret);
	return NULL;
}
