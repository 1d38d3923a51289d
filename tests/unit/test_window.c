/* Tests of windows: the same answers as the image, with fewer reads.
 * SPDX-License-Identifier: MIT */
#include "coredump/window.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "tests/support/fake_image.h"
#include "tests/support/test_main.h"

enum { PAGE = 4096, SLOT = 65536, BASE = 0x100000 };

static void window_answers_as_the_image_does(void **state)
{
	static const enum hf_absent absents[] = {
		HF_ABSENT_MISSING, HF_ABSENT_ZERO, HF_ABSENT_FILE,
	};
	static const size_t sizes[] = { 1, 8, PAGE, PAGE + 8, SLOT };

	(void)state;
	for (size_t a = 0; a < 3; a++) {
		HF_AUTO(fake_image) struct fake_image *fake =
			fake_image_create();
		HF_AUTO(hf_window) struct hf_window *window = NULL;
		struct hf_image *image;
		char got[SLOT], want[SLOT];
		size_t num_yes = 0, num_no = 0;

		/* Begins and ends inside a slot; a hole between two. */
		fake_image_add_segment(fake, &(struct hf_segment){
			.start = BASE + 3 * PAGE, .end = BASE + 50 * PAGE,
			.prot = PROT_READ, .kind = HF_SEGMENT_ANON,
			.absent = absents[a] });
		fake_image_add_anon(fake, BASE + 70 * PAGE, BASE + 72 * PAGE);
		for (uint64_t page = 3; page < 50; page += 1 + page % 3)
			fake_image_poke_u64(fake, BASE + page * PAGE, page);
		fake_image_fail(fake, BASE + 20 * PAGE);
		image = fake_image_freeze(fake);
		assert_hf_ok(hf_window_create(image, 2, &window));
		for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
			for (uint64_t addr = BASE - 4;
			     addr < BASE + 80 * PAGE; addr += 1020) {
				bool readable = hf_image_read_some(
					image, addr, want, sizes[s]) ==
					sizes[s];

				memset(got, 0xee, sizes[s]);
				assert_int_equal(hf_window_peek(window, addr,
								got, sizes[s]),
						 readable);
				if (readable)
					assert_memory_equal(got, want,
							    sizes[s]);
				num_yes += readable;
				num_no += !readable;
			}
		assert_true(num_yes > 50 && num_no > 50);
	}
}

static void walking_upwards_costs_one_read_for_each_slot(void **state)
{
	HF_AUTO(fake_image) struct fake_image *fake = fake_image_create();
	HF_AUTO(hf_window) struct hf_window *window = NULL;
	uint64_t word;
	size_t reads;

	(void)state;
	fake_image_add_anon(fake, BASE, BASE + 4 * SLOT);
	fake_image_touch(fake, BASE, BASE + 4 * SLOT);
	assert_hf_ok(hf_window_create(fake_image_freeze(fake), 4, &window));
	reads = fake_image_num_reads(fake);
	for (int round = 0; round < 3; round++)
		for (uint64_t addr = BASE; addr < BASE + 4 * SLOT; addr += 16)
			assert_true(hf_window_peek_u64(window, addr, &word));
	assert_int_equal(fake_image_num_reads(fake) - reads, 4);
}

static void asking_for_a_hole_again_costs_no_read(void **state)
{
	HF_AUTO(fake_image) struct fake_image *fake = fake_image_create();
	HF_AUTO(hf_window) struct hf_window *window = NULL;
	uint64_t word;
	size_t reads;

	(void)state;
	fake_image_add_anon(fake, BASE, BASE + SLOT);
	fake_image_touch(fake, BASE, BASE + SLOT);
	fake_image_fail(fake, BASE + 5 * PAGE);
	assert_hf_ok(hf_window_create(fake_image_freeze(fake), 1, &window));
	assert_false(hf_window_peek_u64(window, BASE + 5 * PAGE, &word));
	reads = fake_image_num_reads(fake);
	assert_false(hf_window_peek_u64(window, BASE + 5 * PAGE, &word));
	assert_true(hf_window_peek_u64(window, BASE + 6 * PAGE, &word));
	assert_int_equal(fake_image_num_reads(fake), reads);
}

static void addresses_that_are_none_are_not_readable(void **state)
{
	static const uint64_t addrs[] = {
		0, 8, (UINT64_C(1) << 47) - 4, UINT64_C(1) << 47,
		UINT64_C(0xffffffffff600000), UINT64_MAX - 7, UINT64_MAX,
	};
	HF_AUTO(fake_image) struct fake_image *fake = fake_image_create();
	HF_AUTO(hf_window) struct hf_window *window = NULL;
	uint64_t top = UINT64_C(1) << 47, word;

	(void)state;
	fake_image_add_anon(fake, top - PAGE, top);
	assert_hf_ok(hf_window_create(fake_image_freeze(fake), 2, &window));
	for (size_t i = 0; i < sizeof(addrs) / sizeof(addrs[0]); i++)
		assert_false(hf_window_peek_u64(window, addrs[i], &word));
	assert_true(hf_window_peek_u64(window, top - 8, &word));
	assert_true(hf_window_peek(window, UINT64_MAX, &word, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(window_answers_as_the_image_does),
		cmocka_unit_test(walking_upwards_costs_one_read_for_each_slot),
		cmocka_unit_test(asking_for_a_hole_again_costs_no_read),
		cmocka_unit_test(addresses_that_are_none_are_not_readable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
