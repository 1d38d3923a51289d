/* Carve: claims take what is free, in order, and nothing twice.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "indexer/carve.h"
#include "tests/support/test_main.h"

enum { SPACE = 64, ROUNDS = 20000, MAX_PIECES = 8 };

/* Owner of every byte of a small address space: the slow, plain truth. */
static uint8_t owner[SPACE];

static struct hf_error *note_owner(void *arg, uint32_t data,
				   struct hf_range part)
{
	uint8_t *seen = arg;

	assert_true(part.start < part.end);
	for (uint64_t i = part.start; i < part.end; i++) {
		assert_int_equal(seen[i], 0); /* nothing twice */
		seen[i] = (uint8_t)data;
	}
	return NULL;
}

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

/* owner[]: 0 not free, 255 free and unclaimed, else the claim's data. */
static void check_round(uint32_t seed)
{
	struct hf_ranges free_ranges = { 0 };
	struct hf_claim claims[MAX_PIECES];
	uint8_t is_free[SPACE] = { 0 }, seen[SPACE] = { 0 };
	uint8_t left[SPACE] = { 0 };
	size_t num = 0;
	uint64_t at = 0;

	memset(owner, 0, sizeof(owner));
	while (at < SPACE) {
		struct hf_range range;

		range.start = at + next_random(&seed) % 6;
		range.end = range.start + 1 + next_random(&seed) % 9;
		if (range.end > SPACE)
			break;
		assert_hf_ok(hf_array_append(&free_ranges.list, range));
		memset(is_free + range.start, 1, range.end - range.start);
		at = range.end;
	}
	for (size_t i = 0; i < MAX_PIECES; i++) {
		claims[i].range.start = next_random(&seed) % SPACE;
		claims[i].range.end =
			claims[i].range.start + next_random(&seed) % 12;
		if (claims[i].range.end > SPACE)
			claims[i].range.end = SPACE;
		claims[i].data = (uint32_t)i + 1;
	}
	num = hf_claims_normalize(claims, MAX_PIECES);
	for (size_t i = 0; i < num; i++) {
		assert_true(claims[i].range.start < claims[i].range.end);
		if (i)
			assert_true(claims[i - 1].range.end <=
				    claims[i].range.start);
		for (uint64_t a = claims[i].range.start;
		     a < claims[i].range.end; a++)
			if (is_free[a])
				owner[a] = (uint8_t)claims[i].data;
	}
	assert_hf_ok(hf_carve(&free_ranges, claims, num, note_owner, seen));
	assert_memory_equal(seen, owner, SPACE);
	for (size_t i = 0; i < free_ranges.list.num; i++)
		memset(left + free_ranges.list.data[i].start, 1,
		       free_ranges.list.data[i].end -
			       free_ranges.list.data[i].start);
	for (size_t a = 0; a < SPACE; a++)
		assert_int_equal(left[a], is_free[a] && !owner[a]);
	hf_array_deinit(&free_ranges.list);
}

static void claims_take_exactly_what_is_free(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= ROUNDS; seed++)
		check_round(seed);
}

static void normalized_claims_keep_the_earlier_of_two(void **state)
{
	struct hf_claim claims[] = {
		{ { 20, 30 }, 1 },
		{ { 10, 25 }, 2 },
		{ { 12, 14 }, 3 },
		{ { 40, 40 }, 4 },
	};

	(void)state;
	assert_int_equal(hf_claims_normalize(claims, 4), 2);
	assert_int_equal(claims[0].data, 2);
	assert_int_equal(claims[1].range.start, 25);
	assert_int_equal(claims[1].data, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(claims_take_exactly_what_is_free),
		cmocka_unit_test(normalized_claims_keep_the_earlier_of_two),
	};

	return cmocka_run_group_tests_name("carve", tests, NULL, NULL);
}
