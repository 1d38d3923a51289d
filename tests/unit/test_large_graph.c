/* Ten million nodes in shapes that break recursion and clever guesses: none
 * may overflow, and none may be much slower than a random tree of that size.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

#include "indexer/graph/flat_array.h"
#include "indexer/graph/graph.h"
#include "tests/support/graph_shapes.h"
#include "tests/support/test_main.h"

/* Debug and sanitizer builds run the same shapes with a tenth of the nodes;
 * the optimised build runs them in full. */
#if defined(NDEBUG) || defined(__OPTIMIZE__)
enum { NUM = 10 * 1000 * 1000 };
#else
enum { NUM = 1000 * 1000 };
#endif

/* Slower than the random tree by more than this is a wrong algorithm, not
 * noise: a square time would be a million times slower. */
enum { MAX_RATIO = 8 };

struct large {
	struct hf_graph graph;
	uint32_t *parent, *distance, *idom, *order;
	uint64_t *retained;
	double seconds;  /* processor time of all phases */
};

static double cpu_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void large_init(struct large *large, uint64_t num_edges)
{
	*large = (struct large){
		.parent = hf_flat_uninit(NUM, 4),
		.distance = hf_flat_uninit(NUM, 4),
		.idom = hf_flat_uninit(NUM, 4),
		.order = hf_flat_uninit(NUM, 4),
		.retained = hf_flat_uninit(NUM, 8),
	};
	assert_hf_ok(hf_graph_init(&large->graph, NUM, num_edges));
	if (!large->parent || !large->distance || !large->idom ||
	    !large->order || !large->retained)
		abort();
	memset(large->parent, 0xff, NUM * sizeof(uint32_t));
	memset(large->idom, 0xff, NUM * sizeof(uint32_t));
	for (uint32_t i = 0; i < NUM; i++)
		large->retained[i] = 1;
}

static void large_deinit(struct large *large)
{
	hf_graph_deinit(&large->graph);
	free(large->parent);
	free(large->distance);
	free(large->idom);
	free(large->order);
	free(large->retained);
}

/* All phases from node 0, with a stack no larger than a thread's. */
static void run(struct large *large)
{
	HF_AUTO_FREE uint32_t *heads = NULL;
	uint32_t entry = 0, num_ordered = 0, num_heads = 0;
	double start = cpu_now();

	/* With nothing reached, the whole graph is one source component or
	 * what hangs on it: node 0 in all shapes here. */
	assert_hf_ok(hf_graph_heads(&large->graph, large->parent, &heads,
				    &num_heads, NULL));
	assert_hf_ok(hf_graph_reach(&large->graph, &entry, 1, large->parent,
				    large->distance, NULL));
	assert_hf_ok(hf_graph_dominators(&large->graph, &entry, 1,
					 large->idom, large->order,
					 &num_ordered, NULL));
	hf_graph_retained(large->idom, large->order, num_ordered,
			  large->retained);
	large->seconds = cpu_now() - start;
	assert_int_equal(num_heads, 1);
	assert_int_equal(heads[0], 0);
	assert_int_equal(num_ordered, NUM);
	assert_int_equal(large->retained[0], NUM);
}

/* The measure: a node hangs on a random one before it. */
static double random_tree_seconds(void)
{
	HF_AUTO_FREE uint32_t *above = hf_flat_uninit(NUM, 4);
	struct large large;
	uint64_t seed = 6;

	if (!above)
		abort();
	large_init(&large, NUM - 1);
	for (uint32_t i = 1; i < NUM; i++) {
		above[i] = (uint32_t)(hf_test_random(&seed) % i);
		large.graph.first[above[i] + 1]++;
	}
	for (uint32_t i = 0; i < NUM; i++)
		large.graph.first[i + 1] += large.graph.first[i];
	for (uint32_t i = 1; i < NUM; i++)
		large.graph.target[large.graph.first[above[i]]++] = i;
	memmove(large.graph.first + 1, large.graph.first,
		NUM * sizeof(*large.graph.first));
	large.graph.first[0] = 0;
	run(&large);
	for (uint32_t i = 1; i < NUM; i++)
		if (large.idom[i] != above[i])
			fail_msg("node %u of the tree", i);
	large_deinit(&large);
	return large.seconds;
}

static double limit;

static int measure_random_tree(void **state)
{
	(void)state;
	limit = random_tree_seconds() * MAX_RATIO;
	return 0;
}

/* Node by node: out-edges of `node` into `target`. @return their number. */
typedef uint32_t (*shape_fn)(uint32_t node, uint32_t *target);

static void build(struct large *large, shape_fn shape, uint32_t max_degree)
{
	uint64_t num = 0;

	large_init(large, (uint64_t)NUM * max_degree);
	for (uint32_t i = 0; i < NUM; i++) {
		large->graph.first[i] = num;
		num += shape(i, large->graph.target + num);
	}
	large->graph.first[NUM] = num;
	large->graph.num_edges = num;
}

static uint32_t list_shape(uint32_t node, uint32_t *target)
{
	*target = node + 1;
	return node + 1 < NUM;
}

static void a_list_neither_overflows_nor_slows(void **state)
{
	struct large large;

	(void)state;
	build(&large, list_shape, 1);
	run(&large);
	assert_true(large.seconds < limit);
	for (uint32_t i = 1; i < NUM; i++)
		if (large.idom[i] != i - 1 || large.distance[i] != i ||
		    large.retained[i] != NUM - i)
			fail_msg("node %u of the list", i);
	large_deinit(&large);
}

static uint32_t ring_shape(uint32_t node, uint32_t *target)
{
	target[0] = node + 1 < NUM ? node + 1 : 0;
	target[1] = node ? node - 1 : NUM - 1;
	return 2;
}

static void a_ring_of_double_links_neither_overflows_nor_slows(void **state)
{
	struct large large;

	(void)state;
	build(&large, ring_shape, 2);
	run(&large);
	assert_true(large.seconds < limit);
	for (uint32_t i = 1; i < NUM; i++)
		if (large.idom[i] != 0 ||
		    large.distance[i] != (i < NUM - i ? i : NUM - i))
			fail_msg("node %u of the ring", i);
	large_deinit(&large);
}

static uint32_t star_shape(uint32_t node, uint32_t *target)
{
	if (node) {
		*target = 0;
		return 1;
	}
	for (uint32_t i = 1; i < NUM; i++)
		target[i - 1] = i;
	return NUM - 1;
}

static void a_star_neither_overflows_nor_slows(void **state)
{
	struct large large;

	(void)state;
	build(&large, star_shape, 2);
	run(&large);
	assert_true(large.seconds < limit);
	for (uint32_t i = 1; i < NUM; i++)
		if (large.idom[i] != 0 || large.distance[i] != 1)
			fail_msg("node %u of the star", i);
	large_deinit(&large);
}

/* A spine of even nodes, a tooth on each; teeth point back to the start. */
static uint32_t comb_shape(uint32_t node, uint32_t *target)
{
	uint32_t num = 0;

	if (node % 2) {
		target[num++] = 0;
		return num;
	}
	if (node + 2 < NUM)
		target[num++] = node + 2;
	if (node + 1 < NUM)
		target[num++] = node + 1;
	return num;
}

static void a_comb_neither_overflows_nor_slows(void **state)
{
	struct large large;

	(void)state;
	build(&large, comb_shape, 2);
	run(&large);
	assert_true(large.seconds < limit);
	for (uint32_t i = 1; i < NUM; i++)
		if (large.idom[i] != (i % 2 ? i - 1 : i - 2))
			fail_msg("node %u of the comb", i);
	large_deinit(&large);
}

/* Two rails of which every rung has both ends, { 1, 2 }, { 3, 4 }, ...: from
 * each node to both ends of the next rung and to the other end of its own.
 * Nothing but node 0 is on all ways. */
static uint32_t ladder_shape(uint32_t node, uint32_t *target)
{
	uint32_t rung = node ? (node - 1) / 2 * 2 + 1 : 0;
	uint32_t next = node ? rung + 2 : 1, num = 0;

	for (uint32_t i = next; i < NUM && i < next + 2; i++)
		target[num++] = i;
	if (node)
		target[num++] = node == rung && node + 1 < NUM ? node + 1 :
								 rung;
	return num;
}

static void a_ladder_neither_overflows_nor_slows(void **state)
{
	struct large large;

	(void)state;
	build(&large, ladder_shape, 3);
	run(&large);
	assert_true(large.seconds < limit);
	for (uint32_t i = 1; i < NUM; i++)
		if (large.idom[i] != 0)
			fail_msg("node %u of the ladder", i);
	large_deinit(&large);
}

/* A list whose end points back to every node: long paths to compress. */
static uint32_t comet_shape(uint32_t node, uint32_t *target)
{
	if (node + 1 < NUM) {
		*target = node + 1;
		return 1;
	}
	for (uint32_t i = 0; i < NUM; i++)
		target[i] = i;
	return NUM;
}

static void a_list_that_ends_everywhere_neither_overflows_nor_slows(
	void **state)
{
	struct large large;

	(void)state;
	build(&large, comet_shape, 2);
	run(&large);
	assert_true(large.seconds < limit);
	for (uint32_t i = 1; i < NUM; i++)
		if (large.idom[i] != i - 1)
			fail_msg("node %u of the comet", i);
	large_deinit(&large);
}

int main(void)
{
	/* Recursion over a list would need gigabytes; this is a thread's. */
	struct rlimit stack = { 1 << 20, 1 << 20 };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_neither_overflows_nor_slows),
		cmocka_unit_test(
			a_ring_of_double_links_neither_overflows_nor_slows),
		cmocka_unit_test(a_star_neither_overflows_nor_slows),
		cmocka_unit_test(a_comb_neither_overflows_nor_slows),
		cmocka_unit_test(a_ladder_neither_overflows_nor_slows),
		cmocka_unit_test(
			a_list_that_ends_everywhere_neither_overflows_nor_slows),
	};

	if (setrlimit(RLIMIT_STACK, &stack)) {
		perror("setrlimit");
		return 1;
	}
	return cmocka_run_group_tests_name("large_graph", tests,
					   measure_random_tree, NULL);
}
