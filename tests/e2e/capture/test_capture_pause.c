/* Tests of what the pause costs: calls of the kernel, and nothing else.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "fork-agent/proc_task.h"
#include "fork-agent/wait_clock.h"
#include "tests/support/capture_check.h"
#include "tests/support/test_main.h"
#include "tests/support/victim.h"
#include "util/progress.h"

static struct hf_victim victim;

/* A spinner that outlives a failed test would be in the way of the next. */
static int end_victim(void **state)
{
	(void)state;
	hf_victim_kill(&victim);
	return 0;
}

/* ---- this program's own malloc and open, which count ---- */

static atomic_bool is_pause;      /* the target stands */
struct count {
	atomic_long in_pause;
	atomic_long outside;      /* at other times: the count works */
};
static struct count allocs, texts;

static void note_call(struct count *count)
{
	if (atomic_load(&is_pause))
		atomic_fetch_add(&count->in_pause, 1);
	else
		atomic_fetch_add(&count->outside, 1);
}

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t num, size_t size);
void *__libc_realloc(void *ptr, size_t size);
void __libc_free(void *ptr);

void *malloc(size_t size)
{
	note_call(&allocs);
	return __libc_malloc(size);
}

void *calloc(size_t num, size_t size)
{
	note_call(&allocs);
	return __libc_calloc(num, size);
}

void *realloc(void *ptr, size_t size)
{
	note_call(&allocs);
	return __libc_realloc(ptr, size);
}

void free(void *ptr)
{
	note_call(&allocs);
	__libc_free(ptr);
}

/* Every path of /proc that we read is made by this, and nothing else. */
int snprintf(char *buf, size_t size, const char *format, ...)
{
	va_list args;
	int len;

	note_call(&texts);
	va_start(args, format);
	len = vsnprintf(buf, size, format, args);
	va_end(args);
	return len;
}

/* A thread that lets a tick pass before it stops (on a busy machine, or one of
 * many that want the CPU) is looked at, and waited for again. */
static uint64_t pause_start_ns;
static uint32_t num_ticks;

static struct hf_error *mark_pause(void *arg, enum hf_capture_step step)
{
	(void)arg;
	if (step == HF_STEP_INTERRUPTED) {
		pause_start_ns = hf_now_ns();
		atomic_store(&is_pause, true);
	} else if (step == HF_STEP_RESUMED) {
		atomic_store(&is_pause, false);
		num_ticks = (uint32_t)((hf_now_ns() - pause_start_ns) /
				       1000000 / HF_WAIT_TICK_MS);
	}
	return NULL;
}

/* @return rounds without a tick, in which the forbidden was counted. */
static int check(pid_t pid, int rounds)
{
	const struct hf_capture_hooks hooks = { .at_step = mark_pause };
	const struct hf_capture_options options = { .pid = pid };
	int num_quiet = 0;

	for (int i = 0; i < rounds; i++) {
		struct hf_frozen *frozen;
		long num_allocs = atomic_load(&allocs.outside);
		long num_texts = atomic_load(&texts.outside);

		atomic_store(&allocs.in_pause, 0);
		atomic_store(&texts.in_pause, 0);
		assert_hf_ok(hf_capture_with_hooks(&options, &hooks,
						   &frozen));

		const struct hf_capture_report *report =
			hf_frozen_report(frozen);

		assert_true(report->max_thread_calls >= 5);
		assert_true(report->max_thread_calls <= 6 + num_ticks);
		/* All but the borrowed thread, which is good for as many as
		 * two dozen. */
		assert_true(report->pause_calls >=
			    5 * (report->num_threads - 1));
		assert_true(report->pause_calls <=
			    6 * (report->num_threads - 1) + 40 + num_ticks);
		if (num_ticks == 0) {
			assert_int_equal(atomic_load(&allocs.in_pause), 0);
			/* The thread to borrow is looked at. */
			assert_true(atomic_load(&texts.in_pause) <= 1);
			num_quiet++;
		}
		assert_true(atomic_load(&allocs.outside) > num_allocs);
		assert_true(atomic_load(&texts.outside) > num_texts);
		assert_hf_ok(hf_frozen_release(frozen));
		assert_true(report->reaped);
		hf_frozen_destroy(frozen);
	}
	return num_quiet;
}

/* On a busy machine a pause without a tick may take some tries. */
static void check_quiet(pid_t pid)
{
	int num_quiet = check(pid, hf_test_rounds(2));

	for (int i = 0; i < 100 && num_quiet == 0; i++)
		num_quiet = check(pid, 1);
	assert_true(num_quiet > 0);
}

static void blocked_threads_take_six_calls_each(void **state)
{
	(void)state;
	hf_victim_start(&victim,
			(const char *[]){ VICTIM_BLOCKED_CALLS, NULL });
	hf_victim_expect(&victim, "ready");
	check_quiet(victim.pid);
	fclose(victim.in);
	victim.in = NULL;
	assert_int_equal(hf_victim_number(&victim, "num_returned"), 0);
	assert_int_equal(hf_victim_number(&victim, "num_interrupted"), 0);
	assert_int_equal(hf_victim_end(&victim), 0);
}

static void idle_threads_take_six_calls_each(void **state)
{
	(void)state;
	hf_victim_start(&victim,
			(const char *[]){ VICTIM_BUSY, "sleep", "100", NULL });
	hf_victim_expect(&victim, "ready");
	check_quiet(victim.pid);
	fclose(victim.in);
	victim.in = NULL;
	assert_int_equal(hf_victim_number(&victim, "num_done"), 100);
	assert_int_equal(hf_victim_end(&victim), 0);
}

static void sixty_four_spinners_take_six_calls_each(void **state)
{
	(void)state;
	hf_victim_start(&victim,
			(const char *[]){ VICTIM_BUSY, "spin", "64", NULL });
	hf_victim_expect(&victim, "ready");
	check(victim.pid, hf_test_rounds(2));
	fclose(victim.in);
	victim.in = NULL;
	assert_int_equal(hf_victim_number(&victim, "num_done"), 64);
	assert_int_equal(hf_victim_number(&victim, "num_wrong"), 0);
	assert_int_equal(hf_victim_end(&victim), 0);
}

/* What else stops them (clone, fork, a signal that they ignore) costs no
 * further call. */
static void threads_that_fork_take_six_calls_each(void **state)
{
	static const char *const modes[] = { "threads", "fork", "timers" };
	const struct hf_capture_hooks hooks = { .at_step = mark_pause };
	struct hf_capture_options options = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		const int rounds = hf_test_rounds(2);

		hf_victim_start(&victim, (const char *[]){ VICTIM_BUSY,
							   modes[i], NULL });
		hf_victim_expect(&victim, "ready");
		for (int round = 0; round < rounds; round++) {
			const struct hf_capture_report *report;
			struct hf_frozen *frozen;

			options.pid = victim.pid;
			assert_hf_ok(hf_capture_with_hooks(&options, &hooks,
							   &frozen));
			report = hf_frozen_report(frozen);
			assert_true(report->max_thread_calls <=
				    6 + num_ticks);
			assert_hf_ok(hf_frozen_release(frozen));
			hf_frozen_destroy(frozen);
		}
		fclose(victim.in);
		victim.in = NULL;
		assert_true(hf_victim_number(&victim, "num_done") > 0);
		assert_int_equal(hf_victim_number(&victim, "num_wrong"), 0);
		assert_int_equal(hf_victim_end(&victim), 0);
	}
}

/* ---- signals ---- */

struct waker {
	pid_t pid;
	enum hf_capture_step step;
	bool to_thread;
};

static struct hf_error *wake(void *arg, enum hf_capture_step step)
{
	const struct waker *waker = arg;

	if (step != waker->step)
		return NULL;
	if (waker->to_thread)
		syscall(SYS_tgkill, waker->pid, waker->pid, SIGUSR1);
	else
		kill(waker->pid, SIGUSR1);
	return NULL;
}

/* A signal before the wait is lost, as it is without us. */
static void expect_epoll_wait(pid_t pid)
{
	struct hf_proc_syscall call = { .nr = -1 };

	for (int i = 0; i < 10000 && call.nr != SYS_epoll_wait; i++) {
		if (!hf_proc_syscall_read(pid, pid, &call))
			call.nr = -1;
		hf_test_sleep_ms(1);
	}
	assert_int_equal(call.nr, SYS_epoll_wait);
}

/* The wait must end with EINTR as it would have without us, however late in
 * the pause the signal comes: else the program does not look at its flag. (In
 * the moment between the resumption and the wait's own beginning, a signal
 * comes before the wait, and is lost.) */
static void a_handled_signal_ends_a_wait_in_the_pause(void **state)
{
	long num_woken = 0;

	(void)state;
	hf_victim_start(&victim, (const char *[]){ VICTIM_BUSY, "wake",
						   NULL });
	hf_victim_expect(&victim, "ready");
	for (int step = HF_STEP_SEIZED; step <= HF_STEP_PARKED; step++) {
		for (int to_thread = 0; to_thread <= 1; to_thread++) {
			struct waker waker = {
				.pid = victim.pid,
				.step = (enum hf_capture_step)step,
				.to_thread = to_thread,
			};
			const struct hf_capture_hooks hooks = {
				.at_step = wake,
				.arg = &waker,
			};
			const struct hf_capture_options options = {
				.pid = victim.pid,
			};
			struct hf_frozen *frozen;

			expect_epoll_wait(victim.pid);
			assert_hf_ok(hf_capture_with_hooks(&options, &hooks,
							   &frozen));
			assert_int_equal(hf_victim_number(&victim, "woken"),
					 ++num_woken);
			assert_hf_ok(hf_frozen_release(frozen));
			hf_frozen_destroy(frozen);
		}
	}
	fclose(victim.in);
	victim.in = NULL;
	assert_int_equal(hf_victim_number(&victim, "num_done"), num_woken);
	assert_int_equal(hf_victim_number(&victim, "num_wrong"), 0);
	assert_int_equal(hf_victim_end(&victim), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(
			idle_threads_take_six_calls_each, end_victim),
		cmocka_unit_test_teardown(
			blocked_threads_take_six_calls_each, end_victim),
		cmocka_unit_test_teardown(
			sixty_four_spinners_take_six_calls_each, end_victim),
		cmocka_unit_test_teardown(
			threads_that_fork_take_six_calls_each, end_victim),
		cmocka_unit_test_teardown(
			a_handled_signal_ends_a_wait_in_the_pause, end_victim),
	};

	hf_test_need_ptrace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
