/* Tests of captures of processes that are hard to stop.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "tests/support/capture_check.h"
#include "tests/support/test_main.h"
#include "tests/support/victim.h"
#include "util/progress.h"

static void start(struct hf_victim *victim, const char *mode)
{
	hf_victim_start(victim, (const char *[]){ VICTIM_BUSY, mode, NULL });
	hf_victim_expect(victim, "ready");
}

/* End it: it has done something, and nothing went wrong. */
static void end(struct hf_victim *victim)
{
	assert_int_equal(hf_test_num_zombies(victim->pid) > 2, 0);
	fclose(victim->in);
	victim->in = NULL;
	assert_true(hf_victim_number(victim, "num_done") > 0);
	assert_int_equal(hf_victim_number(victim, "num_wrong"), 0);
	assert_int_equal(hf_victim_end(victim), 0);
}

static void threads_may_come_and_go(void **state)
{
	const int rounds = hf_test_rounds(30);
	struct hf_victim victim;

	(void)state;
	start(&victim, "threads");
	for (int i = 0; i < rounds; i++)
		hf_test_capture_once(victim.pid);
	end(&victim);
}

static void programs_may_be_spawned_and_reaped(void **state)
{
	const int rounds = hf_test_rounds(30);
	struct hf_victim victim;

	(void)state;
	start(&victim, "spawn");
	for (int i = 0; i < rounds; i++) {
		struct hf_frozen *frozen;

		assert_hf_ok(hf_test_capture(victim.pid, &frozen));
		assert_hf_ok(hf_frozen_release(frozen));
		assert_int_equal(hf_test_state(hf_frozen_pid(frozen)), 0);
		hf_frozen_destroy(frozen);
	}
	end(&victim);
}

static void an_ignored_signal_interrupts_nobody(void **state)
{
	const int rounds = hf_test_rounds(40);
	struct hf_victim victim;

	(void)state;
	start(&victim, "fork");
	for (int i = 0; i < rounds; i++)
		hf_test_capture_once(victim.pid);
	end(&victim);
}

static void a_thread_in_vfork_is_partial_and_let_go_in_time(void **state)
{
	const int rounds = hf_test_rounds(4);
	struct hf_victim victim;
	uint32_t num_partial = 0, num_stopped = 0;

	(void)state;
	start(&victim, "vfork");
	for (int i = 0; i < rounds; i++) {
		struct hf_frozen *frozen;

		hf_victim_number(&victim, "vforked");
		hf_test_sleep_ms(50); /* it is in the next one now */
		assert_hf_ok(hf_test_capture(victim.pid, &frozen));

		const struct hf_capture_report *report =
			hf_frozen_report(frozen);

		assert_int_equal(report->num_threads, 2);
		/* Its child stood, or it had just ended. */
		assert_int_equal(report->num_vfork_children, 0);
		assert_true(report->num_vfork_stopped <= report->num_partial);
		num_stopped += report->num_vfork_stopped;
		num_partial += report->num_partial;
		/* While the child is held, the late thread goes on: two more
		 * rounds mean that it came out of vfork and was let go. */
		hf_victim_number(&victim, "vforked");
		hf_victim_number(&victim, "vforked");
		assert_hf_ok(hf_frozen_release(frozen));
		assert_true(hf_frozen_report(frozen)->reaped);
		hf_frozen_destroy(frozen);
	}
	assert_true(num_partial > 0);
	assert_true(num_stopped > 0);
	end(&victim);
}

static struct hf_error *count_stops(void *arg, enum hf_capture_step step)
{
	int *num_stops = arg;

	*num_stops += step == HF_STEP_INTERRUPTED;
	return NULL;
}

static void an_only_thread_in_vfork_is_waited_for(void **state)
{
	struct hf_victim victim;
	struct hf_frozen *frozen;
	struct hf_error *err;

	(void)state;
	start(&victim, "vfork1");
	hf_test_sleep_ms(50);

	struct hf_capture_options options = {
		.pid = victim.pid,
		.stop_timeout_ms = 20,
		.attempts = 9,
	};
	int num_stops = 0;
	const struct hf_capture_hooks hooks = {
		.at_step = count_stops,
		.arg = &num_stops,
	};

	/* An attempt between two of its children succeeds: begin at another
	 * time then. */
	for (int i = 0; i < 40; i++) {
		num_stops = 0;
		err = hf_capture_with_hooks(&options, &hooks, &frozen);
		if (err)
			break;
		hf_frozen_destroy(frozen);
		hf_test_sleep_ms(i * 13 % 300);
	}
	assert_int_equal(num_stops, 1); /* one wait, and not one an attempt */
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_TIMEOUT);
	assert_non_null(strstr(err->message, "within 0.02 s"));
	assert_non_null(strstr(err->cause, "waits in vfork"));
	assert_non_null(err->fix);
	hf_error_destroy(err);
	/* With patience it comes out, and the wait is not called a pause. */
	options.stop_timeout_ms = 2000;
	assert_hf_ok(hf_capture(&options, &frozen));
	assert_int_equal(hf_frozen_report(frozen)->num_partial, 0);
	assert_hf_ok(hf_frozen_release(frozen));
	assert_true(hf_frozen_report(frozen)->reaped);
	hf_frozen_destroy(frozen);
	end(&victim);
}

static void an_exec_meanwhile_harms_nobody(void **state)
{
	const int rounds = hf_test_rounds(40);
	struct hf_victim victim;
	int num_taken = 0;

	(void)state;
	start(&victim, "exec");
	for (int i = 0; i < rounds; i++) {
		struct hf_capture_options options = {
			.pid = victim.pid,
			.attempts = 20,
		};
		struct hf_frozen *frozen;
		struct hf_error *err = hf_capture(&options, &frozen);

		if (err) {
			if (err->code != HF_ERROR_TIMEOUT)
				fail_msg("%d: %s", err->code, err->message);
			hf_error_destroy(err);
			continue;
		}
		num_taken++;
		assert_hf_ok(hf_frozen_release(frozen));
		hf_frozen_destroy(frozen);
	}
	assert_true(num_taken > rounds / 2);
	end(&victim);
}

struct sender {
	pid_t pid;
	atomic_int stopping;
	long num_sent;
};

static void *send_signals(void *arg)
{
	struct sender *sender = arg;
	const union sigval value = { .sival_int = 1 };

	while (!atomic_load(&sender->stopping)) {
		if (sigqueue(sender->pid, SIGRTMIN, value) == 0)
			sender->num_sent++;
		hf_test_sleep_ms(0);
		for (volatile int i = 0; i < 5000; i++)
			;
	}
	return NULL;
}

static void every_signal_is_handled_once(void **state)
{
	const int rounds = hf_test_rounds(40);
	struct hf_victim victim;
	struct sender sender = { 0 };
	pthread_t thread;
	char told[64];

	(void)state;
	start(&victim, "signals");
	sender.pid = victim.pid;
	assert_int_equal(pthread_create(&thread, NULL, send_signals, &sender),
			 0);
	for (int i = 0; i < rounds; i++)
		hf_test_capture_once(victim.pid);
	atomic_store(&sender.stopping, 1);
	pthread_join(thread, NULL);
	snprintf(told, sizeof(told), "sent %ld", sender.num_sent);
	hf_victim_tell(&victim, told);
	assert_true(sender.num_sent > rounds);
	assert_int_equal(hf_victim_number(&victim, "num_handled"),
			 sender.num_sent);
	assert_int_equal(hf_victim_end(&victim), 0);
}

static void waits_for_timer_signals_are_not_interrupted(void **state)
{
	const int rounds = hf_test_rounds(40);
	struct hf_victim victim;

	(void)state;
	start(&victim, "timers");
	for (int i = 0; i < rounds; i++)
		hf_test_capture_once(victim.pid);
	end(&victim);
}

static void pin(pid_t tid, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(tid, sizeof(set), &set) < 0)
		skip();
}

/* Keeps CPU 0 from all others for longer than the reaping waits for a thread
 * of normal priority. */
static void *hog(void *arg)
{
	const struct sched_param param = { .sched_priority = 1 };
	uint64_t end = hf_now_ns() + 400 * 1000 * 1000;
	atomic_int *has_begun = arg;

	pin(0, 0);
	if (sched_setscheduler(0, SCHED_FIFO, &param) < 0)
		end = 0;
	atomic_store(has_begun, end ? 1 : -1);
	while (hf_now_ns() < end)
		;
	return NULL;
}

static void a_thread_that_stops_too_late_is_let_go_all_the_same(void **state)
{
	struct hf_victim victim;
	struct hf_frozen *frozen;
	atomic_int has_begun = 0;
	cpu_set_t before;
	pthread_t thread;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	if (!CPU_ISSET(0, &before) || !CPU_ISSET(1, &before))
		skip();
	hf_victim_start(&victim, (const char *[]){ VICTIM_BUSY, "spin", "1",
						   NULL });
	hf_victim_expect(&victim, "ready");
	pin(0, 1); /* and the threads that the capture starts */
	assert_hf_ok(hf_test_capture(victim.pid, &frozen));
	for (pid_t tid = victim.pid; tid < victim.pid + 50; tid++) {
		char path[64];

		snprintf(path, sizeof(path), "/proc/%d/task/%d", victim.pid,
			 tid);
		if (access(path, F_OK) == 0)
			pin(tid, 0);
	}
	assert_int_equal(pthread_create(&thread, NULL, hog, &has_begun), 0);
	while (!atomic_load(&has_begun))
		hf_test_sleep_ms(1);
	if (atomic_load(&has_begun) < 0)
		skip();
	assert_hf_ok(hf_frozen_release(frozen));
	assert_true(hf_frozen_report(frozen)->reaped);
	hf_frozen_destroy(frozen);
	assert_int_equal(hf_test_status_field(victim.pid, "TracerPid", 10), 0);
	pthread_join(thread, NULL);
	sched_setaffinity(0, sizeof(before), &before);
	end(&victim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_thread_that_stops_too_late_is_let_go_all_the_same),
		cmocka_unit_test(threads_may_come_and_go),
		cmocka_unit_test(programs_may_be_spawned_and_reaped),
		cmocka_unit_test(an_ignored_signal_interrupts_nobody),
		cmocka_unit_test(
			a_thread_in_vfork_is_partial_and_let_go_in_time),
		cmocka_unit_test(an_only_thread_in_vfork_is_waited_for),
		cmocka_unit_test(an_exec_meanwhile_harms_nobody),
		cmocka_unit_test(every_signal_is_handled_once),
		cmocka_unit_test(waits_for_timer_signals_are_not_interrupted),
	};

	hf_test_need_ptrace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
