/* Tests of targets whose system calls are not those of a 64-bit program.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/capture_check.h"
#include "tests/support/test_main.h"
#include "tests/support/victim.h"

enum { NUM_CAPTURES = 3, NO_DISPATCH = 77 };

static void expect_alive(struct hf_victim *victim)
{
	hf_victim_tell(victim, "");
	hf_victim_expect(victim, "alive");
}

static void expect_refusal(pid_t pid, enum hf_error_code code,
			   const char *message, const char *cause)
{
	struct hf_frozen *frozen;
	struct hf_error *err = hf_test_capture(pid, &frozen);

	assert_non_null(err);
	if (err->code != code || !strstr(err->message, message) ||
	    !err->cause || !strstr(err->cause, cause))
		fail_msg("code %d: %s; %s", err->code, err->message,
			 err->cause ? err->cause : "");
	hf_error_destroy(err);
	assert_int_equal(hf_test_num_children(pid), 0);
	assert_int_equal(hf_test_status_field(pid, "TracerPid", 10), 0);
}

/* Skips if there is no such thing on this machine. */
static void start_dispatcher(struct hf_victim *victim, const char *mode)
{
	const char *line;

	hf_victim_start(victim, (const char *[]){ VICTIM_DISPATCHER, mode,
						  NULL });
	line = hf_victim_line(victim);
	if (!line) {
		assert_int_equal(hf_victim_end(victim), NO_DISPATCH);
		fprintf(stderr, "skipped: this kernel redirects no calls\n");
		skip();
	}
	assert_string_equal(line, "ready");
}

/* "ready" is written, and there is a read for each line and for the end. */
static void end_dispatcher(struct hf_victim *victim, long num_lines)
{
	fclose(victim->in);
	victim->in = NULL;
	assert_int_equal(hf_victim_number(victim, "num_redirected"),
			 2 * num_lines + 2);
	assert_int_equal(hf_victim_number(victim, "num_wrong"), 0);
	assert_int_equal(hf_victim_end(victim), 0);
}

static void where_all_calls_are_redirected_none_is_made(void **state)
{
	struct hf_victim victim;

	(void)state;
	start_dispatcher(&victim, "alone");
	for (int i = 0; i < NUM_CAPTURES; i++) {
		expect_refusal(victim.pid, HF_ERROR_TIMEOUT,
			       "can be made to fork", "syscall user dispatch");
		expect_alive(&victim);
	}
	end_dispatcher(&victim, NUM_CAPTURES);
}

static void a_thread_whose_calls_are_not_redirected_is_borrowed(void **state)
{
	struct hf_victim victim;

	(void)state;
	start_dispatcher(&victim, "two");
	for (int i = 0; i < NUM_CAPTURES; i++) {
		hf_test_capture_once(victim.pid);
		expect_alive(&victim);
	}
	assert_int_equal(hf_test_num_zombies(victim.pid), 0);
	end_dispatcher(&victim, NUM_CAPTURES);
}

static void a_32_bit_program_is_refused(void **state)
{
	(void)state;
#ifdef VICTIM_NARROW
	struct hf_victim victim;

	hf_victim_start(&victim, (const char *[]){ VICTIM_NARROW, NULL });
	if (!hf_victim_line(&victim)) {
		hf_victim_kill(&victim);
		fprintf(stderr, "skipped: this kernel runs no 32-bit code\n");
		skip();
	}
	for (int i = 0; i < NUM_CAPTURES; i++) {
		expect_refusal(victim.pid, HF_ERROR_UNSUPPORTED,
			       "is a 32-bit program", "64-bit x86");
		expect_alive(&victim);
	}
	assert_int_equal(hf_victim_end(&victim), 0);
#else
	fprintf(stderr, "skipped: the compiler makes no 32-bit programs\n");
	skip();
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(where_all_calls_are_redirected_none_is_made),
		cmocka_unit_test(
			a_thread_whose_calls_are_not_redirected_is_borrowed),
		cmocka_unit_test(a_32_bit_program_is_refused),
	};

	hf_test_need_ptrace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
