/* Dominators and retained sizes against their definition: take a node away
 * and see what can no longer be reached.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "indexer/graph/graph.h"
#include "tests/support/graph_shapes.h"
#include "tests/support/test_main.h"

enum { NUM_ROUNDS = 6000 };

/* All that the entries reach when `without` and the walls are gone. */
static void flood(const struct hf_graph *graph, const uint32_t *entries,
		  uint32_t num_entries, const bool *wall, uint32_t without,
		  bool *reached)
{
	uint32_t n = graph->num_nodes, depth = 0;
	HF_AUTO_FREE uint32_t *stack = calloc(n + 1, sizeof(*stack));

	memset(reached, 0, n * sizeof(*reached));
	for (uint32_t i = 0; i < num_entries; i++) {
		uint32_t node = entries[i];

		if (node == without || wall[node] || reached[node])
			continue;
		reached[node] = true;
		stack[depth++] = node;
	}
	while (depth) {
		uint32_t u = stack[--depth];

		for (uint64_t e = graph->first[u]; e < graph->first[u + 1];
		     e++) {
			uint32_t v = graph->target[e];

			if (v == without || wall[v] || reached[v])
				continue;
			reached[v] = true;
			stack[depth++] = v;
		}
	}
}

/* One run with entries of its own. What came before it are walls. */
struct round {
	const struct hf_graph *graph;
	uint32_t entries[8];
	uint32_t num_entries;
	bool *wall;
	bool *reached;      /* with nothing taken away */
	bool *dominates;    /* [u * n + v] */
};

static void define(struct round *round)
{
	uint32_t n = round->graph->num_nodes;
	HF_AUTO_FREE bool *left = calloc(n + 1, sizeof(*left));

	flood(round->graph, round->entries, round->num_entries, round->wall,
	      HF_NODE_NONE, round->reached);
	for (uint32_t u = 0; u < n; u++) {
		flood(round->graph, round->entries, round->num_entries,
		      round->wall, u, left);
		for (uint32_t v = 0; v < n; v++)
			round->dominates[u * n + v] = round->reached[u] &&
						      round->reached[v] &&
						      !left[v];
	}
}

/* The immediate dominator is the strict one that all others dominate. */
static uint32_t defined_idom(const struct round *round, uint32_t node)
{
	uint32_t n = round->graph->num_nodes, best = HF_NODE_ROOT;

	for (uint32_t u = 0; u < n; u++) {
		if (u == node || !round->dominates[u * n + node])
			continue;
		if (best == HF_NODE_ROOT || round->dominates[best * n + u])
			best = u;
	}
	return best;
}

static void check_run(const struct round *round, const uint32_t *idom,
		      const uint32_t *order, uint32_t before,
		      uint32_t num_ordered, const uint64_t *size,
		      const uint64_t *retained)
{
	uint32_t n = round->graph->num_nodes, num_reached = 0;
	HF_AUTO_FREE bool *seen = calloc(n + 1, sizeof(*seen));

	for (uint32_t v = 0; v < n; v++) {
		uint64_t sum = 0;

		if (!round->reached[v])
			continue;
		num_reached++;
		assert_int_equal(idom[v], defined_idom(round, v));
		for (uint32_t u = 0; u < n; u++)
			if (round->dominates[v * n + u])
				sum += size[u];
		assert_int_equal(retained[v], sum);
	}
	assert_int_equal(num_ordered - before, num_reached);
	for (uint32_t i = before; i < num_ordered; i++) {
		assert_true(round->reached[order[i]]);
		assert_false(seen[order[i]]);
		if (idom[order[i]] != HF_NODE_ROOT)
			assert_true(seen[idom[order[i]]]);
		seen[order[i]] = true;
	}
}

static void check_graph(const struct hf_graph *graph, uint64_t *seed)
{
	uint32_t n = graph->num_nodes, num_ordered = 0, before;
	HF_AUTO_FREE uint32_t *idom = calloc(n + 1, sizeof(*idom));
	HF_AUTO_FREE uint32_t *order = calloc(n + 1, sizeof(*order));
	HF_AUTO_FREE uint64_t *size = calloc(n + 1, sizeof(*size));
	HF_AUTO_FREE uint64_t *retained = calloc(n + 1, sizeof(*retained));
	HF_AUTO_FREE bool *wall = calloc(n + 1, sizeof(*wall));
	HF_AUTO_FREE bool *reached = calloc(n + 1, sizeof(*reached));
	HF_AUTO_FREE bool *dominates = calloc((size_t)n * n + 1, sizeof(bool));
	struct round rounds[3];

	for (uint32_t i = 0; i < n; i++) {
		idom[i] = HF_NODE_NONE;
		size[i] = hf_test_random(seed) % 1000;
	}
	/* Three runs: each goes on where those before it could not go. */
	for (int k = 0; k < 3; k++) {
		struct round *round = &rounds[k];

		*round = (struct round){ .graph = graph,
					 .wall = wall,
					 .reached = reached,
					 .dominates = dominates };
		round->num_entries = hf_test_entries(graph, seed,
						     round->entries, 8);
		before = num_ordered;
		assert_hf_ok(hf_graph_dominators(
			graph, round->entries, round->num_entries, idom, order,
			&num_ordered, NULL));
		memcpy(retained, size, n * sizeof(*size));
		hf_graph_retained(idom, order, num_ordered, retained);
		define(round);
		check_run(round, idom, order, before, num_ordered, size,
			  retained);
		for (uint32_t i = 0; i < n; i++) {
			wall[i] |= reached[i];
			assert_int_equal(idom[i] != HF_NODE_NONE, wall[i]);
		}
	}
}

static void dominators_and_retained_equal_the_definition(void **state)
{
	uint64_t seed = 3;

	(void)state;
	for (int round = 0; round < NUM_ROUNDS; round++) {
		struct hf_graph graph = hf_test_graph(&seed, 30);

		check_graph(&graph, &seed);
		hf_graph_deinit(&graph);
	}
}

static void an_entry_is_dominated_by_nothing_but_the_root(void **state)
{
	/* 0 -> 1 -> 2, and 2 is an entry as well. */
	struct hf_test_edge edges[] = { { 0, 1 }, { 1, 2 } };
	struct hf_graph graph = hf_test_graph_of(3, edges, 2);
	uint32_t entries[] = { 0, 2 }, order[3], num = 0;
	uint32_t idom[] = { HF_NODE_NONE, HF_NODE_NONE, HF_NODE_NONE };
	uint64_t retained[] = { 1, 10, 100 };

	(void)state;
	assert_hf_ok(hf_graph_dominators(&graph, entries, 2, idom, order, &num,
					 NULL));
	hf_graph_retained(idom, order, num, retained);
	assert_int_equal(num, 3);
	assert_int_equal(idom[1], 0);
	assert_int_equal(idom[2], HF_NODE_ROOT);
	assert_int_equal(retained[0], 11);
	assert_int_equal(retained[2], 100);
	hf_graph_deinit(&graph);
}

static void a_stopped_run_leaves_everything_as_it_was(void **state)
{
	static const sig_atomic_t cancelled = 1;
	struct hf_progress progress = { .cancelled = &cancelled };
	enum { NUM = 1 << 18 };
	struct hf_graph graph = hf_test_graph_of(NUM, NULL, 0);
	HF_AUTO_FREE uint32_t *entries = calloc(NUM, sizeof(*entries));
	HF_AUTO_FREE uint32_t *idom = calloc(NUM, sizeof(*idom));
	HF_AUTO_FREE uint32_t *order = calloc(NUM, sizeof(*order));
	uint32_t num = 0;

	(void)state;
	for (uint32_t i = 0; i < NUM; i++) {
		entries[i] = i;
		idom[i] = HF_NODE_NONE;
	}
	struct hf_error *err = hf_graph_dominators(
		&graph, entries, NUM, idom, order, &num, &progress);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_INTERRUPTED);
	hf_error_destroy(err);
	assert_int_equal(num, 0);
	for (uint32_t i = 0; i < NUM; i++)
		assert_int_equal(idom[i], HF_NODE_NONE);
	hf_graph_deinit(&graph);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dominators_and_retained_equal_the_definition),
		cmocka_unit_test(an_entry_is_dominated_by_nothing_but_the_root),
		cmocka_unit_test(a_stopped_run_leaves_everything_as_it_was),
	};

	return cmocka_run_group_tests_name("dominators", tests, NULL, NULL);
}
