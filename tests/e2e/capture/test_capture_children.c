/* Tests of captures of processes that wait for children in each way.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/capture_check.h"
#include "tests/support/victim.h"

static void check(const char *mode)
{
	struct hf_victim victim;

	hf_victim_start(&victim, (const char *[]){ VICTIM_REAPER, mode, NULL });
	hf_victim_expect(&victim, "ready");
	for (int i = 0; i < hf_test_rounds(20); i++)
		hf_test_capture_once(victim.pid);
	fclose(victim.in);
	victim.in = NULL;
	assert_true(hf_victim_number(&victim, "num_own") > 0);
	assert_int_equal(hf_victim_number(&victim, "num_wrong"), 0);
	assert_int_equal(hf_victim_end(&victim), 0);
}

static void a_handler_for_sigchld_sees_its_own_children_only(void **state)
{
	(void)state;
	check("handler");
}

static void a_loop_that_waits_for_any_child_gets_its_own_only(void **state)
{
	(void)state;
	check("loop");
}

static void with_sigchld_ignored_no_child_is_left(void **state)
{
	(void)state;
	check("ignored");
}

static void with_sa_nocldwait_no_child_is_left(void **state)
{
	(void)state;
	check("nocldwait");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_handler_for_sigchld_sees_its_own_children_only),
		cmocka_unit_test(
			a_loop_that_waits_for_any_child_gets_its_own_only),
		cmocka_unit_test(with_sigchld_ignored_no_child_is_left),
		cmocka_unit_test(with_sa_nocldwait_no_child_is_left),
	};

	hf_test_need_ptrace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
