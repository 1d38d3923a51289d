/* A target that gets no CPU while its child is to be reaped.
 * SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/capture_check.h"
#include "tests/support/test_main.h"
#include "util/progress.h"

/* On one CPU the target and, for a while, a thread of real-time priority that
 * leaves it nothing; everybody else on another. */
struct setup {
	cpu_set_t target, others;
	atomic_int hogging;
	atomic_ulong *steps; /* of the target, which makes one after the other */
	pid_t pid;
};

enum { HOG_MS = 400 };

static void skip_unless(bool holds, const char *reason)
{
	if (holds)
		return;
	print_message("skipped: %s\n", reason);
	exit(77);
}

static void choose_cpus(struct setup *setup)
{
	cpu_set_t all;
	int num = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	CPU_ZERO(&setup->target);
	CPU_ZERO(&setup->others);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all))
			CPU_SET(cpu, num++ ? &setup->others : &setup->target);
	skip_unless(num >= 2, "there is only one CPU");
}

static void start_target(struct setup *setup)
{
	setup->steps = mmap(NULL, sizeof(*setup->steps),
			    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			    -1, 0);
	assert_true(setup->steps != MAP_FAILED);
	setup->pid = fork();
	assert_true(setup->pid >= 0);
	if (setup->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
		if (sched_setaffinity(0, sizeof(setup->target),
				      &setup->target))
			_exit(1);
		for (;;)
			atomic_fetch_add(setup->steps, 1);
	}
	while (!atomic_load(setup->steps))
		hf_test_sleep_ms(1);
}

static void *hog(void *arg)
{
	struct setup *setup = arg;
	struct sched_param param = { .sched_priority = 1 };
	uint64_t end;

	if (pthread_setaffinity_np(pthread_self(), sizeof(setup->target),
				   &setup->target) ||
	    pthread_setschedparam(pthread_self(), SCHED_FIFO, &param)) {
		atomic_store(&setup->hogging, -1);
		return NULL;
	}
	atomic_store(&setup->hogging, 1);
	end = hf_now_ns() + (uint64_t)HOG_MS * 1000000;
	while (hf_now_ns() < end)
		;
	return NULL;
}

static void a_target_that_stops_late_is_reaped_from_and_goes_on(void **state)
{
	struct setup setup = { .hogging = 0 };
	struct hf_frozen *frozen;
	unsigned long steps;
	pthread_t thread;

	(void)state;
	choose_cpus(&setup);
	start_target(&setup);
	assert_int_equal(sched_setaffinity(0, sizeof(setup.others),
					   &setup.others), 0);
	assert_hf_ok(hf_test_capture(setup.pid, &frozen));
	/* It has to die before anybody is asked to reap it. */
	assert_int_equal(sched_setaffinity(hf_frozen_pid(frozen),
					   sizeof(setup.others),
					   &setup.others), 0);
	assert_int_equal(pthread_create(&thread, NULL, hog, &setup), 0);
	while (!atomic_load(&setup.hogging))
		sched_yield();
	if (atomic_load(&setup.hogging) < 0)
		kill(setup.pid, SIGKILL);
	skip_unless(atomic_load(&setup.hogging) > 0, "no real-time priority");

	assert_hf_ok(hf_frozen_release(frozen));
	assert_true(hf_frozen_report(frozen)->reaped);
	assert_int_equal(hf_test_num_zombies(setup.pid), 0);
	hf_frozen_destroy(frozen);
	pthread_join(thread, NULL);
	steps = atomic_load(setup.steps);
	while (atomic_load(setup.steps) == steps)
		hf_test_sleep_ms(1);
	kill(setup.pid, SIGKILL);
	waitpid(setup.pid, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_target_that_stops_late_is_reaped_from_and_goes_on),
	};

	hf_test_need_ptrace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
