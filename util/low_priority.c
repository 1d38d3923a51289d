/* Low priority: work that yields to everybody else on the machine.
 * SPDX-License-Identifier: MIT */
#include "util/low_priority.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>

enum { NICE_STEP = 10, NICE_MAX = 19 };

/* include/uapi/linux/ioprio.h; glibc has no names for it. */
enum {
	IOPRIO_WHO_THREAD = 1,
	IOPRIO_IDLE = 3 << 13, /* class idle, no level */
};

struct job {
	struct hf_error *(*work)(void *arg);
	void *arg;
	struct hf_error *err;
};

/* All of it is a courtesy, and nothing depends on it. On Linux these calls are
 * for the calling thread alone. */
void hf_low_priority_no_hurry(void)
{
	int nice_now = getpriority(PRIO_PROCESS, 0);

	setpriority(PRIO_PROCESS, 0, nice_now + NICE_STEP < NICE_MAX ?
				     nice_now + NICE_STEP : NICE_MAX);
}

static void yield_to_others(void)
{
	const struct sched_param param = { 0 };

	sched_setscheduler(0, SCHED_BATCH, &param);
	syscall(SYS_ioprio_set, IOPRIO_WHO_THREAD, 0, IOPRIO_IDLE);
}

static void *run(void *arg)
{
	struct job *job = arg;

	yield_to_others();
	job->err = job->work(job->arg);
	return NULL;
}

struct hf_error *hf_run_low_priority(struct hf_error *(*work)(void *arg),
				     void *arg)
{
	struct job job = { .work = work, .arg = arg };
	sigset_t all, saved;
	pthread_t thread;
	int os_error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	os_error = pthread_create(&thread, NULL, run, &job);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	if (os_error)
		return work(arg);
	pthread_join(thread, NULL);
	return job.err;
}
