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
	AHEAD_FIRST = 24,
	AHEAD_TARGET = 12,
	PROGRESS_NODES = 1 << 18,
};

struct search {
	const struct hf_graph *graph;
	uint64_t *seen;
	uint32_t *queue;
	uint32_t num;  /* of the queue: entries */
	uint32_t *parent;
	uint32_t *distance;
};

static void enter(struct search *search, uint32_t entry)
{
	if (hf_bitmap_has(search->seen, entry))
		return;
	hf_bitmap_set(search->seen, entry);
	search->queue[search->num++] = entry;
	search->parent[entry] = HF_NODE_ROOT;
	search->distance[entry] = 0;
}

/* The arrays are local and restricted: else each store of a node could change
 * where the arrays are, and the loop takes half as long again. */
static struct hf_error *run(const struct search *search,
			    const struct hf_progress *progress)
{
	const uint64_t *restrict first = search->graph->first;
	const uint32_t *restrict target = search->graph->target;
	uint64_t *restrict seen = search->seen;
	uint32_t *restrict queue = search->queue;
	uint32_t *restrict parent = search->parent;
	uint32_t *restrict distance = search->distance;
	uint32_t tail = search->num, level_end = tail, level = 1;
	struct hf_error *err;

	for (uint32_t head = 0; head < tail; head++) {
		if (head % PROGRESS_NODES == 0) {
			err = hf_progress_update(progress, "reach", head,
						 search->graph->num_nodes);
			if (err)
				return err;
		}
		if (head == level_end) {
			level++;
			level_end = tail;
		}
		if (tail - head > AHEAD_FIRST)
			__builtin_prefetch(&first[queue[head + AHEAD_FIRST]]);
		if (tail - head > AHEAD_TARGET)
			__builtin_prefetch(
				&target[first[queue[head + AHEAD_TARGET]]]);
		uint32_t node = queue[head];
		uint64_t end = first[node + 1];
		for (uint64_t i = first[node]; i < end; i++) {
			uint32_t to = target[i];

			if (hf_bitmap_has(seen, to))
				continue;
			hf_bitmap_set(seen, to);
			queue[tail++] = to;
			parent[to] = node;
			distance[to] = level;
		}
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
		enter(&search, entries[i]);
	return run(&search, progress);
}
