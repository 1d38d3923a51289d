/* Exit codes: one for each kind of trouble, as heapfork(1) says.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "query/cli/cli.h"
#include "tests/support/test_main.h"

static void each_error_code_has_its_exit_code(void **state)
{
	static const struct {
		enum hf_error_code code;
		int exit_code;
	} cases[] = {
		{ HF_ERROR_NO_MEMORY, 10 },   { HF_ERROR_OS, 10 },
		{ HF_ERROR_FAULT, 10 },	      { HF_ERROR_NOT_FOUND, 3 },
		{ HF_ERROR_BAD_DATA, 7 },     { HF_ERROR_UNSUPPORTED, 5 },
		{ HF_ERROR_PERMISSION, 4 },   { HF_ERROR_SQL, 10 },
		{ HF_ERROR_USAGE, 2 },	      { HF_ERROR_TARGET_GONE, 3 },
		{ HF_ERROR_NO_SPACE, 6 },     { HF_ERROR_TIMEOUT, 8 },
		{ HF_ERROR_PARTIAL, 9 },      { HF_ERROR_INTERRUPTED, 130 },
		{ HF_ERROR_TOO_LONG, 11 },    { HF_ERROR_STOP, 10 },
	};

	(void)state;
	assert_int_equal(hf_exit_code(NULL, 0), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct hf_error err = { .code = cases[i].code };

		assert_int_equal(hf_exit_code(&err, 0), cases[i].exit_code);
	}
	/* The list above is the whole enumeration. */
	assert_int_equal(sizeof(cases) / sizeof(cases[0]), HF_ERROR_STOP);
}

static void the_signal_that_stopped_us_is_in_the_exit_code(void **state)
{
	struct hf_error stopped = { .code = HF_ERROR_INTERRUPTED };
	struct hf_error other = { .code = HF_ERROR_BAD_DATA };

	(void)state;
	assert_int_equal(hf_exit_code(&stopped, SIGTERM), 143);
	assert_int_equal(hf_exit_code(&stopped, SIGINT), 130);
	assert_int_equal(hf_exit_code(&other, SIGINT), 7);
}

static void a_misspelt_verb_has_a_suggestion(void **state)
{
	static const struct {
		const char *name, *verb;
	} cases[] = {
		{ "censu", "census" },	  { "cencus", "census" },
		{ "leak", "leaks" },	  { "retainer", "retainers" },
		{ "ret", "retainers" },	  { "pth", "path" },
		{ "nope", NULL },	  { "", NULL },
		{ "x", NULL },
		{ "a-very-long-word-that-is-certainly-no-verb", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct hf_verb *verb = hf_verb_suggest(cases[i].name);

		if (cases[i].verb && verb)
			assert_string_equal(verb->name, cases[i].verb);
		else
			assert_int_equal(!cases[i].verb, !verb);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_error_code_has_its_exit_code),
		cmocka_unit_test(
			the_signal_that_stopped_us_is_in_the_exit_code),
		cmocka_unit_test(a_misspelt_verb_has_a_suggestion),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
