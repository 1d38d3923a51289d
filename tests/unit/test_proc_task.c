/* Tests of what is read from /proc about a process.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/proc_task.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fork-agent/preflight.h"
#include "tests/support/test_main.h"

static void a_name_may_contain_anything(void **state)
{
	static const char *const names[] = {
		"plain", "a) Z 1 (b", "\n) R", "))))", "(", " ", "15 letters name",
	};
	struct hf_proc_stat stat;

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		prctl(PR_SET_NAME, names[i]);
		assert_hf_ok(hf_proc_stat_read(getpid(), 0, &stat));
		assert_string_equal(stat.name, names[i]);
		assert_int_equal(stat.state, 'R');
		assert_int_equal(stat.parent, getppid());
		assert_int_equal(stat.num_threads, 1);
	}
}

static void ids_and_signals_are_those_of_the_process(void **state)
{
	struct hf_proc_status status;

	(void)state;
	signal(SIGUSR1, SIG_IGN);
	assert_hf_ok(hf_proc_status_read(getpid(), 0, &status));
	assert_int_equal(status.tgid, getpid());
	assert_int_equal(status.tracer, 0);
	assert_int_equal(status.uid[0], getuid());
	assert_int_equal(status.gid[1], getegid());
	assert_true(status.signals_ignored & 1u << (SIGUSR1 - 1));
	assert_true(status.has_memory);
}

static void what_a_sleeper_waits_in_is_known(void **state)
{
	pid_t pid = fork();
	struct hf_proc_syscall call = { 0 };
	struct hf_proc_stat stat = { 0 };

	(void)state;
	if (pid == 0)
		for (;;)
			pause();
	for (int i = 0; i < 2000 && stat.state != 'S'; i++) {
		usleep(1000);
		assert_hf_ok(hf_proc_stat_read(pid, 0, &stat));
	}
	if (hf_proc_syscall_read(pid, pid, &call)) {
		assert_int_equal(call.nr, 34); /* pause */
		assert_true(call.sp != 0 && call.pc != 0);
	}
	assert_true(hf_proc_is_thread_of(pid, pid));
	assert_false(hf_proc_is_thread_of(pid, getpid()));
	assert_false(hf_proc_has_children(pid, pid));
	assert_false(hf_proc_is_dead(pid));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_true(hf_proc_is_dead(pid));
}

static void a_reused_pid_is_noticed(void **state)
{
	struct hf_target target = { .pid = getpid() };
	struct hf_proc_stat stat;
	struct hf_error *err;

	(void)state;
	assert_hf_ok(hf_proc_stat_read(getpid(), 0, &stat));
	target.start_time = stat.start_time;
	assert_hf_ok(hf_preflight_recheck(&target));
	target.start_time--;
	err = hf_preflight_recheck(&target);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_TARGET_GONE);
	hf_error_destroy(err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_may_contain_anything),
		cmocka_unit_test(ids_and_signals_are_those_of_the_process),
		cmocka_unit_test(what_a_sleeper_waits_in_is_known),
		cmocka_unit_test(a_reused_pid_is_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
