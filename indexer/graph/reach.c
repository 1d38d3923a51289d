/* Reach: breadth first from the entries, with distances and parents.
 * SPDX-License-Identifier: MIT */
#include "indexer/graph/graph.h"

#include "indexer/graph/bitmap.h"

/* The queue says long before which nodes come next, so their edges can be
 * fetched ahead; whether a target was seen before is asked of a bitmap that
 * fits the cache, not of the array of parents. Takes 4 bytes for each node
 * that is reached and 1/8 byte for each node. */

enum {
	/* Nodes ahead in the queue. */
	AHEAD_FIRST = 32,
	AHEAD_TARGET = 16,
	PROGRESS_NODES = 1 << 18,
};

struct search {
	const struct hf_graph *graph;
	uint64_t *seen;
	uint32_t *queue;
	uint32_t num;  /* of the queue */
	uint32_t *parent;
	uint32_t *distance;
};

static inline void discover(struct search *search, uint32_t node,
			    uint32_t parent, uint32_t distance)
{
	if (hf_bitmap_has(search->seen, node))
		return;
	hf_bitmap_set(search->seen, node);
	search->queue[search->num++] = node;
	search->parent[node] = parent;
	search->distance[node] = distance;
}

static void look_ahead(const struct search *search, uint32_t head)
{
	const struct hf_graph *graph = search->graph;

	if (search->num - head > AHEAD_FIRST)
		__builtin_prefetch(
			&graph->first[search->queue[head + AHEAD_FIRST]]);
	if (search->num - head > AHEAD_TARGET)
		__builtin_prefetch(
			&graph->target[graph->first[
				search->queue[head + AHEAD_TARGET]]]);
}

static struct hf_error *run(struct search *search,
			    const struct hf_progress *progress)
{
	const struct hf_graph *graph = search->graph;
	uint32_t distance = 0, level_end = search->num;
	struct hf_error *err;

	for (uint32_t head = 0; head < search->num; head++) {
		if (head % PROGRESS_NODES == 0) {
			err = hf_progress_update(progress, "reach", head,
						 graph->num_nodes);
			if (err)
				return err;
		}
		if (head == level_end) {
			distance++;
			level_end = search->num;
		}
		look_ahead(search, head);
		uint32_t node = search->queue[head];
		uint64_t end = graph->first[node + 1];
		for (uint64_t i = graph->first[node]; i < end; i++)
			discover(search, graph->target[i], node, distance + 1);
	}
	return NULL;
}

struct hf_error *hf_graph_reach(const struct hf_graph *graph,
				const uint32_t *entries, uint32_t num_entries,
				uint32_t *parent, uint32_t *distance,
				const struct hf_progress *progress)
{
	HF_AUTO_FREE uint64_t *seen = hf_bitmap_alloc(graph->num_nodes);
	HF_AUTO_FREE uint32_t *queue =
		hf_flat_uninit(graph->num_nodes, sizeof(*queue));
	struct search search = {
		.graph = graph,
		.seen = seen,
		.queue = queue,
		.parent = parent,
		.distance = distance,
	};

	if (!seen || !queue)
		return &hf_enomem;
	for (uint32_t i = 0; i < graph->num_nodes; i++)
		if (parent[i] != HF_NODE_NONE)
			hf_bitmap_set(seen, i);
	for (uint32_t i = 0; i < num_entries; i++)
		discover(&search, entries[i], HF_NODE_ROOT, 0);
	return run(&search, progress);
}
