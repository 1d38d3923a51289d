/* Every allocation of the graph and the scan fails once: each time the error
 * comes back, nothing leaks (seen by the sanitizer), and nothing is changed.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "indexer/graph/address_map.h"
#include "indexer/graph/graph.h"
#include "indexer/scan.h"
#include "tests/support/fake_image.h"
#include "tests/support/graph_shapes.h"
#include "tests/support/test_main.h"

/* Linked with --wrap: the next allocation but `countdown` fails; negative:
 * none does. */
static int countdown = -1;
static bool has_failed;

static bool fails_now(void)
{
	if (countdown < 0 || countdown-- > 0)
		return false;
	has_failed = true;
	return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t num, size_t size);
void *__real_realloc(void *ptr, size_t size);
void *__real_reallocarray(void *ptr, size_t num, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t num, size_t size);
void *__wrap_realloc(void *ptr, size_t size);
void *__wrap_reallocarray(void *ptr, size_t num, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

void *__wrap_malloc(size_t size)
{
	return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t num, size_t size)
{
	return fails_now() ? NULL : __real_calloc(num, size);
}

void *__wrap_realloc(void *ptr, size_t size)
{
	return fails_now() ? NULL : __real_realloc(ptr, size);
}

void *__wrap_reallocarray(void *ptr, size_t num, size_t size)
{
	return fails_now() ? NULL : __real_reallocarray(ptr, num, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
	return fails_now() ? NULL : __real_aligned_alloc(alignment, size);
}

enum { MAX_NODES = 60, MAX_FAULTS = 200 };

struct fixture {
	struct hf_graph graph;
	uint32_t entry;
	struct hf_image *image;
	struct hf_block_table blocks;
	struct hf_holders holders;
};

/* @return an error or NULL; checks what it can when there is one. */
typedef struct hf_error *(*work_fn)(struct fixture *fixture);

/* Fail the first allocation, then the second, ... until none is left. */
static void fail_each(work_fn work, struct fixture *fixture)
{
	int num_faults = 0;

	for (;;) {
		has_failed = false;
		countdown = num_faults;
		struct hf_error *err = work(fixture);
		countdown = -1;
		if (!has_failed) {
			assert_null(err);
			break;
		}
		assert_non_null(err);
		assert_int_equal(err->code, HF_ERROR_NO_MEMORY);
		hf_error_destroy(err);
		assert_true(++num_faults < MAX_FAULTS);
	}
	/* A test of nothing would pass as well. */
	assert_true(num_faults > 0);
}

static struct hf_error *init_graph(struct fixture *fixture)
{
	struct hf_graph graph;
	struct hf_error *err = hf_graph_init(&graph, 5, 7);

	(void)fixture;
	if (!err)
		hf_graph_deinit(&graph);
	else
		assert_null(graph.first);
	return err;
}

static struct hf_error *reach(struct fixture *fixture)
{
	uint32_t parent[MAX_NODES], distance[MAX_NODES];

	memset(parent, 0xff, sizeof(parent));
	struct hf_error *err = hf_graph_reach(&fixture->graph, &fixture->entry,
					      1, parent, distance, NULL);
	if (err)
		assert_int_equal(parent[fixture->entry], HF_NODE_NONE);
	return err;
}

static struct hf_error *heads(struct fixture *fixture)
{
	uint32_t parent[MAX_NODES], num = 99, *found = NULL;

	memset(parent, 0xff, sizeof(parent));
	struct hf_error *err = hf_graph_heads(&fixture->graph, parent, &found,
					      &num, NULL);
	if (err)
		assert_null(found);
	free(found);
	return err;
}

static struct hf_error *dominators(struct fixture *fixture)
{
	uint32_t idom[MAX_NODES], order[MAX_NODES], num = 0;

	memset(idom, 0xff, sizeof(idom));
	struct hf_error *err = hf_graph_dominators(&fixture->graph,
						   &fixture->entry, 1, idom,
						   order, &num, NULL);
	if (err) {
		assert_int_equal(num, 0);
		for (int i = 0; i < MAX_NODES; i++)
			assert_int_equal(idom[i], HF_NODE_NONE);
	}
	return err;
}

static struct hf_error *map(struct fixture *fixture)
{
	struct hf_address_map *made = NULL;
	struct hf_error *err = hf_address_map_create(
		fixture->blocks.addr, fixture->blocks.size_bytes,
		fixture->blocks.num, &made);

	if (err)
		assert_null(made);
	hf_address_map_destroy(made);
	return err;
}

static struct hf_error *scan(struct fixture *fixture)
{
	struct hf_edges edges = { 0 };
	struct hf_error *err = hf_scan(fixture->image, &fixture->holders,
				       &fixture->blocks, NULL, &edges);

	if (err)
		assert_null(edges.graph.first);
	else
		assert_int_equal(edges.graph.num_edges, 2);
	hf_edges_deinit(&edges);
	return err;
}

static void every_failed_allocation_of_the_graph_comes_back(void **state)
{
	static const work_fn works[] = { init_graph, reach, heads,
					 dominators };
	uint64_t seed = 7;

	(void)state;
	for (int round = 0; round < 20; round++) {
		struct fixture fixture = {
			.graph = hf_test_graph(&seed, MAX_NODES),
		};

		for (size_t i = 0; i < sizeof(works) / sizeof(*works); i++)
			fail_each(works[i], &fixture);
		hf_graph_deinit(&fixture.graph);
	}
}

static void a_failed_allocation_deep_in_the_search_comes_back(void **state)
{
	/* A list whose end points back to its second node, which makes a long
	 * path to compress, and to many leaves, which make a deep stack: both
	 * grow beyond their first size. */
	enum { NUM = 20000, END = 9999 };
	struct hf_graph graph;
	HF_AUTO_FREE uint32_t *idom = calloc(NUM, sizeof(*idom));
	HF_AUTO_FREE uint32_t *order = calloc(NUM, sizeof(*order));
	uint32_t entry = 0, num = 0, num_faults = 0;
	struct hf_error *err;

	(void)state;
	assert_hf_ok(hf_graph_init(&graph, NUM, NUM));
	for (uint32_t i = 0; i < NUM; i++) {
		graph.first[i + 1] = i < END ? i + 1 : NUM;
		graph.target[i] = i + 1 < NUM ? i + 1 : 1;
	}
	memset(idom, 0xff, NUM * sizeof(*idom));
	do {
		has_failed = false;
		countdown = (int)num_faults;
		err = hf_graph_dominators(&graph, &entry, 1, idom, order,
					  &num, NULL);
		countdown = -1;
		num_faults += has_failed;
		assert_int_equal(err != NULL, has_failed);
		hf_error_destroy(err);
	} while (has_failed);
	/* Ten arrays, and more than once two of them. */
	assert_true(num_faults > 11);
	for (uint32_t i = 1; i < NUM; i++)
		assert_int_equal(idom[i], i <= END ? i - 1 : END);
	hf_graph_deinit(&graph);
}

static void every_failed_allocation_of_the_scan_comes_back(void **state)
{
	enum { HEAP = 0x10000 };
	HF_AUTO(fake_image) struct fake_image *fake = fake_image_create();
	uint64_t addr[] = { HEAP + 16, HEAP + 48 }, size[] = { 24, 24 };
	struct hf_holder holder = {
		.kind = HF_HOLDER_GLOBAL,
		.range = { HEAP + 4096, HEAP + 4104 },
	};
	struct fixture fixture = {
		.blocks = { .num = 2, .addr = addr, .size_bytes = size },
		.holders = { .data = &holder, .num = 1 },
	};

	(void)state;
	fake_image_add_anon(fake, HEAP, HEAP + 8192);
	fake_image_poke_u64(fake, HEAP + 4096, HEAP + 16);
	fake_image_poke_u64(fake, HEAP + 24, HEAP + 48);
	fixture.image = fake_image_freeze(fake);
	fail_each(map, &fixture);
	fail_each(scan, &fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			every_failed_allocation_of_the_graph_comes_back),
		cmocka_unit_test(
			a_failed_allocation_deep_in_the_search_comes_back),
		cmocka_unit_test(
			every_failed_allocation_of_the_scan_comes_back),
	};

	return cmocka_run_group_tests_name("graph_faults", tests, NULL, NULL);
}
