/* Tests of sweeps: what is delivered, what is missing, and in what pieces.
 * SPDX-License-Identifier: MIT */
#include "coredump/sweep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "tests/support/fake_image.h"
#include "tests/support/test_main.h"

enum { PAGE = 4096, BASE = 0x100000 };

static struct hf_sweep *sweep_of(struct hf_image *image,
				 const struct hf_range *ranges, size_t num)
{
	struct hf_sweep *sweep = NULL;

	assert_hf_ok(hf_sweep_create(image, &sweep));
	hf_sweep_start(sweep, ranges, num);
	return sweep;
}

static void add_segment(struct fake_image *fake, uint64_t start, uint64_t end,
			uint32_t prot, enum hf_absent absent)
{
	fake_image_add_segment(fake, &(struct hf_segment){
		.start = start, .end = end, .prot = prot,
		.kind = HF_SEGMENT_ANON, .absent = absent });
}

static void consecutive_resident_pages_are_one_piece(void **state)
{
	HF_AUTO(fake_image) struct fake_image *fake = fake_image_create();
	HF_AUTO(hf_sweep) struct hf_sweep *sweep = NULL;
	const struct hf_range range = { BASE, BASE + 100 * PAGE };
	struct hf_piece piece;

	(void)state;
	/* Two segments side by side are no border. */
	fake_image_add_anon(fake, BASE, BASE + 12 * PAGE);
	fake_image_add_anon(fake, BASE + 12 * PAGE, BASE + 100 * PAGE);
	fake_image_touch(fake, BASE + 10 * PAGE, BASE + 15 * PAGE);
	fake_image_touch(fake, BASE + 50 * PAGE, BASE + 51 * PAGE);
	fake_image_poke_u64(fake, BASE + 10 * PAGE + 8, 77);
	fake_image_poke_u64(fake, BASE + 50 * PAGE, 88);
	sweep = sweep_of(fake_image_freeze(fake), &range, 1);
	assert_true(hf_sweep_next(sweep, &piece));
	assert_int_equal(piece.addr, BASE + 10 * PAGE);
	assert_int_equal(piece.len, 5 * PAGE);
	assert_int_equal(piece.words[1], 77);
	assert_true(hf_sweep_next(sweep, &piece));
	assert_int_equal(piece.addr, BASE + 50 * PAGE);
	assert_int_equal(piece.len, PAGE);
	assert_int_equal(piece.words[0], 88);
	assert_false(hf_sweep_next(sweep, &piece));
	assert_false(hf_sweep_next(sweep, &piece));
	assert_int_equal(hf_sweep_missing_bytes(sweep), 0);
	/* Both came with one read; the freeze needs none. */
	assert_int_equal(fake_image_num_reads(fake), 1);
}

static void a_piece_does_not_cross_a_border_of_the_ranges(void **state)
{
	HF_AUTO(fake_image) struct fake_image *fake = fake_image_create();
	HF_AUTO(hf_sweep) struct hf_sweep *sweep = NULL;
	/* Rounded to words: [+8, +16), nothing, [+24, +32), [+32, +40). */
	const struct hf_range ranges[] = {
		{ BASE + 1, BASE + 17 },
		{ BASE + 17, BASE + 23 },
		{ BASE + 24, BASE + 32 },
		{ BASE + 32, BASE + 47 },
	};
	const uint64_t want[][2] = { { BASE + 8, 8 }, { BASE + 24, 8 },
				     { BASE + 32, 8 } };
	struct hf_piece piece;

	(void)state;
	fake_image_add_anon(fake, BASE, BASE + PAGE);
	for (uint64_t i = 0; i < 8; i++)
		fake_image_poke_u64(fake, BASE + 8 * i, i);
	sweep = sweep_of(fake_image_freeze(fake), ranges, 4);
	for (size_t i = 0; i < 3; i++) {
		assert_true(hf_sweep_next(sweep, &piece));
		assert_int_equal(piece.addr, want[i][0]);
		assert_int_equal(piece.len, want[i][1]);
		assert_int_equal(piece.words[0], (piece.addr - BASE) / 8);
	}
	assert_false(hf_sweep_next(sweep, &piece));
}

static void large_ranges_come_in_pieces_of_one_mebibyte(void **state)
{
	HF_AUTO(fake_image) struct fake_image *fake = fake_image_create();
	HF_AUTO(hf_sweep) struct hf_sweep *sweep = NULL;
	const uint64_t size = (5 << 19) + PAGE; /* 2.5 MiB and a page */
	const struct hf_range range = { BASE, BASE + size };
	struct hf_piece piece;
	uint64_t at = BASE;

	(void)state;
	fake_image_add_anon(fake, BASE, BASE + size);
	fake_image_touch(fake, BASE, BASE + size);
	for (uint64_t i = 0; i < size; i += PAGE)
		fake_image_poke_u64(fake, BASE + i, BASE + i);
	sweep = sweep_of(fake_image_freeze(fake), &range, 1);
	while (hf_sweep_next(sweep, &piece)) {
		assert_int_equal(piece.addr, at);
		assert_true(piece.len <= 1 << 20);
		for (uint64_t i = 0; i < piece.len; i += PAGE)
			assert_int_equal(piece.words[i / 8], piece.addr + i);
		at += piece.len;
	}
	assert_int_equal(at, range.end);
	assert_int_equal(fake_image_num_reads(fake), 3);
}

static void unreadable_pages_are_skipped_and_counted(void **state)
{
	HF_AUTO(fake_image) struct fake_image *fake = fake_image_create();
	HF_AUTO(hf_sweep) struct hf_sweep *sweep = NULL;
	const struct hf_range ranges[] = {
		{ BASE + 16, BASE + 3 * PAGE },
		{ BASE + 3 * PAGE + 24, BASE + 6 * PAGE },
	};
	const uint64_t want[][2] = {
		{ BASE + 16, PAGE - 16 },
		{ BASE + 2 * PAGE, PAGE },
		{ BASE + 4 * PAGE, PAGE },
	};
	struct hf_piece piece;

	(void)state;
	fake_image_add_anon(fake, BASE, BASE + 6 * PAGE);
	fake_image_touch(fake, BASE, BASE + 6 * PAGE);
	fake_image_fail(fake, BASE + PAGE);
	fake_image_fail(fake, BASE + 3 * PAGE);
	fake_image_fail(fake, BASE + 5 * PAGE);
	sweep = sweep_of(fake_image_freeze(fake), ranges, 2);
	for (size_t i = 0; i < 3; i++) {
		assert_true(hf_sweep_next(sweep, &piece));
		assert_int_equal(piece.addr, want[i][0]);
		assert_int_equal(piece.len, want[i][1]);
	}
	assert_false(hf_sweep_next(sweep, &piece));
	assert_int_equal(hf_sweep_missing_bytes(sweep),
			 PAGE + (PAGE - 24) + PAGE);
}

static void only_readable_missing_memory_counts_as_missing(void **state)
{
	HF_AUTO(fake_image) struct fake_image *fake = fake_image_create();
	HF_AUTO(hf_sweep) struct hf_sweep *sweep = NULL;
	const struct hf_range range = { 0, UINT64_MAX };
	struct hf_piece piece;

	(void)state;
	add_segment(fake, BASE, BASE + 8 * PAGE, PROT_NONE, HF_ABSENT_MISSING);
	add_segment(fake, BASE + 8 * PAGE, BASE + 12 * PAGE, PROT_READ,
		    HF_ABSENT_MISSING);
	add_segment(fake, BASE + 12 * PAGE, BASE + 20 * PAGE, PROT_READ,
		    HF_ABSENT_ZERO);
	add_segment(fake, BASE + 20 * PAGE, BASE + 30 * PAGE, PROT_READ,
		    HF_ABSENT_FILE);
	fake_image_touch(fake, BASE + 9 * PAGE, BASE + 10 * PAGE);
	sweep = sweep_of(fake_image_freeze(fake), &range, 1);
	assert_true(hf_sweep_next(sweep, &piece));
	assert_int_equal(piece.addr, BASE + 9 * PAGE);
	assert_int_equal(piece.len, PAGE);
	assert_false(hf_sweep_next(sweep, &piece));
	assert_int_equal(hf_sweep_missing_bytes(sweep), 3 * PAGE);
	/* A second sweep starts at zero. */
	hf_sweep_start(sweep, &range, 0);
	assert_false(hf_sweep_next(sweep, &piece));
	assert_int_equal(hf_sweep_missing_bytes(sweep), 0);
}

/* Small numbers that repeat: no seed, so that a failure is the same again. */
static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

/* Random pages and ranges; the truth is a bitmap of words. */
static void sweeps_of_random_ranges_equal_brute_force(void **state)
{
	enum { NUM_PAGES = 64, NUM_WORDS = NUM_PAGES * PAGE / 8 };
	static uint8_t want[NUM_WORDS], got[NUM_WORDS];
	uint32_t random = 1;

	(void)state;
	for (int round = 0; round < 300; round++) {
		HF_AUTO(fake_image) struct fake_image *fake =
			fake_image_create();
		HF_AUTO(hf_sweep) struct hf_sweep *sweep = NULL;
		uint8_t page_of[NUM_PAGES];
		struct hf_range ranges[16];
		struct hf_piece piece;
		uint64_t at = BASE, missing = 0, last = 0;
		size_t num = 0;

		memset(want, 0, sizeof(want));
		memset(got, 0, sizeof(got));
		fake_image_add_anon(fake, BASE, BASE + NUM_PAGES * PAGE);
		for (size_t i = 0; i < NUM_PAGES; i++) {
			page_of[i] = next_random(&random) % 4;
			if (page_of[i] >= 1)
				fake_image_touch(fake, BASE + i * PAGE,
						 BASE + (i + 1) * PAGE);
			if (page_of[i] == 3)
				fake_image_fail(fake, BASE + i * PAGE);
		}
		while (num < 16 && at < BASE + NUM_PAGES * PAGE - 70000) {
			at += next_random(&random) % 9000;
			ranges[num].start = at;
			at += next_random(&random) % 50000;
			ranges[num++].end = at;
		}
		for (size_t i = 0; i < num; i++)
			for (size_t word = 0; word < NUM_WORDS; word++) {
				uint64_t addr = BASE + 8 * word;
				uint8_t page = page_of[word / (PAGE / 8)];

				if (addr < ranges[i].start ||
				    addr + 8 > ranges[i].end)
					continue;
				want[word] = page == 1 || page == 2;
				missing += page == 3 ? 8 : 0;
			}
		sweep = sweep_of(fake_image_freeze(fake), ranges, num);
		while (hf_sweep_next(sweep, &piece)) {
			assert_true(piece.addr >= last);
			assert_int_equal(piece.addr % 8 + piece.len % 8, 0);
			assert_true(piece.len > 0);
			last = piece.addr + piece.len;
			memset(got + (piece.addr - BASE) / 8, 1,
			       piece.len / 8);
		}
		assert_memory_equal(got, want, sizeof(want));
		assert_int_equal(hf_sweep_missing_bytes(sweep), missing);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(consecutive_resident_pages_are_one_piece),
		cmocka_unit_test(a_piece_does_not_cross_a_border_of_the_ranges),
		cmocka_unit_test(large_ranges_come_in_pieces_of_one_mebibyte),
		cmocka_unit_test(unreadable_pages_are_skipped_and_counted),
		cmocka_unit_test(
			only_readable_missing_memory_counts_as_missing),
		cmocka_unit_test(sweeps_of_random_ranges_equal_brute_force),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
