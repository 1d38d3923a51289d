/* Tests that a capture interrupts no blocking system call of the target.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/capture_check.h"
#include "tests/support/test_main.h"
#include "tests/support/victim.h"

static void no_blocking_call_returns_and_no_child_is_noticed(void **state)
{
	const int rounds = hf_test_rounds(5);
	struct hf_victim victim;
	struct hf_frozen *frozen;
	long num_calls;

	(void)state;
	hf_victim_start(&victim, (const char *[]){ VICTIM_BLOCKED_CALLS, NULL });
	num_calls = hf_victim_number(&victim, "calls");
	hf_victim_expect(&victim, "ready");

	int num_threads = hf_test_num_entries(victim.pid, "task");
	int num_fds = hf_test_num_entries(victim.pid, "fd");

	assert_int_equal(num_threads, num_calls + 1);
	for (int i = 0; i < rounds; i++) {
		assert_hf_ok(hf_test_capture(victim.pid, &frozen));
		assert_int_equal(hf_frozen_report(frozen)->num_threads,
				 num_threads);
		assert_int_equal(hf_frozen_report(frozen)->num_partial, 0);
		assert_true(hf_frozen_report(frozen)->descriptors_closed);
		assert_true(hf_frozen_report(frozen)->num_restarted > 0);
		assert_int_equal(
			hf_test_num_entries(hf_frozen_pid(frozen), "fd"), 0);
		assert_hf_ok(hf_frozen_release(frozen));
		assert_true(hf_frozen_report(frozen)->reaped);
		hf_frozen_destroy(frozen);
	}
	assert_int_equal(hf_test_num_entries(victim.pid, "task"),
			 num_threads);
	assert_int_equal(hf_test_num_entries(victim.pid, "fd"), num_fds);
	assert_int_equal(hf_test_num_zombies(victim.pid), 0);
	fclose(victim.in);
	victim.in = NULL;
	assert_int_equal(hf_victim_number(&victim, "num_returned"), 0);
	assert_int_equal(hf_victim_number(&victim, "num_interrupted"), 0);
	assert_int_equal(hf_victim_number(&victim, "num_handled"), 0);
	assert_int_equal(hf_victim_end(&victim), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			no_blocking_call_returns_and_no_child_is_noticed),
	};

	hf_test_need_ptrace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
