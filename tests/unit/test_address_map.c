/* The address map, in all its variants, against a search by hand.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "indexer/graph/address_map.h"
#include "indexer/graph/address_map_internal.h"
#include "tests/support/graph_shapes.h"
#include "tests/support/test_main.h"

static const uint64_t USER_END = (uint64_t)1 << 47;

enum { MAX_OBJECTS = 3000, MAX_WORDS = 5000, NUM_ROUNDS = 150 };

struct world {
	uint64_t starts[MAX_OBJECTS];
	uint64_t sizes[MAX_OBJECTS];
	uint32_t num;
	uint64_t words[MAX_WORDS];
	struct hf_hit hits[MAX_WORDS];
};

static uint32_t naive_find(const struct world *world, uint64_t addr)
{
	uint32_t low = 0, high = world->num;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (world->starts[middle] <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	if (low && addr - world->starts[low - 1] < world->sizes[low - 1])
		return low - 1;
	return UINT32_MAX;
}

static void add_object(struct world *world, uint64_t start, uint64_t size)
{
	if (world->num == MAX_OBJECTS || start >= USER_END ||
	    size > USER_END - start)
		return;
	world->starts[world->num] = start;
	world->sizes[world->num++] = size;
}

/* Objects as malloc lays them (16n + 8 bytes at multiples of 16), or at any
 * multiple of 8, with gaps of all sizes up to the far end of the space. */
static void fill_world(struct world *world, uint64_t *seed)
{
	static const uint64_t bases[] = { 0, 8, 16, 4096, 0x555555559000,
					  0x7ffff0000010, USER_END - 65536,
					  ((uint64_t)1 << 32) - 64 };
	uint64_t at = bases[hf_test_random(seed) % 8];
	uint64_t align = hf_test_random(seed) % 2 ? 16 : 8;
	unsigned int wild = hf_test_random(seed) % 4;
	uint32_t num = (uint32_t)(hf_test_random(seed) % (MAX_OBJECTS + 1));

	world->num = 0;
	for (uint32_t i = 0; i < num; i++) {
		uint64_t size = 24 + hf_test_random(seed) % 15 * 16;
		uint64_t gap = 0;

		if (wild && hf_test_random(seed) % 8 == 0)
			size = hf_test_random(seed) % 700;
		if (wild > 1 && hf_test_random(seed) % 50 == 0)
			size = hf_test_random(seed) % ((uint64_t)24 << 20);
		if (wild > 1 && hf_test_random(seed) % 500 == 0)
			size = hf_test_random(seed) % ((uint64_t)1 << 36);
		if (hf_test_random(seed) % 5 == 0)
			gap = hf_test_random(seed) % 4096;
		if (wild > 2 && hf_test_random(seed) % 100 == 0)
			gap = hf_test_random(seed) % ((uint64_t)1 << 44);
		at = (at + gap + align - 1) & -align;
		if (world->num && at == world->starts[world->num - 1])
			at += align;
		add_object(world, at, size);
		at += size;
	}
}

static uint64_t some_word(const struct world *world, uint64_t *seed)
{
	uint64_t random = hf_test_random(seed) << 17 ^ hf_test_random(seed);
	uint32_t i = world->num ? (uint32_t)(random % world->num) : 0;
	uint64_t start = world->num ? world->starts[i] : 0;
	uint64_t size = world->num ? world->sizes[i] : 0;

	switch (hf_test_random(seed) % 12) {
	case 0:
		return start - 1;
	case 1:
	case 2:
		return start;
	case 3:
		return start + 1;
	case 4:
		return start + size - 1;
	case 5:
		return start + size;
	case 6:
		return start + (size ? random % size : 0);
	case 7:
		return start + size + random % 64;
	case 8:
		return 0;
	case 9:
		return random;
	case 10:
		return random % USER_END;
	default:
		return start + random % ((uint64_t)1 << 33);
	}
}

static void check_scan(const struct hf_address_map *map, struct world *world,
		       enum hf_filter filter, size_t num_words)
{
	size_t num = hf_address_map_scan_with(map, filter, world->words,
					      num_words, world->hits);
	size_t k = 0;

	for (size_t i = 0; i < num_words; i++) {
		uint32_t object = naive_find(world, world->words[i]);

		if (object == UINT32_MAX)
			continue;
		assert_true(k < num);
		assert_int_equal(world->hits[k].word, i);
		assert_int_equal(world->hits[k].object, object);
		assert_int_equal(world->hits[k].interior,
				 world->words[i] != world->starts[object]);
		k++;
	}
	assert_int_equal(k, num);
}

static void every_filter_agrees_with_a_search_by_hand(void **state)
{
	HF_AUTO_FREE struct world *world = calloc(1, sizeof(*world));
	uint64_t seed = 4;

	(void)state;
	for (int round = 0; round < NUM_ROUNDS; round++) {
		HF_AUTO(hf_address_map) struct hf_address_map *map = NULL;

		fill_world(world, &seed);
		assert_hf_ok(hf_address_map_create(world->starts, world->sizes,
						   world->num, &map));
		size_t num_words = hf_test_random(&seed) % (MAX_WORDS + 1);
		for (size_t i = 0; i < num_words; i++)
			world->words[i] = some_word(world, &seed);
		for (int filter = 0; filter < HF_NUM_FILTERS; filter++)
			if (hf_filter_is_supported((enum hf_filter)filter))
				check_scan(map, world, (enum hf_filter)filter,
					   num_words);
		for (size_t i = 0; i < num_words && i < 100; i++)
			assert_int_equal(
				hf_address_map_find(map, world->words[i]),
				naive_find(world, world->words[i]));
	}
}

static void both_granules_and_both_page_sizes_are_met(void **state)
{
	/* Dense, aligned: wide pages of 16-byte granules. Thin, odd: narrow
	 * pages of 8-byte granules. So the test above covers what it says. */
	uint64_t starts[64], sizes[64];
	struct hf_address_map *map;

	(void)state;
	for (int i = 0; i < 64; i++) {
		starts[i] = 0x10000 + (uint64_t)i * 32;
		sizes[i] = 24;
	}
	assert_hf_ok(hf_address_map_create(starts, sizes, 64, &map));
	assert_int_equal(map->granule_shift, 4);
	assert_int_equal(map->page_shift, 21);
	hf_address_map_destroy(map);
	for (int i = 0; i < 64; i++) {
		starts[i] = ((uint64_t)i << 23) + 8;
		sizes[i] = 24;
	}
	assert_hf_ok(hf_address_map_create(starts, sizes, 64, &map));
	assert_int_equal(map->granule_shift, 3);
	assert_int_equal(map->page_shift, 16);
	hf_address_map_destroy(map);
}

static void an_interior_address_ends_with_the_usable_size(void **state)
{
	uint64_t starts[] = { 0x1000, 0x1020 }, sizes[] = { 24, 24 };
	struct hf_address_map *map;

	(void)state;
	assert_hf_ok(hf_address_map_create(starts, sizes, 2, &map));
	assert_int_equal(hf_address_map_find(map, 0xfff), UINT32_MAX);
	assert_int_equal(hf_address_map_find(map, 0x1000), 0);
	assert_int_equal(hf_address_map_find(map, 0x1017), 0);
	assert_int_equal(hf_address_map_find(map, 0x1018), UINT32_MAX);
	assert_int_equal(hf_address_map_find(map, 0x101f), UINT32_MAX);
	assert_int_equal(hf_address_map_find(map, 0x1020), 1);
	assert_int_equal(hf_address_map_find(map, 0x1038), UINT32_MAX);
	hf_address_map_destroy(map);
}

static void an_object_without_bytes_contains_nothing(void **state)
{
	uint64_t starts[] = { 0x1000, 0x1010, 0x1020 };
	uint64_t sizes[] = { 16, 0, 8 };
	struct hf_address_map *map;

	(void)state;
	assert_hf_ok(hf_address_map_create(starts, sizes, 3, &map));
	assert_int_equal(hf_address_map_find(map, 0x100f), 0);
	assert_int_equal(hf_address_map_find(map, 0x1010), UINT32_MAX);
	assert_int_equal(hf_address_map_find(map, 0x1020), 2);
	hf_address_map_destroy(map);
}

static void a_map_of_nothing_finds_nothing(void **state)
{
	struct hf_address_map *map;

	(void)state;
	assert_hf_ok(hf_address_map_create(NULL, NULL, 0, &map));
	assert_int_equal(hf_address_map_find(map, 0), UINT32_MAX);
	assert_int_equal(hf_address_map_find(map, USER_END - 1), UINT32_MAX);
	hf_address_map_destroy(map);
}

static void objects_out_of_order_are_refused(void **state)
{
	static const struct {
		const char *name;
		uint64_t starts[2], sizes[2];
	} cases[] = {
		{ "twice the same", { 64, 64 }, { 0, 8 } },
		{ "descending", { 64, 32 }, { 8, 8 } },
		{ "overlapping", { 64, 80 }, { 24, 8 } },
		{ "not aligned", { 64, 84 }, { 16, 8 } },
		{ "above user space", { 64, 1ull << 47 }, { 8, 8 } },
		{ "wrapping", { 64, 1ull << 46 }, { 8, -8ull } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct hf_address_map *map = NULL;
		struct hf_error *err = hf_address_map_create(
			cases[i].starts, cases[i].sizes, 2, &map);

		if (!err)
			fail_msg("%s", cases[i].name);
		assert_int_equal(err->code, HF_ERROR_BAD_DATA);
		assert_null(map);
		hf_error_destroy(err);
	}
}

static void memory_follows_the_objects_and_not_the_space(void **state)
{
	/* A terabyte in one object, at one end; a small one at the other. */
	uint64_t starts[] = { 0x1000, ((uint64_t)1 << 46) };
	uint64_t sizes[] = { 24, (uint64_t)1 << 40 };
	struct hf_address_map *map;

	(void)state;
	assert_hf_ok(hf_address_map_create(starts, sizes, 2, &map));
	assert_true(hf_address_map_bytes(map) < 4 << 20);
	assert_int_equal(
		hf_address_map_find(map, starts[1] + sizes[1] - 1), 1);
	assert_int_equal(hf_address_map_find(map, starts[1] + sizes[1]),
			 UINT32_MAX);
	assert_int_equal(hf_address_map_find(map, starts[1] + (1 << 30)), 1);
	assert_int_equal(hf_address_map_find(map, starts[1] - 1), UINT32_MAX);
	hf_address_map_destroy(map);
}

static void dense_heaps_cost_sixteen_bytes_a_kib(void **state)
{
	enum { NUM = 1 << 17, STRIDE = 128 }; /* 16 MiB */
	HF_AUTO_FREE uint64_t *starts = calloc(NUM, sizeof(*starts));
	HF_AUTO_FREE uint64_t *sizes = calloc(NUM, sizeof(*sizes));
	struct hf_address_map *map;

	(void)state;
	for (uint64_t i = 0; i < NUM; i++) {
		starts[i] = 0x555555600000 + i * STRIDE + 16;
		sizes[i] = STRIDE - 8;
	}
	assert_hf_ok(hf_address_map_create(starts, sizes, NUM, &map));
	/* One more page for where the heap does not begin at 2 MiB, one empty
	 * page, and the directory. */
	assert_true(hf_address_map_bytes(map) <
		    (uint64_t)NUM * STRIDE / 1024 * 16 + (100 << 10));
	hf_address_map_destroy(map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_filter_agrees_with_a_search_by_hand),
		cmocka_unit_test(both_granules_and_both_page_sizes_are_met),
		cmocka_unit_test(an_interior_address_ends_with_the_usable_size),
		cmocka_unit_test(an_object_without_bytes_contains_nothing),
		cmocka_unit_test(a_map_of_nothing_finds_nothing),
		cmocka_unit_test(objects_out_of_order_are_refused),
		cmocka_unit_test(memory_follows_the_objects_and_not_the_space),
		cmocka_unit_test(dense_heaps_cost_sixteen_bytes_a_kib),
	};

	return cmocka_run_group_tests_name("address_map", tests, NULL, NULL);
}
