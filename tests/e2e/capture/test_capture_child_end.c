/* Tests that the frozen child ends, also if it may not be killed.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "fork-agent/child.h"
#include "tests/support/capture_check.h"
#include "tests/support/test_main.h"

enum { NOBODY = 65534, SKIPPED = 77, NO_CODE = 8, SETTLE_MS = 10 * 1000 };

/* Another user's process, which dies with this one. */
static pid_t start_anothers_process(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (setgroups(0, NULL) < 0 ||
		    setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
		    setresuid(NOBODY, NOBODY, NOBODY) < 0)
			_exit(1);
		/* Changing the user has cleared it. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	for (int ms = 0; hf_test_status_field(pid, "Uid", 10) != NOBODY &&
			 ms < SETTLE_MS; ms++)
		hf_test_sleep_ms(1);
	return pid;
}

static void drop_cap_kill(pid_t pid)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2] = { 0 };

	if (syscall(SYS_capget, &header, data) < 0)
		_exit(SKIPPED);
	data[0].effective &= ~(1u << CAP_KILL);
	data[0].permitted &= ~(1u << CAP_KILL);
	if (syscall(SYS_capset, &header, data) < 0)
		_exit(SKIPPED);
	/* Or nothing is tested. */
	if (kill(pid, 0) == 0 || errno != EPERM)
		_exit(SKIPPED);
}

/* Run in a process of its own. @return what `fn` has returned. */
static int in_another_process(int (*fn)(pid_t pid), pid_t pid)
{
	pid_t tool = fork();
	int status;

	if (tool == 0)
		_exit(fn(pid));
	assert_int_equal(waitpid(tool, &status, 0), tool);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == SKIPPED)
		skip();
	return WEXITSTATUS(status);
}

/* In the thread that traces, when the child is there. */
static struct hf_error *lose_cap_kill(void *arg, enum hf_capture_step step)
{
	if (step == HF_STEP_PREPARED)
		drop_cap_kill(*(pid_t *)arg);
	return NULL;
}

static int capture_and_release(pid_t pid)
{
	const struct hf_capture_hooks hooks = {
		.at_step = lose_cap_kill,
		.arg = &pid,
	};
	const struct hf_capture_options options = { .pid = pid };
	struct hf_frozen *frozen;
	struct hf_error *err =
		hf_capture_with_hooks(&options, &hooks, &frozen);

	if (!err)
		err = hf_frozen_release(frozen);
	if (!err && hf_frozen_report(frozen)->reaped)
		return 0;
	if (err)
		fprintf(stderr, "%s; %s\n", err->message,
			err->cause ? err->cause : "");
	return 1;
}

static void a_child_that_may_not_be_killed_ends_itself(void **state)
{
	pid_t pid = start_anothers_process();

	(void)state;
	for (int i = 0; i < hf_test_rounds(3); i++) {
		assert_int_equal(in_another_process(capture_and_release, pid),
				 0);
		assert_int_equal(hf_test_num_children(pid), 0);
		assert_int_equal(hf_test_state(pid), 'S');
	}
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Nor is there an instruction with which it could end itself. */
static int try_to_kill(pid_t pid)
{
	struct hf_child child = { .pid = pid, .pid_in_target = pid };
	struct hf_wait_clock clock;
	struct hf_error *err;
	int status;

	drop_cap_kill(pid);
	assert_hf_ok(hf_wait_clock_init(&clock, 0, NULL));
	hf_wait_clock_start(&clock);
	if (ptrace(PTRACE_SEIZE, pid, NULL,
		   PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD) < 0 ||
	    ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0)
		return SKIPPED;
	while (hf_wait_clock_wait(&clock, pid, &status) == 0)
		;
	err = hf_child_kill(&child, NO_CODE, &clock);
	if (!err || child.dead || !strstr(err->message, "cannot be killed"))
		return 1;
	hf_error_destroy(err);
	hf_wait_clock_deinit(&clock);
	return 0;
}

static void a_child_that_cannot_be_killed_is_told_and_dies_with_us(void **state)
{
	pid_t pid = start_anothers_process();
	int status;

	(void)state;
	assert_int_equal(in_another_process(try_to_kill, pid), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_child_that_may_not_be_killed_ends_itself),
		cmocka_unit_test(
			a_child_that_cannot_be_killed_is_told_and_dies_with_us),
	};

	hf_test_need_ptrace();
	if (geteuid() != 0) {
		puts("another user's process needs root");
		return SKIPPED;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
