/* Type table: one entry for each kind, name and module.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "indexer/type_table.h"
#include "indexer/graph/graph.h"
#include "indexer/graph/type_retained.h"
#include "tests/support/test_main.h"

static uint32_t intern(struct hf_type_table *table, enum hf_type_kind kind,
		       char *name, uint32_t module_id)
{
	struct hf_type type = { .name = name, .kind = kind,
				.module_id = module_id };
	uint32_t id;

	assert_hf_ok(hf_type_table_intern(table, &type, &id));
	return id;
}

static void equal_types_are_one(void **state)
{
	HF_AUTO(hf_type_table) struct hf_type_table *table = NULL;
	char name[] = "Session", other[] = "session";
	uint32_t num, first;

	(void)state;
	assert_hf_ok(hf_type_table_create(&table));
	first = intern(table, HF_TYPE_CLASS, name, 1);
	assert_int_equal(intern(table, HF_TYPE_CLASS, name, 1), first);
	assert_int_not_equal(intern(table, HF_TYPE_CLASS, name, 2), first);
	assert_int_not_equal(intern(table, HF_TYPE_ROOT_HOLDER, name, 1),
			     first);
	assert_int_not_equal(intern(table, HF_TYPE_CLASS, other, 1), first);
	name[0] = 'X'; /* the table has copies */
	assert_string_equal(hf_type_table_all(table, &num)[first].name,
			    "Session");
	assert_int_equal(num, 4);
}

static void thousands_of_types_keep_their_ids(void **state)
{
	HF_AUTO(hf_type_table) struct hf_type_table *table = NULL;
	char name[32];

	(void)state;
	assert_hf_ok(hf_type_table_create(&table));
	for (int round = 0; round < 2; round++)
		for (uint32_t i = 0; i < 5000; i++) {
			snprintf(name, sizeof(name), "T%u", i);
			assert_int_equal(intern(table, HF_TYPE_CLASS, name, 0),
					 i);
		}
}

/* Dominator tree: 0(A) -> 1(B) -> 2(A), 1 -> 3(B); 4(A) beside them. */
static void a_type_below_itself_counts_once(void **state)
{
	const uint32_t idom[] = { HF_NODE_ROOT, 0, 1, 1, HF_NODE_ROOT };
	const uint32_t order[] = { 0, 1, 2, 3, 4 };
	const uint64_t retained[] = { 100, 90, 40, 20, 7 };
	const uint32_t type[] = { 0, 1, 0, 1, 0 };
	uint64_t sums[2];

	(void)state;
	assert_hf_ok(hf_type_retained(idom, 5, order, 5, retained, type, 2,
				      sums));
	assert_int_equal(sums[0], 107);
	assert_int_equal(sums[1], 90);
}

/* Random trees against the definition, ancestor by ancestor. */
static void random_trees_agree_with_the_definition(void **state)
{
	enum { N = 60, T = 5 };
	uint32_t seed = 1;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		uint32_t idom[N], order[N], type[N];
		uint64_t retained[N], sums[T], expected[T] = { 0 };

		for (uint32_t i = 0; i < N; i++) {
			seed = seed * 1664525 + 1013904223;
			idom[i] = i == 0 || (seed >> 8) % 6 == 0
					  ? HF_NODE_ROOT
					  : (seed >> 16) % i;
			type[i] = (seed >> 4) % T;
			retained[i] = seed >> 20;
			order[i] = i;
		}
		for (uint32_t i = 0; i < N; i++) {
			uint32_t up = idom[i];

			while (up != HF_NODE_ROOT && type[up] != type[i])
				up = idom[up];
			if (up == HF_NODE_ROOT)
				expected[type[i]] += retained[i];
		}
		assert_hf_ok(hf_type_retained(idom, N, order, N, retained,
					      type, T, sums));
		assert_memory_equal(sums, expected, sizeof(sums));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_types_are_one),
		cmocka_unit_test(thousands_of_types_keep_their_ids),
		cmocka_unit_test(a_type_below_itself_counts_once),
		cmocka_unit_test(random_trees_agree_with_the_definition),
	};

	return cmocka_run_group_tests_name("type_table", tests, NULL, NULL);
}
