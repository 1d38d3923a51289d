/* Tests of targets that the kernel or another tracer protects.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
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

#include "tests/support/capture_check.h"
#include "tests/support/test_main.h"
#include "tests/support/victim.h"

enum { NOBODY = 65534, SKIPPED = 77 };

static void start(struct hf_victim *victim, const char *mode)
{
	hf_victim_start(victim, (const char *[]){ VICTIM_CONFINED, mode,
						  NULL });
	hf_victim_expect(victim, "ready");
}

static void expect_alive(struct hf_victim *victim)
{
	hf_victim_tell(victim, "");
	hf_victim_expect(victim, "alive");
}

/* ---- in another process, with fewer rights ---- */

enum rights { RIGHTS_NO_SYS_ADMIN, RIGHTS_NOBODY };

static void drop(enum rights rights)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2] = { 0 };

	if (rights == RIGHTS_NO_SYS_ADMIN) {
		if (syscall(SYS_capget, &header, data) < 0)
			_exit(SKIPPED);
		data[0].effective &= ~(1u << CAP_SYS_ADMIN);
		data[0].permitted &= ~(1u << CAP_SYS_ADMIN);
		if (syscall(SYS_capset, &header, data) < 0)
			_exit(SKIPPED);
		return;
	}
	if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
	    setresuid(NOBODY, NOBODY, NOBODY) < 0)
		_exit(SKIPPED);
}

/* Capture with fewer rights. @return 0, or the error's code; `text` gets its
 * message, cause and fix. */
static int capture_as(enum rights rights, pid_t pid, char *text, size_t size)
{
	int pipe_fds[2], status;
	ssize_t len;
	pid_t tool;

	assert_int_equal(pipe(pipe_fds), 0);
	tool = fork();
	if (tool == 0) {
		struct hf_frozen *frozen = NULL;
		struct hf_error *err;

		close(pipe_fds[0]);
		drop(rights);
		err = hf_test_capture(pid, &frozen);
		if (err) {
			dprintf(pipe_fds[1], "%s; %s; %s", err->message,
				err->cause ? err->cause : "",
				err->fix ? err->fix : "");
			_exit((int)err->code);
		}
		err = hf_frozen_release(frozen);
		_exit(err ? 100 : 0);
	}
	close(pipe_fds[1]);
	len = read(pipe_fds[0], text, size - 1);
	text[len > 0 ? len : 0] = '\0';
	close(pipe_fds[0]);
	assert_int_equal(waitpid(tool, &status, 0), tool);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == SKIPPED)
		skip();
	return WEXITSTATUS(status);
}

static void assert_contains(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("'%s' has no '%s'", text, part);
}

/* ---- seccomp ---- */

static void check_seccomp(const char *mode)
{
	struct hf_victim victim;
	char text[512];

	start(&victim, mode);
	for (int i = 0; i < hf_test_rounds(3); i++) {
		struct hf_frozen *frozen;
		struct hf_error *err = hf_test_capture(victim.pid, &frozen);

		if (err && err->code == HF_ERROR_UNSUPPORTED)
			skip(); /* the kernel cannot suspend seccomp */
		assert_hf_ok(err);
		assert_true(hf_frozen_report(frozen)->descriptors_closed);
		assert_hf_ok(hf_frozen_release(frozen));
		assert_true(hf_frozen_report(frozen)->reaped);
		hf_frozen_destroy(frozen);
		expect_alive(&victim);
	}
	assert_int_equal(hf_test_num_zombies(victim.pid), 0);

	/* Without the right to suspend it: refused, nothing is tried. */
	assert_int_equal(capture_as(RIGHTS_NO_SYS_ADMIN, victim.pid, text,
				    sizeof(text)),
			 HF_ERROR_PERMISSION);
	assert_contains(text, "seccomp");
	assert_contains(text, "CAP_SYS_ADMIN");
	expect_alive(&victim);
	assert_int_equal(hf_test_status_field(victim.pid, "TracerPid", 10), 0);
	assert_int_equal(hf_victim_end(&victim), 0);
}

static void a_filter_that_refuses_clone_is_suspended(void **state)
{
	(void)state;
	check_seccomp("errno");
}

/* The victim has no handler for SIGSYS: one would end it. */
static void a_filter_that_traps_raises_no_signal(void **state)
{
	(void)state;
	check_seccomp("trap");
}

static void a_filter_that_kills_does_not_kill(void **state)
{
	(void)state;
	check_seccomp("kill");
}

static void strict_mode_does_not_kill(void **state)
{
	(void)state;
	check_seccomp("strict");
}

/* ---- rights ---- */

static void anothers_process_is_refused_with_the_reason(void **state)
{
	struct hf_victim victim;
	char text[512];

	(void)state;
	start(&victim, "plain");
	assert_int_equal(capture_as(RIGHTS_NOBODY, victim.pid, text,
				    sizeof(text)),
			 HF_ERROR_PERMISSION);
	assert_contains(text, "belongs to uid 0");
	assert_contains(text, "uid 65534");
	assert_contains(text, "sudo");
	expect_alive(&victim);
	assert_int_equal(hf_victim_end(&victim), 0);
}

/* A victim of nobody's, traced by nobody: the program file must be readable
 * for that user, wherever it was built. */
static pid_t start_as_nobody(const char *mode, int *in_ret, int *out_ret)
{
	int in[2], out[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(in), 0);
	assert_int_equal(pipe(out), 0);

	int program = open(VICTIM_CONFINED, O_RDONLY);

	pid = fork();
	if (pid == 0) {
		char *const argv[] = { (char *)"confined", (char *)mode,
				       NULL };
		char *const envp[] = { NULL };

		dup2(in[0], 0);
		dup2(out[1], 1);
		close(in[1]);
		close(out[0]);
		drop(RIGHTS_NOBODY);
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
		fexecve(program, argv, envp);
		_exit(SKIPPED);
	}
	close(program);
	close(in[0]);
	close(out[1]);
	*in_ret = in[1];
	*out_ret = out[0];
	if (read(out[0], &byte, 1) != 1) {
		waitpid(pid, NULL, 0);
		skip();
	}
	return pid;
}

static void ones_own_process_needs_no_privilege(void **state)
{
	int in, out, status;
	char text[512] = "";
	pid_t pid = start_as_nobody("plain", &in, &out);
	int code = capture_as(RIGHTS_NOBODY, pid, text, sizeof(text));

	(void)state;
	assert_string_equal(text, "");
	assert_int_equal(code, 0);
	assert_int_equal(hf_test_num_zombies(pid), 0);
	close(in);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(hf_victim_status(status), 0);
	close(out);
}

static void a_process_that_may_not_fork_goes_on(void **state)
{
	int in, out, status;
	pid_t pid = start_as_nobody("nproc", &in, &out);
	struct hf_frozen *frozen;
	struct hf_error *err;
	char text[64];
	ssize_t len;

	(void)state;
	for (int i = 0; i < hf_test_rounds(3); i++) {
		err = hf_test_capture(pid, &frozen);
		assert_non_null(err);
		assert_int_equal(err->code, HF_ERROR_OS);
		assert_int_equal(err->os_error, EAGAIN);
		assert_contains(err->cause, "RLIMIT_NPROC");
		assert_contains(err->fix, "--mode stop");
		hf_error_destroy(err);
	}
	assert_int_equal(write(in, "\n", 1), 1);
	do {
		len = read(out, text, sizeof(text) - 1);
		assert_true(len > 0);
		text[len] = '\0';
	} while (!strstr(text, "alive"));
	close(in);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(hf_victim_status(status), 0);
	close(out);
}

static void a_process_that_is_not_dumpable_is_refused(void **state)
{
	int in, out;
	char text[512];
	pid_t pid = start_as_nobody("undumpable", &in, &out);

	(void)state;
	assert_int_equal(capture_as(RIGHTS_NOBODY, pid, text, sizeof(text)),
			 HF_ERROR_PERMISSION);
	assert_contains(text, "not dumpable");
	close(in);
	waitpid(pid, NULL, 0);
	close(out);
}

static void another_tracer_is_named(void **state)
{
	struct hf_victim victim;
	struct hf_frozen *frozen;
	struct hf_error *err;
	int fds[2];
	char byte, name[32];
	pid_t tracer;

	(void)state;
	start(&victim, "plain");
	assert_int_equal(pipe(fds), 0);
	tracer = fork();
	if (tracer == 0) {
		prctl(PR_SET_NAME, "other-tracer");
		if (ptrace(PTRACE_SEIZE, victim.pid, NULL, NULL) < 0 ||
		    write(fds[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(fds[0], &byte, 1), 1);
	err = hf_test_capture(victim.pid, &frozen);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_PERMISSION);
	assert_contains(err->cause, "other-tracer");
	snprintf(name, sizeof(name), "process %d", tracer);
	assert_contains(err->cause, name);
	hf_error_destroy(err);
	kill(tracer, SIGKILL);
	waitpid(tracer, NULL, 0);
	close(fds[0]);
	close(fds[1]);
	hf_test_capture_once(victim.pid);
	assert_int_equal(hf_victim_end(&victim), 0);
}

/* ---- what is no target ---- */

static void expect_refusal(pid_t pid, enum hf_error_code code,
			   const char *part)
{
	struct hf_frozen *frozen;
	struct hf_error *err = hf_test_capture(pid, &frozen);

	assert_non_null(err);
	if (err->code != code || !strstr(err->message, part))
		fail_msg("code %d: %s", err->code, err->message);
	hf_error_destroy(err);
}

static void what_is_no_target_is_told_apart(void **state)
{
	struct hf_victim victim;
	pid_t zombie;
	siginfo_t info;

	(void)state;
	expect_refusal(0, HF_ERROR_USAGE, "not the pid");
	expect_refusal(-7, HF_ERROR_USAGE, "not the pid");
	expect_refusal(getpid(), HF_ERROR_USAGE, "itself");
	expect_refusal(0x7ffffff0, HF_ERROR_TARGET_GONE, "no process");
	if (hf_test_state(2) && getpid() > 2) /* else in a container */
		expect_refusal(2, HF_ERROR_UNSUPPORTED, "kernel thread");

	zombie = fork();
	if (zombie == 0)
		_exit(0);
	waitid(P_PID, (id_t)zombie, &info, WEXITED | WNOWAIT);
	expect_refusal(zombie, HF_ERROR_TARGET_GONE, "has ended");
	waitpid(zombie, NULL, 0);
	expect_refusal(zombie, HF_ERROR_TARGET_GONE, "no process");

	/* A thread: the answer names its process. */
	hf_victim_start(&victim, (const char *[]){ VICTIM_REGISTERS, "1",
						   NULL });
	hf_victim_expect(&victim, "ready");
	for (pid_t tid = victim.pid + 1; tid < victim.pid + 1000; tid++) {
		char path[64], part[64];

		snprintf(path, sizeof(path), "/proc/%d/task/%d", victim.pid,
			 tid);
		if (access(path, F_OK) < 0)
			continue;
		snprintf(part, sizeof(part), "thread of process %d",
			 victim.pid);
		expect_refusal(tid, HF_ERROR_USAGE, part);
		break;
	}
	assert_int_equal(hf_victim_end(&victim), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_filter_that_refuses_clone_is_suspended),
		cmocka_unit_test(a_filter_that_traps_raises_no_signal),
		cmocka_unit_test(a_filter_that_kills_does_not_kill),
		cmocka_unit_test(strict_mode_does_not_kill),
		cmocka_unit_test(anothers_process_is_refused_with_the_reason),
		cmocka_unit_test(ones_own_process_needs_no_privilege),
		cmocka_unit_test(a_process_that_may_not_fork_goes_on),
		cmocka_unit_test(a_process_that_is_not_dumpable_is_refused),
		cmocka_unit_test(another_tracer_is_named),
		cmocka_unit_test(what_is_no_target_is_told_apart),
	};

	hf_test_need_ptrace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
