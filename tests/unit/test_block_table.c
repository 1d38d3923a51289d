/* Block table: merged, sorted, no byte counted twice.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "indexer/block_table.h"
#include "tests/support/test_main.h"

struct fixture {
	struct hf_block_builder *builder;
	struct hf_anomalies *anomalies;
	struct hf_heap_sink sink;
	struct hf_block_table table;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_hf_ok(hf_block_builder_create(&f->builder));
	assert_hf_ok(hf_anomalies_create(&f->anomalies));
	f->sink = hf_block_builder_sink(f->builder, 0, f->anomalies, NULL);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	hf_block_builder_destroy(f->builder);
	hf_anomalies_destroy(f->anomalies);
	hf_block_table_deinit(&f->table);
	free(f);
	return 0;
}

static uint32_t add_area(struct fixture *f, uint64_t start, uint64_t end)
{
	struct hf_area area = { .kind = HF_AREA_HEAP, .start = start,
				.end = end };
	uint32_t id;

	assert_hf_ok(f->sink.area(f->sink.arg, &area, &id));
	return id;
}

static void add_block(struct fixture *f, uint32_t area, uint64_t addr,
		      uint64_t size, enum hf_block_state state)
{
	struct hf_block block = { addr, size, area, state, false };

	assert_hf_ok(f->sink.blocks(f->sink.arg, &block, 1));
}

static void areas_in_any_order_become_one_ascending_table(void **state)
{
	struct fixture *f = *state;
	uint32_t high = add_area(f, 0x9000, 0xa000);
	uint32_t low = add_area(f, 0x1000, 0x2000);

	add_block(f, high, 0x9010, 24, HF_BLOCK_LIVE);
	add_block(f, high, 0x9030, 24, HF_BLOCK_INTERNAL);
	add_block(f, low, 0x1010, 40, HF_BLOCK_LIVE);
	add_block(f, low, 0x1040, 24, HF_BLOCK_FREE);
	add_block(f, low, 0x1060, 24, HF_BLOCK_CACHED);
	add_block(f, low, 0x1080, 56, HF_BLOCK_LIVE);
	assert_hf_ok(hf_block_builder_freeze(f->builder, f->anomalies,
					     &f->table));
	assert_int_equal(f->table.num, 4);
	assert_int_equal(f->table.addr[0], 0x1010);
	assert_int_equal(f->table.addr[1], 0x1080);
	assert_int_equal(f->table.addr[2], 0x9010);
	assert_int_equal(f->table.addr[3], 0x9030);
	assert_int_equal(f->table.size_bytes[1], 56);
	assert_int_equal(f->table.area_id[0], low);
	assert_int_equal(f->table.area_id[3], high);
	assert_int_equal(f->table.is_internal[0], 1 << 3);
	assert_int_equal(f->table.num_free, 1);
	assert_int_equal(f->table.free_bytes, 24);
	assert_int_equal(f->table.num_cached, 1);
	assert_int_equal(f->table.cached_bytes, 24);
	assert_int_equal(hf_anomalies_total(f->anomalies), 0);
}

static void overlapping_blocks_are_dropped_and_counted(void **state)
{
	struct fixture *f = *state;
	uint32_t a = add_area(f, 0x1000, 0x9000);
	uint32_t b = add_area(f, 0x1000, 0x9000);

	add_block(f, a, 0x1010, 0x100, HF_BLOCK_LIVE);
	add_block(f, a, 0x2010, 24, HF_BLOCK_LIVE);
	add_block(f, b, 0x1080, 24, HF_BLOCK_LIVE); /* inside the first */
	add_block(f, b, 0x2010, 24, HF_BLOCK_LIVE); /* the second again */
	add_block(f, b, 0x3010, 24, HF_BLOCK_LIVE);
	assert_hf_ok(hf_block_builder_freeze(f->builder, f->anomalies,
					     &f->table));
	assert_int_equal(f->table.num, 3);
	assert_int_equal(f->table.addr[0], 0x1010);
	assert_int_equal(f->table.addr[1], 0x2010);
	assert_int_equal(f->table.addr[2], 0x3010);
	assert_int_equal(hf_anomalies_total(f->anomalies), 2);
}

static void blocks_that_cannot_be_are_dropped_and_counted(void **state)
{
	struct fixture *f = *state;
	uint32_t a = add_area(f, 0x1000, UINT64_MAX);

	add_block(f, a, 0x1011, 24, HF_BLOCK_LIVE);
	add_block(f, a, UINT64_MAX - 7, 24, HF_BLOCK_LIVE);
	assert_hf_ok(hf_block_builder_freeze(f->builder, f->anomalies,
					     &f->table));
	assert_int_equal(f->table.num, 0);
	assert_int_equal(hf_anomalies_total(f->anomalies), 2);
}

static void no_blocks_are_an_empty_table(void **state)
{
	struct fixture *f = *state;

	assert_hf_ok(hf_block_builder_freeze(f->builder, f->anomalies,
					     &f->table));
	assert_int_equal(f->table.num, 0);
	assert_int_equal(f->table.num_areas, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			areas_in_any_order_become_one_ascending_table, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			overlapping_blocks_are_dropped_and_counted, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			blocks_that_cannot_be_are_dropped_and_counted, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(no_blocks_are_an_empty_table,
						set_up, tear_down),
	};

	return cmocka_run_group_tests_name("block_table", tests, NULL, NULL);
}
