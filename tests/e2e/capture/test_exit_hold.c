/* Tests of the hold at the end: it is not noticed before, and keeps the memory.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "fork-agent/exit_hold.h"
#include "tests/support/capture_check.h"
#include "tests/support/test_main.h"
#include "tests/support/victim.h"

static void start(struct hf_victim *victim, const char *program,
		  const char *arg, struct hf_exit_hold **hold)
{
	hf_victim_start(victim, (const char *[]){ program, arg, NULL });
	hf_victim_expect(victim, "ready");
	assert_hf_ok(hf_exit_hold_create(victim->pid, hold));
}

static void wait_over(struct hf_exit_hold *hold)
{
	struct pollfd fd = { .fd = hf_exit_hold_fd(hold), .events = POLLIN };

	assert_int_equal(poll(&fd, 1, 20 * 1000), 1);
	assert_true(hf_exit_hold_is_over(hold));
}

/* It stands, all threads at their ends, until it is let go. */
static void expect_held(struct hf_exit_hold *hold, pid_t pid)
{
	struct hf_frozen *frozen;
	struct hf_image *image;
	size_t num;

	wait_over(hold);
	assert_true(hf_exit_hold_is_held(hold));
	assert_hf_ok(hf_capture_at_exit(hold, pid, &frozen));
	assert_hf_ok(hf_frozen_open_image(frozen, &image));
	hf_image_resident(image, &num);
	assert_true(num > 0);
	hf_image_threads(image, &num);
	assert_true(num > 0);
	hf_image_destroy(image);
	assert_hf_ok(hf_frozen_release(frozen));
	hf_frozen_destroy(frozen);
}

static void signals_that_are_ignored_interrupt_nobody(void **state)
{
	static const int ignored[] = { SIGWINCH, SIGURG, SIGCONT };
	struct hf_exit_hold *hold;
	struct hf_victim victim;

	(void)state;
	for (int round = 0; round < hf_test_rounds(3); round++) {
		start(&victim, VICTIM_BLOCKED_CALLS, NULL, &hold);
		for (int i = 0; i < 99; i++) {
			kill(victim.pid, ignored[i % 3]);
			hf_test_sleep_ms(1);
		}
		/* ... in quick succession. */
		for (int i = 0; i < 600; i++)
			kill(victim.pid, ignored[i % 3]);
		/* Also while it is detached, and attached again. */
		kill(victim.pid, SIGWINCH);
		hf_exit_hold_destroy(hold);
		hf_test_sleep_ms(20);
		assert_int_equal(hf_test_status_field(victim.pid, "TracerPid",
						      10), 0);
		assert_hf_ok(hf_exit_hold_create(victim.pid, &hold));
		fclose(victim.in);
		victim.in = NULL;
		assert_int_equal(hf_victim_number(&victim, "num_returned"), 0);
		assert_int_equal(hf_victim_number(&victim, "num_interrupted"),
				 0);
		assert_int_equal(hf_victim_number(&victim, "num_handled"), 0);
		expect_held(hold, victim.pid);
		assert_int_equal(hf_victim_end(&victim), 0);
		hf_exit_hold_destroy(hold);
	}
}

static pid_t fork_child(void (*body)(int fd), int *fd_ret)
{
	int fds[2];
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(fds[1]);
		body(fds[0]);
		_exit(9);
	}
	close(fds[0]);
	*fd_ret = fds[1];
	for (int i = 0; i < 2000 && hf_test_state(pid) != 'S'; i++)
		hf_test_sleep_ms(1);
	return pid;
}

static void wait_for_event(int fd)
{
	struct epoll_event event = { .events = EPOLLIN };
	int epoll_fd = epoll_create1(0);

	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event))
		_exit(2);
	_exit(epoll_wait(epoll_fd, &event, 1, -1) == 1 ? 0 : 1);
}

static void not_even_in_a_program_of_one_thread(void **state)
{
	static const int ignored[] = { SIGWINCH, SIGURG, SIGCONT };

	(void)state;
	for (int round = 0; round < hf_test_rounds(3); round++) {
		struct hf_exit_hold *hold;
		int fd, status;
		pid_t pid = fork_child(wait_for_event, &fd);

		assert_hf_ok(hf_exit_hold_create(pid, &hold));
		for (int i = 0; i < 1200; i++) {
			kill(pid, ignored[i % 3]);
			if (i % 7 == 0)
				hf_test_sleep_ms(1);
		}
		assert_false(hf_exit_hold_is_over(hold));
		assert_int_equal(write(fd, "x", 1), 1);
		expect_held(hold, pid);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(hf_victim_status(status), 0);
		hf_exit_hold_destroy(hold);
		close(fd);
	}
}

static void *sleep_on(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void exec_from_many_threads(int fd)
{
	char byte;
	pthread_t id;

	for (int i = 0; i < 8; i++)
		if (pthread_create(&id, NULL, sleep_on, NULL))
			_exit(2);
	if (read(fd, &byte, 1) == 1)
		execl("/bin/sleep", "sleep", "100", NULL);
	_exit(3);
}

/* exec waits for the ends of all threads, which are traced. */
static void exec_of_many_threads_is_not_kept_and_followed(void **state)
{
	(void)state;
	for (int round = 0; round < hf_test_rounds(5); round++) {
		struct hf_exit_hold *hold;
		int fd, status;
		pid_t pid = fork_child(exec_from_many_threads, &fd);

		hf_test_sleep_ms(5);
		assert_hf_ok(hf_exit_hold_create(pid, &hold));
		hf_test_sleep_ms(round * 3);
		assert_int_equal(write(fd, "x", 1), 1);
		for (int i = 0; i < 5000 &&
		     (hf_test_num_entries(pid, "task") != 1 ||
		      !hf_test_status_field(pid, "TracerPid", 10)); i++)
			hf_test_sleep_ms(1);
		assert_int_equal(hf_test_num_entries(pid, "task"), 1);
		kill(pid, SIGTERM);
		expect_held(hold, pid);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(hf_victim_status(status), 1000 + SIGTERM);
		hf_exit_hold_destroy(hold);
		close(fd);
	}
}

static void busy_processes_notice_nothing_and_are_held(void **state)
{
	static const char *const modes[] = { "threads", "spawn", "fork",
					     "vfork", "exec", "timers" };

	(void)state;
	for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
		struct hf_exit_hold *hold;
		struct hf_victim victim;

		start(&victim, VICTIM_BUSY, modes[m], &hold);
		hf_test_sleep_ms((unsigned int)hf_test_rounds(200));
		assert_false(hf_exit_hold_is_over(hold));
		fclose(victim.in);
		victim.in = NULL;
		expect_held(hold, victim.pid);
		assert_int_equal(hf_victim_number(&victim, "num_wrong"), 0);
		assert_int_equal(hf_victim_end(&victim), 0);
		hf_exit_hold_destroy(hold);
	}
}

static void every_signal_is_handled_once(void **state)
{
	enum { NUM = 200 };
	struct hf_exit_hold *hold;
	struct hf_victim victim;
	char told[32];

	(void)state;
	start(&victim, VICTIM_BUSY, "signals", &hold);
	for (int i = 0; i < NUM; i++) {
		const union sigval value = { .sival_int = 1 };

		assert_int_equal(sigqueue(victim.pid, SIGRTMIN, value), 0);
		if (i % 10 == 0)
			hf_test_sleep_ms(1);
	}
	snprintf(told, sizeof(told), "sent %d", NUM);
	hf_victim_tell(&victim, told);
	assert_int_equal(hf_victim_number(&victim, "num_handled"), NUM);
	expect_held(hold, victim.pid);
	assert_int_equal(hf_victim_end(&victim), 0);
	hf_exit_hold_destroy(hold);
}

static void no_register_changes(void **state)
{
	struct hf_exit_hold *hold;
	struct hf_victim victim;

	(void)state;
	start(&victim, VICTIM_REGISTERS, "2", &hold);
	for (int i = 0; i < hf_test_rounds(20); i++) {
		kill(victim.pid, SIGWINCH);
		hf_test_sleep_ms(5);
		if (i % 5 == 0) {
			hf_exit_hold_destroy(hold);
			assert_hf_ok(hf_exit_hold_create(victim.pid, &hold));
		}
	}
	fclose(victim.in);
	victim.in = NULL;
	assert_int_equal(hf_victim_number(&victim, "num_wrong"), 0);
	expect_held(hold, victim.pid);
	assert_int_equal(hf_victim_end(&victim), 0);
	hf_exit_hold_destroy(hold);
}

static void a_fatal_signal_is_held_and_then_fatal(void **state)
{
	struct hf_exit_hold *hold;
	struct hf_victim victim;

	(void)state;
	for (int i = 0; i < hf_test_rounds(3); i++) {
		start(&victim, VICTIM_REGISTERS, "2", &hold);
		kill(victim.pid, SIGTERM);
		wait_over(hold);
		assert_true(hf_exit_hold_is_held(hold));
		hf_test_sleep_ms(20);
		assert_int_equal(hf_test_state(hf_exit_hold_tid(hold)), 't');
		expect_held(hold, victim.pid);
		assert_int_equal(hf_victim_end(&victim), 1000 + SIGTERM);
		hf_exit_hold_destroy(hold);
	}
}

/* Within a while, by job control, in the eyes of a tracer or not. */
static void expect_stopped(pid_t pid, bool wanted)
{
	char state = 0;

	for (int i = 0; i < 2000; i++) {
		state = hf_test_state(pid);
		if ((state == 't' || state == 'T') == wanted)
			return;
		hf_test_sleep_ms(1);
	}
	fail_msg("it is %c", state);
}

static void job_control_goes_on_working(void **state)
{
	struct hf_exit_hold *hold;
	struct hf_victim victim;

	(void)state;
	start(&victim, VICTIM_BUSY, "timers", &hold);
	for (int i = 0; i < hf_test_rounds(5); i++) {
		kill(victim.pid, SIGSTOP);
		expect_stopped(victim.pid, true);
		hf_test_sleep_ms(10);
		expect_stopped(victim.pid, true);
		kill(victim.pid, SIGCONT);
		expect_stopped(victim.pid, false);
	}
	/* A stop outlives the tracer. */
	kill(victim.pid, SIGSTOP);
	hf_test_sleep_ms(20);
	hf_exit_hold_destroy(hold);
	for (int n = 0; n < 1000 && hf_test_state(victim.pid) != 'T'; n++)
		hf_test_sleep_ms(1);
	assert_int_equal(hf_test_state(victim.pid), 'T');
	kill(victim.pid, SIGCONT);
	fclose(victim.in);
	victim.in = NULL;
	assert_true(hf_victim_number(&victim, "num_done") > 0);
	hf_victim_kill(&victim);
}

static void a_process_whose_tracer_is_killed_runs_on(void **state)
{
	struct hf_victim victim;
	int fds[2];
	char byte;
	pid_t tool;

	(void)state;
	hf_victim_start(&victim, (const char *[]){ VICTIM_BLOCKED_CALLS, NULL });
	hf_victim_expect(&victim, "ready");
	assert_int_equal(pipe(fds), 0);
	tool = fork();
	if (tool == 0) {
		struct hf_exit_hold *hold;

		assert_hf_ok(hf_exit_hold_create(victim.pid, &hold));
		if (write(fds[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &byte, 1), 1);
	close(fds[0]);
	kill(tool, SIGKILL);
	assert_int_equal(waitpid(tool, NULL, 0), tool);
	assert_int_equal(hf_test_status_field(victim.pid, "TracerPid", 10), 0);
	fclose(victim.in);
	victim.in = NULL;
	assert_int_equal(hf_victim_number(&victim, "num_returned"), 0);
	assert_int_equal(hf_victim_end(&victim), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signals_that_are_ignored_interrupt_nobody),
		cmocka_unit_test(not_even_in_a_program_of_one_thread),
		cmocka_unit_test(
			exec_of_many_threads_is_not_kept_and_followed),
		cmocka_unit_test(busy_processes_notice_nothing_and_are_held),
		cmocka_unit_test(every_signal_is_handled_once),
		cmocka_unit_test(no_register_changes),
		cmocka_unit_test(a_fatal_signal_is_held_and_then_fatal),
		cmocka_unit_test(job_control_goes_on_working),
		cmocka_unit_test(a_process_whose_tracer_is_killed_runs_on),
	};

	hf_test_need_ptrace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
