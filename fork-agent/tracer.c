/* Tracer: the one thread that makes all ptrace calls of one capture.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/tracer.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>

#include "fork-agent/sequence.h"
#include "util/progress.h"

enum {
	/* How soon a thread that was late for the stop is let go. */
	SERVE_INTERVAL_NS = 1000 * 1000,
	/* A joined thread is still detaching in the kernel for a moment. */
	EXIT_LIMIT_MS = 500,
};

enum phase {
	PHASE_RUNNING,   /* the attempt is under way */
	PHASE_FAILED,    /* error is set, the thread ends */
	PHASE_FROZEN,    /* the child is there */
	PHASE_RELEASE,   /* asked to release */
	PHASE_RELEASED,  /* done, the thread ends */
};

struct hf_tracer {
	pthread_t thread;
	pid_t tid;
	pthread_mutex_t lock;
	pthread_cond_t changed;     /* phase; with CLOCK_MONOTONIC */
	enum phase phase;           /* guarded by lock */
	bool joined;
	const struct hf_range *drop; /* a request, guarded by lock; borrowed */
	size_t num_drop;
	struct hf_error *given_up;   /* why the child had to go; guarded */
	struct hf_error *err;       /* of the attempt or the release */
	struct hf_sequence sequence; /* the thread's own, while it runs */
	struct hf_tracer_result result;
};

static void set_phase(struct hf_tracer *tracer, enum phase phase)
{
	pthread_mutex_lock(&tracer->lock);
	tracer->phase = phase;
	pthread_cond_broadcast(&tracer->changed);
	pthread_mutex_unlock(&tracer->lock);
}

static void wait_while(struct hf_tracer *tracer, enum phase phase)
{
	pthread_mutex_lock(&tracer->lock);
	while (tracer->phase == phase)
		pthread_cond_wait(&tracer->changed, &tracer->lock);
	pthread_mutex_unlock(&tracer->lock);
}

/* Wait for a change, but no longer than interval_ns (0: no limit). */
static void wait_change(struct hf_tracer *tracer, uint64_t interval_ns)
{
	struct timespec until;

	if (!interval_ns) {
		pthread_cond_wait(&tracer->changed, &tracer->lock);
		return;
	}
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += (long)interval_ns;
	if (until.tv_nsec >= 1000 * 1000 * 1000) {
		until.tv_nsec -= 1000 * 1000 * 1000;
		until.tv_sec++;
	}
	pthread_cond_timedwait(&tracer->changed, &tracer->lock, &until);
}

/* Is it time to look after the memory? @return false: the child must go. */
static bool watch(struct hf_tracer *tracer, uint64_t *next_ns)
{
	uint64_t now_ns = hf_now_ns(), interval_ns;
	struct hf_error *err;

	if (now_ns < *next_ns)
		return true;
	err = hf_sequence_watch(&tracer->sequence, &interval_ns);
	*next_ns = interval_ns ? now_ns + interval_ns : UINT64_MAX;
	if (!err)
		return true;
	pthread_mutex_lock(&tracer->lock);
	tracer->given_up = err;
	pthread_mutex_unlock(&tracer->lock);
	return false;
}

/* How long to sleep. */
static uint64_t interval(bool soon, uint64_t next_ns)
{
	uint64_t now_ns = hf_now_ns();

	if (soon || next_ns <= now_ns)
		return SERVE_INTERVAL_NS;
	return next_ns == UINT64_MAX ? 0 : next_ns - now_ns;
}

/* Until the release: requests, with an eye on threads that stop late, on a
 * process that stands, and on memory. */
static void serve(struct hf_tracer *tracer)
{
	bool soon = hf_sequence_serve(&tracer->sequence);
	uint64_t next_ns = 0;
	bool go_on = watch(tracer, &next_ns);

	pthread_mutex_lock(&tracer->lock);
	while (tracer->phase == PHASE_FROZEN && go_on) {
		const struct hf_range *drop = tracer->drop;
		size_t num_drop = tracer->num_drop;

		if (!drop)
			wait_change(tracer, interval(soon, next_ns));
		pthread_mutex_unlock(&tracer->lock);
		if (drop)
			hf_sequence_drop(&tracer->sequence, drop, num_drop);
		if (soon)
			soon = hf_sequence_serve(&tracer->sequence);
		go_on = watch(tracer, &next_ns);
		pthread_mutex_lock(&tracer->lock);
		if (drop) {
			tracer->drop = NULL;
			pthread_cond_broadcast(&tracer->changed);
		}
	}
	tracer->drop = NULL; /* too late for it */
	pthread_cond_broadcast(&tracer->changed);
	pthread_mutex_unlock(&tracer->lock);
}

void hf_tracer_drop(struct hf_tracer *tracer, const struct hf_range *ranges,
		    size_t num_ranges)
{
	if (!num_ranges)
		return;
	pthread_mutex_lock(&tracer->lock);
	if (tracer->phase == PHASE_FROZEN && !tracer->given_up) {
		tracer->drop = ranges;
		tracer->num_drop = num_ranges;
		pthread_cond_broadcast(&tracer->changed);
		while (tracer->drop)
			pthread_cond_wait(&tracer->changed, &tracer->lock);
	}
	pthread_mutex_unlock(&tracer->lock);
}

struct hf_error *hf_tracer_check(struct hf_tracer *tracer)
{
	const struct hf_error *why;
	struct hf_error *err = NULL;

	pthread_mutex_lock(&tracer->lock);
	why = tracer->given_up;
	if (why) {
		err = hf_error_create(why->code, "%s", why->message);
		err = hf_error_cause(err, "%s", why->cause);
		err = hf_error_fix(err, "%s", why->fix);
	}
	pthread_mutex_unlock(&tracer->lock);
	return err;
}

static void *trace(void *arg)
{
	struct hf_tracer *tracer = arg;

	tracer->tid = (pid_t)syscall(SYS_gettid);
	tracer->err = hf_sequence_run(&tracer->sequence);
	if (tracer->err) {
		set_phase(tracer, PHASE_FAILED);
		return NULL;
	}
	set_phase(tracer, PHASE_FROZEN);
	serve(tracer);
	tracer->err = hf_sequence_release(&tracer->sequence);
	set_phase(tracer, PHASE_RELEASED);
	return NULL;
}

static struct hf_error *start(struct hf_tracer *tracer)
{
	sigset_t all, saved;
	int os_error;

	/* Signals are for the caller's threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	os_error = pthread_create(&tracer->thread, NULL, trace, tracer);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	if (os_error)
		return hf_error_os(os_error, "cannot start a thread");
	return NULL;
}

/* pthread_join returns a little before the kernel has detached what the
 * thread still traced; the next attempt would find it "already traced". */
static void join(struct hf_tracer *tracer)
{
	const struct timespec ms = { .tv_nsec = 1000 * 1000 };
	char path[64];

	if (tracer->joined)
		return;
	pthread_join(tracer->thread, NULL);
	tracer->joined = true;
	snprintf(path, sizeof(path), "/proc/self/task/%d", tracer->tid);
	for (int i = 0; i < EXIT_LIMIT_MS && access(path, F_OK) == 0; i++)
		nanosleep(&ms, NULL);
}

struct hf_error *hf_tracer_create(const struct hf_target *target,
				  const struct hf_capture_options *options,
				  const struct hf_capture_hooks *hooks,
				  uint64_t *stop_left_ns, bool *retry_ret,
				  struct hf_tracer **ret)
{
	struct hf_tracer *tracer = calloc(1, sizeof(*tracer));
	pthread_condattr_t attr;
	struct hf_error *err;

	*retry_ret = false;
	if (!tracer)
		return &hf_enomem;
	tracer->sequence.target = *target;
	tracer->sequence.mode = options->mode;
	tracer->sequence.keep_free_bytes = options->keep_free_bytes;
	tracer->sequence.stop_timeout_ms = options->stop_timeout_ms;
	tracer->sequence.stop_left_ns = *stop_left_ns;
	tracer->sequence.safe_point = options->safe_point;
	tracer->sequence.safe_point_tries = options->safe_point_tries;
	tracer->sequence.exact = options->exact;
	tracer->sequence.deadline_ns = options->deadline_ns;
	tracer->sequence.cancelled = options->cancelled;
	tracer->sequence.journal_dir = options->journal_dir;
	if (hooks)
		tracer->sequence.hooks = *hooks;
	pthread_mutex_init(&tracer->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&tracer->changed, &attr);
	pthread_condattr_destroy(&attr);

	err = start(tracer);
	if (err) {
		tracer->joined = true;
		tracer->phase = PHASE_FAILED;
		hf_tracer_destroy(tracer);
		return err;
	}
	wait_while(tracer, PHASE_RUNNING);
	*stop_left_ns = tracer->sequence.stop_left_ns;
	if (tracer->phase == PHASE_FAILED) {
		join(tracer);
		err = HF_TAKE(tracer->err);
		*retry_ret = tracer->sequence.retry;
		hf_tracer_destroy(tracer);
		return err;
	}
	tracer->result.threads = tracer->sequence.threads;
	tracer->result.num_threads = tracer->sequence.num_threads;
	tracer->result.child = tracer->sequence.child.pid;
	tracer->result.report = tracer->sequence.report;
	*ret = tracer;
	return NULL;
}

const struct hf_tracer_result *
hf_tracer_result(const struct hf_tracer *tracer)
{
	return &tracer->result;
}

struct hf_error *hf_tracer_release(struct hf_tracer *tracer)
{
	if (tracer->joined)
		return NULL;
	pthread_mutex_lock(&tracer->lock);
	if (tracer->phase == PHASE_FROZEN) {
		tracer->phase = PHASE_RELEASE;
		pthread_cond_broadcast(&tracer->changed);
	}
	pthread_mutex_unlock(&tracer->lock);
	wait_while(tracer, PHASE_RELEASE);
	join(tracer);
	tracer->result.report = tracer->sequence.report;
	if (!tracer->given_up)
		return HF_TAKE(tracer->err);
	/* The report says whether a zombie is left; this is worse. */
	hf_error_destroy(HF_TAKE(tracer->err));
	return HF_TAKE(tracer->given_up);
}

void hf_tracer_destroy(struct hf_tracer *tracer)
{
	if (!tracer)
		return;
	if (!tracer->joined) {
		/* The tracer's thread reads it after the next change. */
		pthread_mutex_lock(&tracer->lock);
		tracer->sequence.is_given_up = true;
		pthread_mutex_unlock(&tracer->lock);
		hf_error_ignore(hf_tracer_release(tracer));
	}
	hf_sequence_deinit(&tracer->sequence);
	hf_error_destroy(tracer->err);
	hf_error_destroy(tracer->given_up);
	pthread_cond_destroy(&tracer->changed);
	pthread_mutex_destroy(&tracer->lock);
	free(tracer);
}
