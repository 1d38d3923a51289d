/* Index analysis: from the edges to parents, dominators, retained bytes.
 * SPDX-License-Identifier: MIT */
#include "indexer/index_model.h"

#include <string.h>

#include "indexer/graph/flat_array.h"
#include "indexer/graph/type_retained.h"

/* Two dominator problems, one after the other: what the root holders reach,
 * and what nothing reaches, entered by one head of each source component. An
 * unreachable object may well point to a reachable one; that edge must not
 * count, and does not, since the second run takes the first one's nodes for
 * walls. */

static struct hf_error *allocate(struct hf_index_model *model)
{
	size_t num = (size_t)model->num_nodes + 1;

	model->bfs_parent = hf_flat_uninit(num, sizeof(*model->bfs_parent));
	model->root_distance =
		hf_flat_uninit(num, sizeof(*model->root_distance));
	model->idom = hf_flat_uninit(num, sizeof(*model->idom));
	model->retained_bytes =
		hf_flat_uninit(num, sizeof(*model->retained_bytes));
	if (!model->bfs_parent || !model->root_distance || !model->idom ||
	    !model->retained_bytes)
		return &hf_enomem;
	memset(model->bfs_parent, 0xff, num * sizeof(*model->bfs_parent));
	memset(model->root_distance, 0xff, num * sizeof(*model->root_distance));
	memset(model->idom, 0xff, num * sizeof(*model->idom));
	for (uint32_t n = 0; n < model->num_nodes; n++)
		model->retained_bytes[n] = hf_index_node_bytes(model, n);
	return NULL;
}

/* What hangs directly under the virtual root and is no holder goes under one
 * of the two pseudo objects: sum it up for them. */
static void sum_pseudo(struct hf_index_model *model)
{
	for (uint32_t n = model->holders.num; n < model->num_nodes; n++) {
		bool unreachable = model->bfs_parent[n] == HF_NODE_NONE;

		model->num_unreachable += unreachable;
		if (model->idom[n] != HF_NODE_ROOT)
			continue;
		if (unreachable)
			model->unreachable_bytes += model->retained_bytes[n];
		else
			model->several_bytes += model->retained_bytes[n];
	}
}

static struct hf_error *sum_types(struct hf_index_model *model,
				  const uint32_t *order, uint32_t num_ordered)
{
	uint32_t num_types;

	hf_type_table_all(model->types, &num_types);
	model->type_retained =
		calloc((size_t)num_types + 1, sizeof(*model->type_retained));
	if (!model->type_retained)
		return &hf_enomem;
	return hf_type_retained(model->idom, model->num_nodes, order,
				num_ordered, model->retained_bytes,
				model->node_type, num_types,
				model->type_retained);
}

struct hf_error *hf_index_analyse(struct hf_index_model *model)
{
	const struct hf_graph *graph = &model->edges.graph;
	HF_AUTO_FREE uint32_t *holders = NULL, *heads = NULL, *order = NULL;
	uint32_t num_heads = 0, num_ordered = 0;
	uint64_t start_ns = hf_now_ns();
	struct hf_error *err = allocate(model);

	if (err)
		return err;
	holders = malloc(((size_t)model->holders.num + 1) * sizeof(*holders));
	order = hf_flat_uninit((size_t)model->num_nodes + 1, sizeof(*order));
	if (!holders || !order)
		return &hf_enomem;
	for (uint32_t i = 0; i < model->holders.num; i++)
		holders[i] = i;
	err = hf_graph_reach(graph, holders, model->holders.num,
			     model->bfs_parent, model->root_distance,
			     model->progress);
	if (!err)
		err = hf_graph_heads(graph, model->bfs_parent, &heads,
				     &num_heads, model->progress);
	if (err)
		return err;
	hf_index_phase_done(model, "reach", model->num_nodes, start_ns,
			    (uint64_t)model->num_nodes * 17);

	start_ns = hf_now_ns();
	err = hf_graph_dominators(graph, holders, model->holders.num,
				  model->idom, order, &num_ordered,
				  model->progress);
	if (!err)
		err = hf_graph_dominators(graph, heads, num_heads, model->idom,
					  order, &num_ordered,
					  model->progress);
	if (err)
		return err;
	hf_index_phase_done(model, "dominators", model->num_nodes, start_ns,
			    (uint64_t)model->num_nodes * 28 +
				    graph->num_edges * 8);

	start_ns = hf_now_ns();
	hf_graph_retained(model->idom, order, num_ordered,
			  model->retained_bytes);
	sum_pseudo(model);
	err = sum_types(model, order, num_ordered);
	hf_index_phase_done(model, "retained", model->num_nodes, start_ns,
			    (uint64_t)model->num_nodes * 24);
	return err;
}
