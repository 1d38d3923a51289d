/* Tests of the parser of /proc/buddyinfo.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/free_huge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/test_main.h"

static void pieces_of_2_mib_and_more_are_added_up(void **state)
{
	static const struct {
		const char *text;
		uint64_t mib;
	} cases[] = {
		{ "", 0 },
		{ "Node 0, zone   Normal      9      9      9      9      9 "
		  "     9      9      9      9      3      5 \n", 3 * 2 + 5 * 4 },
		/* Not the zone for ancient devices, but the next two. */
		{ "Node 0, zone      DMA 0 0 0 0 0 0 0 0 0 1 3 \n"
		  "Node 0, zone    DMA32 0 0 0 0 0 0 0 0 0 2 7 \n"
		  "Node 1, zone   Normal 0 0 0 0 0 0 0 0 0 1 1",
		  2 * 2 + 7 * 4 + 2 + 4 },
		/* A kernel with fewer, or more. */
		{ "Node 0, zone Normal 1 2 3\n", 0 },
		{ "Node 0, zone Normal 0 0 0 0 0 0 0 0 0 0 0 1\n", 8 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t bytes = 1;

		assert_hf_ok(hf_free_huge_parse(cases[i].text, &bytes));
		assert_int_equal(bytes, cases[i].mib << 20);
	}
}

static void other_lines_are_bad_data(void **state)
{
	static const char *const cases[] = {
		"\n",
		"nonsense\n",
		"Node x, zone Normal 1\n",
		"Node 0 zone Normal 1\n",
		"Node 0, zone Normal 1 2 x\n",
		"Node 0, zone Normal 1 -2\n",
		"Node 0, zone Normal 0 0 0 0 0 0 0 0 0 99999999999999999999\n",
		"Node 0, zone Normal 0 0 0 0 0 0 0 0 0 18446744073709551615\n",
		"Node 0, zone Normal 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 "
		"1 1 1 1 1 1 1 1 1 1 1 1 1 1\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t bytes;
		HF_AUTO(hf_error) struct hf_error *err =
			hf_free_huge_parse(cases[i], &bytes);

		assert_non_null(err);
		assert_int_equal(err->code, HF_ERROR_BAD_DATA);
	}
}

static void this_machine_is_understood(void **state)
{
	uint64_t bytes;

	(void)state;
	assert_hf_ok(hf_free_huge_read(&bytes));
	assert_int_equal(bytes % HF_HUGE_BYTES, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_of_2_mib_and_more_are_added_up),
		cmocka_unit_test(other_lines_are_bad_data),
		cmocka_unit_test(this_machine_is_understood),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
