/* Tests of captures of processes that another debugger has in hand.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/support/capture_check.h"
#include "tests/support/test_main.h"
#include "tests/support/victim.h"

enum { NUM_CAPTURES = 3, SYSCALL_STOP = SIGTRAP | 0x80 };

static void start(struct hf_victim *victim, const char *program,
		  const char *mode, const char *count)
{
	hf_victim_start(victim, (const char *[]){ program, mode, count,
						  NULL });
	hf_victim_expect(victim, "ready");
}

static void expect_alive(struct hf_victim *victim)
{
	hf_victim_tell(victim, "");
	hf_victim_expect(victim, "alive");
}

static void expect_refusal_because_of(pid_t pid, pid_t tracer,
				      const char *name)
{
	struct hf_frozen *frozen;
	struct hf_error *err = hf_test_capture(pid, &frozen);
	char number[32];

	assert_non_null(err);
	snprintf(number, sizeof(number), "process %d", tracer);
	if (err->code != HF_ERROR_PERMISSION || !err->cause ||
	    !strstr(err->cause, number) || !strstr(err->cause, name))
		fail_msg("code %d: %s; %s; wanted: %s, %s", err->code,
			 err->message, err->cause ? err->cause : "", number,
			 name);
	hf_error_destroy(err);
}

/* ---- a tracer of system calls, as strace is ---- */

static int told_to_detach(int fd)
{
	struct pollfd input = { .fd = fd, .events = POLLIN };

	return poll(&input, 1, 0) > 0;
}

/* Stop it before and after each system call until the pipe ends.
 * @return the number of stops, or -1 */
static long trace_calls(pid_t tid, int go_fd, int tell_fd)
{
	long num_stops = 0;
	int status;

	if (ptrace(PTRACE_SEIZE, tid, NULL,
		   (void *)(PTRACE_O_TRACESYSGOOD)) < 0 ||
	    ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0)
		return -1;
	for (;;) {
		int signal_number = 0;

		/* At a stop only: no other thread is there to interrupt. */
		if (waitpid(tid, &status, __WALL) != tid ||
		    !WIFSTOPPED(status))
			return -1;
		if (told_to_detach(go_fd))
			break;
		if (WSTOPSIG(status) == SYSCALL_STOP) {
			num_stops++;
			if (num_stops == 1 && write(tell_fd, "x", 1) != 1)
				return -1;
		} else if (status >> 16 != PTRACE_EVENT_STOP) {
			signal_number = WSTOPSIG(status);
		}
		if (ptrace(PTRACE_SYSCALL, tid, NULL,
			   (void *)(intptr_t)signal_number) < 0)
			return -1;
	}
	return ptrace(PTRACE_DETACH, tid, NULL, NULL) < 0 ? -1 : num_stops;
}

struct other {
	pid_t pid;
	int go_fd;   /* closed: detach */
	int tell_fd; /* a byte once it traces; the count in the end */
};

static void other_start(struct other *other, pid_t tid)
{
	int go[2], tell[2];
	char byte;

	assert_int_equal(pipe(go), 0);
	assert_int_equal(pipe(tell), 0);
	other->pid = fork();
	if (other->pid == 0) {
		long num_stops;

		close(go[1]);
		close(tell[0]);
		prctl(PR_SET_NAME, "call-tracer");
		num_stops = trace_calls(tid, go[0], tell[1]);
		_exit(write(tell[1], &num_stops, sizeof(num_stops)) < 0 ||
		      num_stops < 0);
	}
	close(go[0]);
	close(tell[1]);
	other->go_fd = go[1];
	other->tell_fd = tell[0];
	assert_int_equal(read(other->tell_fd, &byte, 1), 1);
}

/* The traced thread must make one more call for that to be seen. */
static void other_ask_to_detach(struct other *other)
{
	close(other->go_fd);
}

static long other_end(struct other *other)
{
	long num_stops = -1;
	int status;

	assert_int_equal(read(other->tell_fd, &num_stops, sizeof(num_stops)),
			 sizeof(num_stops));
	close(other->tell_fd);
	assert_int_equal(waitpid(other->pid, &status, 0), other->pid);
	assert_int_equal(status, 0);
	return num_stops;
}

static void one_that_is_traced_call_by_call_is_left_to_its_tracer(
	void **state)
{
	struct hf_victim victim;
	struct other other;

	(void)state;
	start(&victim, VICTIM_CONFINED, "plain", NULL);
	other_start(&other, victim.pid);
	for (int i = 0; i < hf_test_rounds(NUM_CAPTURES); i++) {
		expect_refusal_because_of(victim.pid, other.pid,
					  "call-tracer");
		assert_int_equal(hf_test_status_field(victim.pid, "TracerPid",
						      10), other.pid);
		expect_alive(&victim);
	}
	other_ask_to_detach(&other);
	expect_alive(&victim);
	/* Each round is a read and a write, of two stops each; the last may
	 * have come when it was to detach. */
	assert_true(other_end(&other) >= 4 * NUM_CAPTURES - 2);
	assert_int_equal(hf_test_status_field(victim.pid, "TracerPid", 10), 0);
	hf_test_capture_once(victim.pid);
	expect_alive(&victim);
	assert_int_equal(hf_test_num_zombies(victim.pid), 0);
	assert_int_equal(hf_victim_end(&victim), 0);
}

static pid_t last_thread(pid_t pid)
{
	struct dirent *entry;
	char path[64];
	pid_t last = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir)))
		if (atoi(entry->d_name) > last)
			last = (pid_t)atoi(entry->d_name);
	closedir(dir);
	assert_int_not_equal(last, pid);
	return last;
}

/* Only one of many: the others are let go again. */
static void one_thread_that_another_traces_is_enough_to_refuse(void **state)
{
	struct hf_victim victim;
	struct other other;
	pid_t tid;

	(void)state;
	start(&victim, VICTIM_BUSY, "sleep", "4");
	tid = last_thread(victim.pid);
	other_start(&other, tid);
	for (int i = 0; i < hf_test_rounds(NUM_CAPTURES); i++) {
		expect_refusal_because_of(victim.pid, other.pid,
					  "call-tracer");
		assert_int_equal(hf_test_status_field(victim.pid, "TracerPid",
						      10), 0);
		assert_int_equal(hf_test_status_field(tid, "TracerPid", 10),
				 other.pid);
	}
	other_ask_to_detach(&other);
	assert_true(other_end(&other) > 0);
	hf_test_capture_once(victim.pid);
	assert_int_equal(hf_victim_end(&victim), 0);
}

/* ---- gdb ---- */

static const char *find_gdb(void)
{
	static const char *const paths[] = { "/usr/bin/gdb",
					     "/usr/local/bin/gdb" };

	for (size_t i = 0; i < 2; i++)
		if (access(paths[i], X_OK) == 0)
			return paths[i];
	return NULL;
}

static void one_that_gdb_holds_is_left_to_gdb(void **state)
{
	const char *path = find_gdb();
	struct hf_victim victim, gdb;
	char pid[16];

	(void)state;
	if (!path) {
		fprintf(stderr, "skipped: there is no gdb here\n");
		skip();
	}
	start(&victim, VICTIM_CONFINED, "plain", NULL);
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	hf_victim_start(&gdb, (const char *[]){
		path, "-nx", "-q", "-batch", "-iex",
		"set debuginfod enabled off", "-p", pid, "-ex",
		"shell echo; echo attached; cat >/dev/null", "-ex", "detach",
		NULL });
	hf_victim_expect(&gdb, "attached");
	for (int i = 0; i < NUM_CAPTURES; i++)
		expect_refusal_because_of(victim.pid, gdb.pid, "gdb");
	assert_int_equal(hf_test_state(victim.pid), 't');
	assert_int_equal(hf_victim_end(&gdb), 0);
	expect_alive(&victim);
	hf_test_capture_once(victim.pid);
	expect_alive(&victim);
	assert_int_equal(hf_victim_end(&victim), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			one_that_is_traced_call_by_call_is_left_to_its_tracer),
		cmocka_unit_test(
			one_thread_that_another_traces_is_enough_to_refuse),
		cmocka_unit_test(one_that_gdb_holds_is_left_to_gdb),
	};

	hf_test_need_ptrace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
