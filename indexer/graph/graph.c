/* Graph: who points to whom, as an immutable CSR.
 * SPDX-License-Identifier: MIT */
#include "indexer/graph/graph.h"

#include "indexer/graph/flat_array.h"

struct hf_error *hf_graph_init(struct hf_graph *graph, uint32_t num_nodes,
			       uint64_t num_edges)
{
	*graph = (struct hf_graph){ 0 };
	if (num_nodes > HF_MAX_NODES)
		return hf_error_create(HF_ERROR_UNSUPPORTED,
				       "more than %u objects",
				       (unsigned int)HF_MAX_NODES);
	graph->first = hf_flat_zeroed((size_t)num_nodes + 1,
				      sizeof(*graph->first));
	graph->target = hf_flat_uninit(num_edges, sizeof(*graph->target));
	if (!graph->first || !graph->target) {
		hf_graph_deinit(graph);
		return &hf_enomem;
	}
	graph->num_nodes = num_nodes;
	graph->num_edges = num_edges;
	return NULL;
}

void hf_graph_deinit(struct hf_graph *graph)
{
	free(graph->first);
	free(graph->target);
	*graph = (struct hf_graph){ 0 };
}
