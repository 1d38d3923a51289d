/* Tests of targets in unusual states, and of failures at every step.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/support/capture_check.h"
#include "tests/support/test_main.h"
#include "tests/support/victim.h"

static void start(struct hf_victim *victim, const char *program,
		  const char *arg)
{
	hf_victim_start(victim, (const char *[]){ program, arg, NULL });
	hf_victim_expect(victim, "ready");
}

/* A detached thread needs a moment to fall back into its state. */
static void expect_state(pid_t pid, char wanted)
{
	for (int i = 0; i < 1000 && hf_test_state(pid) != wanted; i++)
		hf_test_sleep_ms(1);
	assert_int_equal(hf_test_state(pid), wanted);
}

static void a_stopped_process_stays_stopped(void **state)
{
	struct hf_victim victim;
	int status;

	(void)state;
	start(&victim, VICTIM_BLOCKED_CALLS, NULL);
	kill(victim.pid, SIGSTOP);
	assert_int_equal(waitpid(victim.pid, &status, WUNTRACED), victim.pid);
	for (int i = 0; i < hf_test_rounds(3); i++) {
		hf_test_capture_once(victim.pid);
		expect_state(victim.pid, 'T');
		/* And its parent is not told a second time. */
		assert_int_equal(waitpid(victim.pid, &status,
					 WUNTRACED | WCONTINUED | WNOHANG), 0);
	}
	kill(victim.pid, SIGCONT);
	assert_int_equal(waitpid(victim.pid, &status, WCONTINUED), victim.pid);
	assert_true(WIFCONTINUED(status));
	fclose(victim.in);
	victim.in = NULL;
	assert_int_equal(hf_victim_number(&victim, "num_handled"), 0);
	assert_int_equal(hf_victim_end(&victim), 0);
}

static void a_static_program_is_no_different(void **state)
{
	struct hf_victim victim;

	(void)state;
	start(&victim, VICTIM_REGISTERS_STATIC, "2");
	for (int i = 0; i < hf_test_rounds(5); i++)
		hf_test_capture_once(victim.pid);
	assert_int_equal(hf_victim_end(&victim), 0);
}

static void pid_1_of_a_pid_namespace_keeps_no_zombie(void **state)
{
	int fds[2];
	pid_t outer, inner = 0;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	outer = fork();
	if (outer == 0) {
		if (unshare(CLONE_NEWPID) < 0)
			_exit(77);
		inner = fork();
		if (inner == 0) {
			prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
		if (write(fds[1], &inner, sizeof(inner)) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	close(fds[1]);
	if (read(fds[0], &inner, sizeof(inner)) != sizeof(inner))
		skip();
	for (int i = 0; i < hf_test_rounds(3); i++)
		hf_test_capture_once(inner);
	assert_int_equal(hf_test_num_zombies(inner), 0);
	kill(inner, SIGKILL);
	kill(outer, SIGKILL);
	waitpid(outer, NULL, 0);
	close(fds[0]);
}

static void pending_and_blocked_signals_are_as_before(void **state)
{
	static const char *const fields[] = { "SigPnd", "ShdPnd", "SigBlk",
					      "SigIgn", "SigCgt", "Threads" };
	enum { NUM = sizeof(fields) / sizeof(fields[0]) };
	unsigned long long before[NUM];
	struct hf_victim victim;

	(void)state;
	start(&victim, VICTIM_BLOCKED_CALLS, NULL);
	/* Blocked in every thread (but not waited for in this one), for the
	 * process and for the thread. */
	kill(victim.pid, SIGUSR1);
	syscall(SYS_tgkill, victim.pid, victim.pid, SIGUSR1);
	for (int i = 0; i < NUM; i++)
		before[i] = hf_test_status_field(victim.pid, fields[i], 16);
	for (int i = 0; i < hf_test_rounds(3); i++)
		hf_test_capture_once(victim.pid);
	assert_true(before[0] & 1u << (SIGUSR1 - 1));
	assert_true(before[1] & 1u << (SIGUSR1 - 1));
	for (int i = 0; i < NUM; i++)
		assert_int_equal(hf_test_status_field(victim.pid, fields[i],
						      16), before[i]);
	assert_int_equal(hf_victim_end(&victim), 0);
}

struct killer {
	pid_t pid;
	unsigned int delay_us;
};

static void *kill_later(void *arg)
{
	struct killer *killer = arg;

	usleep(killer->delay_us);
	kill(killer->pid, SIGKILL);
	return NULL;
}

static void a_target_that_dies_meanwhile_is_an_error_and_no_hang(void **state)
{
	const int rounds = hf_test_rounds(25);
	int num_errors = 0;

	(void)state;
	srand(1);
	for (int i = 0; i < rounds; i++) {
		struct hf_victim victim;
		struct killer killer;
		struct hf_frozen *frozen;
		struct hf_error *err;
		pthread_t thread;

		start(&victim, VICTIM_BUSY, i % 2 ? "threads" : "signals");
		killer.pid = victim.pid;
		killer.delay_us = (unsigned int)rand() % 6000;
		pthread_create(&thread, NULL, kill_later, &killer);
		err = hf_test_capture(victim.pid, &frozen);
		if (err) {
			num_errors++;
			assert_int_equal(err->code, HF_ERROR_TARGET_GONE);
			hf_error_destroy(err);
		} else {
			assert_hf_ok(hf_frozen_release(frozen));
			hf_frozen_destroy(frozen);
		}
		pthread_join(thread, NULL);
		assert_int_equal(hf_victim_end(&victim), 1000 + SIGKILL);
	}
	assert_true(num_errors > 0);
}

/* ---- a failure at every step ---- */

enum mishap { CANCEL, FAIL, KILL_TARGET };

struct saboteur {
	enum hf_capture_step step;
	enum mishap mishap;
	volatile sig_atomic_t cancelled;
	pid_t target;
};

static struct hf_error *sabotage(void *arg, enum hf_capture_step step)
{
	struct saboteur *saboteur = arg;

	if (step != saboteur->step)
		return NULL;
	switch (saboteur->mishap) {
	case CANCEL:
		saboteur->cancelled = 1;
		return NULL;
	case FAIL:
		return hf_error_create(HF_ERROR_OS, "sabotaged");
	case KILL_TARGET:
	default:
		kill(saboteur->target, SIGKILL);
		return NULL;
	}
}

static struct hf_error *capture_sabotaged(struct saboteur *saboteur,
					  pid_t pid, struct hf_frozen **ret)
{
	const struct hf_capture_hooks hooks = {
		.at_step = sabotage,
		.arg = saboteur,
	};
	const struct hf_capture_options options = {
		.pid = pid,
		.cancelled = &saboteur->cancelled,
	};

	saboteur->target = pid;
	return hf_capture_with_hooks(&options, &hooks, ret);
}

static void check_harmless(enum mishap mishap, enum hf_error_code code)
{
	struct hf_victim victim;

	start(&victim, VICTIM_BLOCKED_CALLS, NULL);

	int num_threads = hf_test_num_entries(victim.pid, "task");
	int num_fds = hf_test_num_entries(victim.pid, "fd");

	for (int step = 0; step < HF_NUM_STEPS; step++) {
		struct saboteur saboteur = {
			.step = (enum hf_capture_step)step,
			.mishap = mishap,
		};
		struct hf_frozen *frozen;
		struct hf_error *err =
			capture_sabotaged(&saboteur, victim.pid, &frozen);

		assert_non_null(err);
		assert_int_equal(err->code, code);
		hf_error_destroy(err);
		assert_int_equal(hf_test_status_field(victim.pid, "TracerPid",
						      10), 0);
		expect_state(victim.pid, 'S');
		assert_int_equal(hf_test_num_zombies(victim.pid), 0);
		assert_int_equal(hf_test_num_entries(victim.pid, "task"),
				 num_threads);
		assert_int_equal(hf_test_num_entries(victim.pid, "fd"),
				 num_fds);
	}
	hf_test_capture_once(victim.pid);
	fclose(victim.in);
	victim.in = NULL;
	assert_int_equal(hf_victim_number(&victim, "num_returned"), 0);
	assert_int_equal(hf_victim_number(&victim, "num_handled"), 0);
	assert_int_equal(hf_victim_end(&victim), 0);
}

static void the_user_may_stop_at_any_step(void **state)
{
	(void)state;
	check_harmless(CANCEL, HF_ERROR_INTERRUPTED);
}

static void a_failure_at_any_step_leaves_the_target_as_it_was(void **state)
{
	(void)state;
	check_harmless(FAIL, HF_ERROR_OS);
}

static void a_fault_of_the_injected_call_is_not_the_targets(void **state)
{
	const struct hf_capture_hooks hooks = { .false_site = 8 };
	unsigned long long caught, ignored;
	struct hf_victim victim;

	(void)state;
	start(&victim, VICTIM_BLOCKED_CALLS, NULL);
	caught = hf_test_status_field(victim.pid, "SigCgt", 16);
	ignored = hf_test_status_field(victim.pid, "SigIgn", 16);
	for (int i = 0; i < hf_test_rounds(3); i++) {
		const struct hf_capture_options options = {
			.pid = victim.pid,
		};
		struct hf_frozen *frozen;
		struct hf_error *err =
			hf_capture_with_hooks(&options, &hooks, &frozen);

		/* Address 8 is not mapped: SIGSEGV. */
		assert_non_null(err);
		assert_int_equal(err->code, HF_ERROR_OS);
		hf_error_destroy(err);
		hf_test_capture_once(victim.pid);
	}
	assert_int_equal(hf_test_status_field(victim.pid, "SigCgt", 16),
			 caught);
	assert_int_equal(hf_test_status_field(victim.pid, "SigIgn", 16),
			 ignored);
	fclose(victim.in);
	victim.in = NULL;
	assert_int_equal(hf_victim_number(&victim, "num_returned"), 0);
	assert_int_equal(hf_victim_number(&victim, "num_handled"), 0);
	assert_int_equal(hf_victim_end(&victim), 0);
}

static void the_target_may_die_at_any_step(void **state)
{
	(void)state;
	for (int step = 0; step < HF_NUM_STEPS; step++) {
		struct saboteur saboteur = {
			.step = (enum hf_capture_step)step,
			.mishap = KILL_TARGET,
		};
		struct hf_victim victim;
		struct hf_frozen *frozen;
		struct hf_error *err;

		start(&victim, VICTIM_BUSY, "threads");
		err = capture_sabotaged(&saboteur, victim.pid, &frozen);
		if (err) {
			assert_int_equal(err->code, HF_ERROR_TARGET_GONE);
			hf_error_destroy(err);
		} else {
			/* The image outlives the target. */
			pid_t child = hf_frozen_pid(frozen);

			assert_true(step >= HF_STEP_FORKED);
			assert_int_equal(hf_test_state(child), 't');
			assert_hf_ok(hf_frozen_release(frozen));
			hf_frozen_destroy(frozen);
		}
		assert_int_equal(hf_victim_end(&victim), 1000 + SIGKILL);
	}
}

static void a_child_that_was_killed_is_reaped_all_the_same(void **state)
{
	struct hf_victim victim;
	struct hf_frozen *frozen;

	(void)state;
	start(&victim, VICTIM_BLOCKED_CALLS, NULL);
	assert_hf_ok(hf_test_capture(victim.pid, &frozen));
	kill(hf_frozen_pid(frozen), SIGKILL);
	hf_test_sleep_ms(20);
	assert_hf_ok(hf_frozen_release(frozen));
	assert_true(hf_frozen_report(frozen)->reaped);
	assert_int_equal(hf_test_num_zombies(victim.pid), 0);
	hf_frozen_destroy(frozen);
	assert_int_equal(hf_victim_end(&victim), 0);
}

static void the_child_dies_with_the_tool(void **state)
{
	struct hf_victim victim;
	int fds[2];
	pid_t tool, child = 0;

	(void)state;
	start(&victim, VICTIM_BLOCKED_CALLS, NULL);
	assert_int_equal(pipe(fds), 0);
	tool = fork();
	if (tool == 0) {
		struct hf_frozen *frozen;

		assert_hf_ok(hf_test_capture(victim.pid, &frozen));
		child = hf_frozen_pid(frozen);
		if (write(fds[1], &child, sizeof(child)) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &child, sizeof(child)), sizeof(child));
	assert_int_equal(hf_test_state(child), 't');
	kill(tool, SIGKILL);
	waitpid(tool, NULL, 0);
	expect_state(child, 'Z');
	expect_state(victim.pid, 'S');
	assert_int_equal(hf_test_status_field(victim.pid, "TracerPid", 10), 0);
	close(fds[0]);
	fclose(victim.in);
	victim.in = NULL;
	assert_int_equal(hf_victim_number(&victim, "num_returned"), 0);
	assert_int_equal(hf_victim_end(&victim), 0);
}

static void handlers_and_mask_of_the_caller_are_as_before(void **state)
{
	struct sigaction before[65], after;
	sigset_t mask_before, mask_after;
	struct hf_victim victim;

	(void)state;
	start(&victim, VICTIM_BLOCKED_CALLS, NULL);
	for (int i = 1; i <= SIGRTMAX; i++)
		sigaction(i, NULL, &before[i]);
	pthread_sigmask(SIG_SETMASK, NULL, &mask_before);
	hf_test_capture_once(victim.pid);
	pthread_sigmask(SIG_SETMASK, NULL, &mask_after);
	for (int i = 1; i <= SIGRTMAX; i++) {
		assert_int_equal(sigismember(&mask_after, i),
				 sigismember(&mask_before, i));
		if (sigaction(i, NULL, &after) == 0)
			assert_ptr_equal(after.sa_handler,
					 before[i].sa_handler);
	}
	assert_int_equal(hf_test_num_entries(getpid(), "task"), 1);
	assert_int_equal(hf_victim_end(&victim), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stopped_process_stays_stopped),
		cmocka_unit_test(a_static_program_is_no_different),
		cmocka_unit_test(pid_1_of_a_pid_namespace_keeps_no_zombie),
		cmocka_unit_test(pending_and_blocked_signals_are_as_before),
		cmocka_unit_test(
			a_target_that_dies_meanwhile_is_an_error_and_no_hang),
		cmocka_unit_test(the_user_may_stop_at_any_step),
		cmocka_unit_test(
			a_failure_at_any_step_leaves_the_target_as_it_was),
		cmocka_unit_test(
			a_fault_of_the_injected_call_is_not_the_targets),
		cmocka_unit_test(the_target_may_die_at_any_step),
		cmocka_unit_test(
			a_child_that_was_killed_is_reaped_all_the_same),
		cmocka_unit_test(the_child_dies_with_the_tool),
		cmocka_unit_test(
			handlers_and_mask_of_the_caller_are_as_before),
	};

	hf_test_need_ptrace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
