/* Capture: checks first, then as many attempts as allowed.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/capture.h"

#include <time.h>

#include "coredump/process_image.h"
#include "fork-agent/capture_steps.h"
#include "fork-agent/exit_hold.h"
#include "fork-agent/permission.h"
#include "fork-agent/proc_task.h"
#include "fork-agent/reap_left.h"
#include "fork-agent/stand.h"
#include "fork-agent/tracer.h"
#include "util/progress.h"

enum {
	DEFAULT_STOP_TIMEOUT_MS = 2000,
	DEFAULT_ATTEMPTS = 3,
	DEFAULT_SAFE_POINT_TRIES = 5,
	FIRST_BACK_OFF_MS = 5, /* doubled for each further attempt */
	MAX_BACK_OFF_MS = 500,
};

struct hf_frozen {
	struct hf_tracer *tracer;   /* NULL: it stands at its end */
	struct hf_exit_hold *hold;  /* then; borrowed */
	pid_t pid; /* of the target */
	struct hf_capture_report report;
	bool released;
};

/* Sleep a little. @return whether there is time for another attempt. */
static bool back_off(const struct hf_capture_options *options,
		     uint32_t num_attempts)
{
	uint64_t ms = FIRST_BACK_OFF_MS;

	for (uint32_t i = 1; i < num_attempts && ms < MAX_BACK_OFF_MS; i++)
		ms *= 2;
	if (ms > MAX_BACK_OFF_MS)
		ms = MAX_BACK_OFF_MS;
	if (options->deadline_ns &&
	    hf_now_ns() + ms * 1000000 >= options->deadline_ns)
		return false;

	const struct timespec time = { .tv_nsec = (long)ms * 1000000 };

	nanosleep(&time, NULL);
	return true;
}

static struct hf_error *attempts(const struct hf_capture_options *options,
				 const struct hf_capture_hooks *hooks,
				 const struct hf_target *target,
				 struct hf_tracer **ret,
				 uint32_t *num_attempts_ret)
{
	uint64_t stop_left_ns = (uint64_t)options->stop_timeout_ms * 1000000;

	for (uint32_t i = 1;; i++) {
		bool retry;
		struct hf_error *err = hf_tracer_create(
			target, options, hooks, &stop_left_ns, &retry, ret);

		if (!err) {
			*num_attempts_ret =
				i - 1 + hf_tracer_result(*ret)->report.num_attempts;
			return NULL;
		}
		if (!retry || i >= options->attempts ||
		    (options->cancelled && *options->cancelled) ||
		    !back_off(options, i))
			return err;
		hf_error_ignore(err);
	}
}

/* What earlier tools left to this process when they were killed. */
static void reap_left(const struct hf_capture_options *options)
{
	const struct hf_reap_left_options left = {
		.pid = options->pid,
		.limit = { options->deadline_ns, options->cancelled },
		.journal_dir = options->journal_dir,
	};
	struct hf_reap_left_result result;

	hf_error_ignore(hf_reap_left(&left, &result));
}

struct hf_error *
hf_capture_with_hooks(const struct hf_capture_options *options,
		      const struct hf_capture_hooks *hooks,
		      struct hf_frozen **ret)
{
	struct hf_capture_options full = *options;
	struct hf_target target;
	HF_AUTO_FREE struct hf_frozen *frozen = calloc(1, sizeof(*frozen));
	uint32_t num_attempts;
	struct hf_error *err;

	if (!frozen)
		return &hf_enomem;
	if (!full.stop_timeout_ms)
		full.stop_timeout_ms = DEFAULT_STOP_TIMEOUT_MS;
	if (!full.attempts)
		full.attempts = DEFAULT_ATTEMPTS;
	if (!full.safe_point_tries)
		full.safe_point_tries = DEFAULT_SAFE_POINT_TRIES;
	err = hf_preflight_check(full.pid, &target);
	if (!err && full.mode == HF_CAPTURE_FORK) {
		err = hf_permission_check_suspend(full.pid);
		if (err)
			err = hf_stand_advise(err);
	}
	if (err)
		return err;
	reap_left(&full);
	err = attempts(&full, hooks, &target, &frozen->tracer, &num_attempts);
	if (err)
		return err;
	frozen->pid = full.pid;
	frozen->report = hf_tracer_result(frozen->tracer)->report;
	frozen->report.num_attempts = num_attempts;
	*ret = HF_TAKE(frozen);
	return NULL;
}

struct hf_error *hf_capture(const struct hf_capture_options *options,
			    struct hf_frozen **ret)
{
	return hf_capture_with_hooks(options, NULL, ret);
}

struct hf_error *hf_capture_at_exit(struct hf_exit_hold *hold, pid_t pid,
				    struct hf_frozen **ret)
{
	struct hf_frozen *frozen = calloc(1, sizeof(*frozen));

	if (!frozen)
		return &hf_enomem;
	frozen->hold = hold;
	frozen->pid = pid;
	frozen->report = *hf_exit_hold_report(hold);
	*ret = frozen;
	return NULL;
}

struct hf_error *hf_frozen_open_image(const struct hf_frozen *frozen,
				      struct hf_image **ret)
{
	const struct hf_tracer_result *result;

	if (frozen->released)
		return hf_error_create(HF_ERROR_TARGET_GONE,
				       "the process was let go");
	if (frozen->hold) {
		size_t num;
		const struct hf_thread *threads =
			hf_exit_hold_threads(frozen->hold, &num);

		return hf_process_image_open_self(
			hf_exit_hold_tid(frozen->hold), threads, num, ret);
	}
	result = hf_tracer_result(frozen->tracer);
	if (frozen->report.mode == HF_CAPTURE_STOP)
		return hf_process_image_open_self(frozen->pid, result->threads,
						  result->num_threads, ret);
	return hf_process_image_open(result->child, result->threads,
				     result->num_threads, ret);
}

void hf_frozen_drop(struct hf_frozen *frozen, const struct hf_range *ranges,
		    size_t num_ranges)
{
	/* Without a fork it would be the process's own memory. */
	if (!frozen->released && frozen->report.mode == HF_CAPTURE_FORK)
		hf_tracer_drop(frozen->tracer, ranges, num_ranges);
}

struct hf_error *hf_frozen_check(const struct hf_frozen *frozen)
{
	pid_t child = hf_frozen_pid(frozen);
	bool is_dead;
	struct hf_error *err;

	if (frozen->released || frozen->hold)
		return NULL;
	is_dead = child && hf_proc_is_dead(child);
	/* Only then: who kills it tells before it is dead. */
	err = hf_tracer_check(frozen->tracer);
	if (err || !is_dead)
		return err;
	return hf_error_fix(hf_error_cause(
		hf_error_create(HF_ERROR_NO_SPACE, "the frozen copy of "
				"process %d was killed before it was read",
				frozen->pid),
		"by the kernel, for lack of memory (it is to be the first that "
		"goes), or by somebody"),
		"free memory, or take the snapshot without a fork: --mode "
		"stop");
}

pid_t hf_frozen_pid(const struct hf_frozen *frozen)
{
	return frozen->hold ? 0 : hf_tracer_result(frozen->tracer)->child;
}

struct hf_error *hf_frozen_release(struct hf_frozen *frozen)
{
	uint32_t num_attempts = frozen->report.num_attempts;
	struct hf_error *err;

	if (frozen->released)
		return NULL;
	frozen->released = true;
	if (frozen->hold) {
		err = hf_exit_hold_release(frozen->hold);
		frozen->report = *hf_exit_hold_report(frozen->hold);
		return err;
	}
	err = hf_tracer_release(frozen->tracer);
	frozen->report = hf_tracer_result(frozen->tracer)->report;
	frozen->report.num_attempts = num_attempts;
	return err;
}

const struct hf_capture_report *
hf_frozen_report(const struct hf_frozen *frozen)
{
	return &frozen->report;
}

void hf_frozen_destroy(struct hf_frozen *frozen)
{
	if (!frozen)
		return;
	hf_tracer_destroy(frozen->tracer);
	free(frozen);
}
