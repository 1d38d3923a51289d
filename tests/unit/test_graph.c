/* Reach, heads and retained against definitions that anyone can check.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "indexer/graph/graph.h"
#include "tests/support/graph_shapes.h"
#include "tests/support/test_main.h"

enum { NUM_ROUNDS = 4000 };

/* Relax until nothing changes: the distance of every node, slowly. */
static void naive_distances(const struct hf_graph *graph,
			    const uint32_t *entries, uint32_t num_entries,
			    const bool *wall, uint32_t *distance)
{
	bool changed = true;

	for (uint32_t i = 0; i < graph->num_nodes; i++)
		distance[i] = HF_NODE_NONE;
	for (uint32_t i = 0; i < num_entries; i++)
		if (!wall[entries[i]])
			distance[entries[i]] = 0;
	while (changed) {
		changed = false;
		for (uint32_t u = 0; u < graph->num_nodes; u++) {
			if (distance[u] == HF_NODE_NONE)
				continue;
			for (uint64_t e = graph->first[u];
			     e < graph->first[u + 1]; e++) {
				uint32_t v = graph->target[e];

				if (!wall[v] && distance[v] > distance[u] + 1) {
					distance[v] = distance[u] + 1;
					changed = true;
				}
			}
		}
	}
}

static bool has_edge(const struct hf_graph *graph, uint32_t from, uint32_t to)
{
	for (uint64_t e = graph->first[from]; e < graph->first[from + 1]; e++)
		if (graph->target[e] == to)
			return true;
	return false;
}

static bool contains(const uint32_t *array, uint32_t num, uint32_t value)
{
	for (uint32_t i = 0; i < num; i++)
		if (array[i] == value)
			return true;
	return false;
}

static void check_reach(const struct hf_graph *graph, uint64_t *seed)
{
	uint32_t n = graph->num_nodes, entries[8], num_entries;
	HF_AUTO_FREE uint32_t *parent = calloc(n + 1, sizeof(*parent));
	HF_AUTO_FREE uint32_t *distance = calloc(n + 1, sizeof(*distance));
	HF_AUTO_FREE uint32_t *naive = calloc(n + 1, sizeof(*naive));
	HF_AUTO_FREE bool *wall = calloc(n + 1, sizeof(*wall));

	num_entries = hf_test_entries(graph, seed, entries, 8);
	for (uint32_t i = 0; i < n; i++) {
		wall[i] = hf_test_random(seed) % 16 == 0;
		parent[i] = wall[i] ? i : HF_NODE_NONE;
		distance[i] = wall[i] ? 12345 : 0;
	}
	naive_distances(graph, entries, num_entries, wall, naive);
	assert_hf_ok(hf_graph_reach(graph, entries, num_entries, parent,
				    distance, NULL));
	for (uint32_t i = 0; i < n; i++) {
		if (wall[i]) {
			assert_int_equal(parent[i], i);
			assert_int_equal(distance[i], 12345);
		} else if (naive[i] == HF_NODE_NONE) {
			assert_int_equal(parent[i], HF_NODE_NONE);
		} else if (naive[i] == 0) {
			assert_int_equal(distance[i], 0);
			assert_int_equal(parent[i], HF_NODE_ROOT);
			assert_true(contains(entries, num_entries, i));
		} else {
			assert_int_equal(distance[i], naive[i]);
			assert_int_equal(naive[parent[i]] + 1, naive[i]);
			assert_true(has_edge(graph, parent[i], i));
		}
	}
}

static void reach_finds_shortest_distances_and_their_parents(void **state)
{
	uint64_t seed = 1;

	(void)state;
	for (int round = 0; round < NUM_ROUNDS; round++) {
		struct hf_graph graph = hf_test_graph(&seed, 40);

		check_reach(&graph, &seed);
		hf_graph_deinit(&graph);
	}
}

static void reach_takes_the_first_parent_in_breadth_first_order(void **state)
{
	/* 0 -> 2, 0 -> 1, both -> 3: 2 is before 1 in the queue. */
	struct hf_test_edge edges[] = { { 0, 2 }, { 0, 1 }, { 1, 3 }, { 2, 3 } };
	struct hf_graph graph = hf_test_graph_of(4, edges, 4);
	uint32_t parent[4] = { HF_NODE_NONE, HF_NODE_NONE, HF_NODE_NONE,
			       HF_NODE_NONE };
	uint32_t distance[4], entry = 0;

	(void)state;
	assert_hf_ok(hf_graph_reach(&graph, &entry, 1, parent, distance, NULL));
	assert_int_equal(parent[3], 2);
	hf_graph_deinit(&graph);
}

/* closure[u * n + v]: v can be reached from u through nodes without a wall. */
static void naive_closure(const struct hf_graph *graph, const bool *wall,
			  bool *closure)
{
	uint32_t n = graph->num_nodes;

	memset(closure, 0, (size_t)n * n * sizeof(*closure));
	for (uint32_t u = 0; u < n; u++) {
		if (wall[u])
			continue;
		closure[u * n + u] = true;
		for (uint64_t e = graph->first[u]; e < graph->first[u + 1]; e++)
			if (!wall[graph->target[e]])
				closure[u * n + graph->target[e]] = true;
	}
	for (uint32_t k = 0; k < n; k++)
		for (uint32_t u = 0; u < n; u++)
			if (closure[u * n + k])
				for (uint32_t v = 0; v < n; v++)
					closure[u * n + v] |=
						closure[k * n + v];
}

static void check_heads(const struct hf_graph *graph, uint64_t *seed)
{
	uint32_t n = graph->num_nodes, num_heads;
	HF_AUTO_FREE uint32_t *parent = calloc(n + 1, sizeof(*parent));
	HF_AUTO_FREE bool *wall = calloc(n + 1, sizeof(*wall));
	HF_AUTO_FREE bool *closure = calloc((size_t)n * n + 1, sizeof(bool));
	HF_AUTO_FREE uint32_t *heads = NULL;
	uint32_t num_sources = 0;

	for (uint32_t i = 0; i < n; i++) {
		wall[i] = hf_test_random(seed) % 8 == 0;
		parent[i] = wall[i] ? HF_NODE_ROOT : HF_NODE_NONE;
	}
	naive_closure(graph, wall, closure);
	assert_hf_ok(hf_graph_heads(graph, parent, &heads, &num_heads, NULL));
	for (uint32_t u = 0; u < n; u++) {
		bool is_source = !wall[u], is_smallest = true;
		uint32_t num_in_component = 0;

		if (wall[u]) {
			assert_false(contains(heads, num_heads, u));
			continue;
		}
		/* A source: whoever reaches it is reached by it. */
		for (uint32_t v = 0; v < n; v++) {
			if (closure[v * n + u] && !closure[u * n + v])
				is_source = false;
			if (v < u && closure[u * n + v] && closure[v * n + u])
				is_smallest = false;
		}
		num_sources += is_source && is_smallest;
		for (uint32_t i = 0; i < num_heads; i++)
			num_in_component += closure[u * n + heads[i]] &&
					    closure[heads[i] * n + u];
		assert_int_equal(num_in_component, is_source);
	}
	assert_int_equal(num_heads, num_sources);
	for (uint32_t i = 1; i < num_heads; i++)
		assert_true(heads[i - 1] < heads[i]);
}

static void heads_are_one_node_of_each_source_component(void **state)
{
	uint64_t seed = 2;

	(void)state;
	for (int round = 0; round < NUM_ROUNDS; round++) {
		struct hf_graph graph = hf_test_graph(&seed, 24);

		check_heads(&graph, &seed);
		hf_graph_deinit(&graph);
	}
}

static void heads_of_nothing_is_an_empty_list(void **state)
{
	struct hf_graph graph = hf_test_graph_of(1, NULL, 0);
	uint32_t parent = HF_NODE_ROOT, num = 99, *heads = NULL;

	(void)state;
	assert_hf_ok(hf_graph_heads(&graph, &parent, &heads, &num, NULL));
	assert_int_equal(num, 0);
	assert_non_null(heads);
	free(heads);
	hf_graph_deinit(&graph);
}

static void search_stops_when_the_user_asks(void **state)
{
	const sig_atomic_t cancelled = 1;
	struct hf_progress progress = { .cancelled = &cancelled };
	struct hf_test_edge edge = { 0, 1 };
	struct hf_graph graph = hf_test_graph_of(2, &edge, 1);
	uint32_t parent[2] = { HF_NODE_NONE, HF_NODE_NONE };
	uint32_t distance[2], entry = 0, num, *heads;
	struct hf_error *err;

	(void)state;
	err = hf_graph_heads(&graph, parent, &heads, &num, &progress);
	assert_int_equal(err->code, HF_ERROR_INTERRUPTED);
	hf_error_destroy(err);
	err = hf_graph_reach(&graph, &entry, 1, parent, distance, &progress);
	assert_int_equal(err->code, HF_ERROR_INTERRUPTED);
	hf_error_destroy(err);
	hf_graph_deinit(&graph);
}

static void graph_refuses_node_numbers_that_mean_something_else(void **state)
{
	struct hf_graph graph;
	struct hf_error *err = hf_graph_init(&graph, HF_NODE_ROOT, 0);

	(void)state;
	assert_int_equal(err->code, HF_ERROR_UNSUPPORTED);
	assert_null(graph.first);
	hf_error_destroy(err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			reach_finds_shortest_distances_and_their_parents),
		cmocka_unit_test(
			reach_takes_the_first_parent_in_breadth_first_order),
		cmocka_unit_test(heads_are_one_node_of_each_source_component),
		cmocka_unit_test(heads_of_nothing_is_an_empty_list),
		cmocka_unit_test(search_stops_when_the_user_asks),
		cmocka_unit_test(
			graph_refuses_node_numbers_that_mean_something_else),
	};

	return cmocka_run_group_tests_name("graph", tests, NULL, NULL);
}
