/* Graph shapes: small graphs of every kind, from a seed.
 * SPDX-License-Identifier: MIT */
#include "tests/support/graph_shapes.h"

#include "tests/support/test_main.h"
#include "util/array.h"

enum shape {
	SPARSE,
	DENSE,
	TREE,
	LIST,
	CYCLES,
	LADDER,
	LAYERS,
	ISLANDS,
	SELF_LOOPS,
	NUM_SHAPES
};

struct sketch {
	HF_ARRAY(struct hf_test_edge) edges;
	uint32_t num_nodes;
	uint64_t *seed;
};

uint64_t hf_test_random(uint64_t *seed)
{
	uint64_t x = *seed + 0x9e3779b97f4a7c15;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*seed = x;
	return x * 0x2545f4914f6cdd1d >> 16;
}

static uint32_t below(uint64_t *seed, uint32_t limit)
{
	return (uint32_t)(hf_test_random(seed) % limit);
}

static void edge(struct sketch *sketch, uint32_t from, uint32_t to)
{
	struct hf_test_edge edge = { from, to };

	assert_hf_ok(hf_array_append(&sketch->edges, edge));
}

static void random_edges(struct sketch *sketch, uint32_t num)
{
	for (uint32_t i = 0; i < num; i++)
		edge(sketch, below(sketch->seed, sketch->num_nodes),
		     below(sketch->seed, sketch->num_nodes));
}

static void draw(struct sketch *sketch, enum shape shape)
{
	uint32_t n = sketch->num_nodes;
	uint64_t *seed = sketch->seed;
	uint32_t cycle = 1 + below(seed, n), layer = 1 + below(seed, 5);

	switch (shape) {
	case SPARSE:
		random_edges(sketch, n + below(seed, n));
		break;
	case DENSE:
		random_edges(sketch, n * (n < 8 ? n : 8));
		break;
	case TREE:
		for (uint32_t i = 1; i < n; i++)
			edge(sketch, below(seed, i), i);
		random_edges(sketch, below(seed, 4));
		break;
	case LIST:
		for (uint32_t i = 1; i < n; i++) {
			edge(sketch, i - 1, i);
			if (below(seed, 4) == 0)
				edge(sketch, i, i - 1);
		}
		random_edges(sketch, below(seed, 3));
		break;
	case CYCLES:
		for (uint32_t i = 0; i < n; i++)
			edge(sketch, i, i % cycle == cycle - 1 || i == n - 1 ?
						i - i % cycle :
						i + 1);
		random_edges(sketch, below(seed, n));
		break;
	case LADDER:
		for (uint32_t i = 2; i < n; i++) {
			edge(sketch, i - 2, i);
			if (below(seed, 3) == 0)
				edge(sketch, i - 1, i);
			if (below(seed, 3) == 0)
				edge(sketch, i, i - 1);
		}
		break;
	case LAYERS:
		for (uint32_t i = layer; i < n; i++)
			for (uint32_t k = below(seed, 3) + 1; k > 0; k--)
				edge(sketch,
				     i - i % layer - 1 - below(seed, layer), i);
		break;
	case ISLANDS:
		for (uint32_t i = 0; i < n; i++)
			edge(sketch, i,
			     i - i % layer +
				     below(seed, n - (i - i % layer) < layer ?
							 n - (i - i % layer) :
							 layer));
		break;
	default:
		for (uint32_t i = 0; i < n; i++)
			if (below(seed, 2))
				edge(sketch, i, i);
		break;
	}
}

/* Doubled and turned edges, and numbers that say nothing about the shape. */
static void disturb(struct sketch *sketch)
{
	uint64_t *seed = sketch->seed;
	uint32_t n = sketch->num_nodes;
	HF_AUTO_FREE uint32_t *name = calloc(n, sizeof(*name));
	size_t num = sketch->edges.num;

	if (!name)
		abort();
	if (below(seed, 3) == 0)
		for (size_t i = 0; i < num; i++)
			if (below(seed, 4) == 0)
				edge(sketch, sketch->edges.data[i].from,
				     sketch->edges.data[i].to);
	if (below(seed, 4) == 0)
		for (size_t i = 0; i < num; i++)
			if (below(seed, 8) == 0)
				edge(sketch, sketch->edges.data[i].to,
				     sketch->edges.data[i].from);
	for (uint32_t i = 0; i < n; i++)
		name[i] = i;
	if (below(seed, 4))
		for (uint32_t i = n; i-- > 1;) {
			uint32_t other = below(seed, i + 1);
			uint32_t kept = name[i];

			name[i] = name[other];
			name[other] = kept;
		}
	for (size_t i = 0; i < sketch->edges.num; i++) {
		struct hf_test_edge *at = &sketch->edges.data[i];

		*at = (struct hf_test_edge){ name[at->from], name[at->to] };
	}
}

struct hf_graph hf_test_graph_of(uint32_t num_nodes,
				 const struct hf_test_edge *edges,
				 uint64_t num_edges)
{
	struct hf_graph graph;

	assert_hf_ok(hf_graph_init(&graph, num_nodes, num_edges));
	for (uint64_t i = 0; i < num_edges; i++)
		graph.first[edges[i].from + 1]++;
	for (uint32_t i = 0; i < num_nodes; i++)
		graph.first[i + 1] += graph.first[i];
	for (uint64_t i = 0; i < num_edges; i++)
		graph.target[graph.first[edges[i].from]++] = edges[i].to;
	for (uint32_t i = num_nodes; i > 0; i--)
		graph.first[i] = graph.first[i - 1];
	graph.first[0] = 0;
	return graph;
}

struct hf_graph hf_test_graph(uint64_t *seed, uint32_t max_nodes)
{
	struct sketch sketch = {
		.num_nodes = 1 + below(seed, max_nodes),
		.seed = seed,
	};

	draw(&sketch, (enum shape)below(seed, NUM_SHAPES));
	disturb(&sketch);
	struct hf_graph graph = hf_test_graph_of(
		sketch.num_nodes, sketch.edges.data, sketch.edges.num);
	hf_array_deinit(&sketch.edges);
	return graph;
}

uint32_t hf_test_entries(const struct hf_graph *graph, uint64_t *seed,
			 uint32_t *entries, uint32_t max_entries)
{
	uint32_t num = below(seed, 4) ? 1 + below(seed, 3) :
					below(seed, max_entries + 1);

	if (num > max_entries)
		num = max_entries;
	for (uint32_t i = 0; i < num; i++)
		entries[i] = below(seed, graph->num_nodes);
	if (num > 1 && below(seed, 3) == 0)
		entries[num - 1] = entries[0];
	return num;
}
