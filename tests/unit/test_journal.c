/* Tests of the text of a journal's record.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fork-agent/journal.h"

#define HEAD \
	"heapfork-journal 1\nboot 01234567-89ab-cdef-0123-456789abcdef\n" \
	"pidns 4026531836\ntarget 12 3400\ntool 56\nsince 7800\n"

static void a_record_says_when_its_child_was_started(void **state)
{
	struct hf_journal_record record;

	(void)state;
	assert_true(hf_journal_parse(
		HEAD "forking 00000000000000007900 00000000000000008000\n",
		&record));
	assert_int_equal(record.target, 12);
	assert_int_equal(record.since, 7900);
	assert_int_equal(record.until, 8000);
	assert_int_equal(record.child, 0);
	assert_true(hf_journal_parse(HEAD "forking 7900 8000\nchild 90 91\n",
				     &record));
	assert_int_equal(record.until, 8000);
	assert_int_equal(record.child, 90);
	assert_int_equal(record.child_in_target, 91);
}

static void a_record_says_that_there_is_no_child_yet(void **state)
{
	struct hf_journal_record record;

	(void)state;
	assert_true(hf_journal_parse(
		HEAD "forking 00000000000000000000 00000000000000000000\n",
		&record));
	assert_int_equal(record.since, 7800);
	assert_int_equal(record.until, 0);
}

static void an_older_record_sets_no_end(void **state)
{
	struct hf_journal_record record;

	(void)state;
	assert_true(hf_journal_parse(HEAD "child 90 91\n", &record));
	assert_int_equal(record.since, 7800);
	assert_true(record.until == UINT64_MAX);
	assert_int_equal(record.child, 90);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_says_when_its_child_was_started),
		cmocka_unit_test(a_record_says_that_there_is_no_child_yet),
		cmocka_unit_test(an_older_record_sets_no_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
