/* Stand: a stopped process that is read itself, instead of a fork of it.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/stand.h"

#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

#include "util/progress.h"

enum {
	/* For threads that were given up and are just about to stop: behind
	 * our back the kernel would let them go with EINTR. */
	LATE_MS = 200,
};

void hf_stand_begin(struct hf_stand *stand, uint64_t start_ns)
{
	stand->active = true;
	stand->start_ns = start_ns;
}

static void let_go(struct hf_stand *stand, struct hf_attachment *attachment,
		   struct hf_capture_report *report)
{
	uint64_t start = hf_now_ns();

	if (!stand->active)
		return;
	stand->active = false;
	hf_attachment_release(attachment);
	report->pause_ns = hf_now_ns() - stand->start_ns;
	report->resume_ns = hf_now_ns() - start;
}

/* The leader's end is reported when all other threads have ended. */
static bool has_ended(const struct hf_attachment *attachment)
{
	for (size_t i = 0; i < attachment->num; i++)
		if (attachment->tracees[i].kind == HF_TRACEE_THREAD &&
		    attachment->tracees[i].state != HF_TRACEE_GONE)
			return false;
	return true;
}

/* What has happened to one of them? @return does it still stand? */
static bool look_at(struct hf_attachment *attachment,
		    struct hf_tracee *tracee)
{
	bool stood = tracee->state == HF_TRACEE_STOPPED;
	int status;
	pid_t tid = hf_wait_clock_poll(attachment->clock, tracee->tid,
				       &status);

	if (tid < 0)
		hf_attachment_set_state(attachment, tracee, HF_TRACEE_GONE);
	else if (tid > 0 && !(stood && WIFSTOPPED(status)))
		hf_attachment_note(attachment, tid, status);
	return stood && tid > 0 && WIFSTOPPED(status);
}

/* Nothing but SIGKILL makes a thread leave its stop, and that is for all threads
 * of its process: as long as one stands, they all do. */
static void look_at_all(struct hf_attachment *attachment)
{
	bool they_stand = false;

	for (size_t i = 0; i < attachment->num; i++) {
		struct hf_tracee *tracee = &attachment->tracees[i];
		bool is_thread = tracee->kind == HF_TRACEE_THREAD;

		switch (tracee->state) {
		case HF_TRACEE_STOPPED:
			if (!is_thread || !they_stand)
				they_stand |= look_at(attachment, tracee) &&
					      is_thread;
			break;
		case HF_TRACEE_RUNNING:
		case HF_TRACEE_PARTIAL:
			look_at(attachment, tracee);
			break;
		default:
			break;
		}
	}
}

bool hf_stand_serve(struct hf_stand *stand, struct hf_attachment *attachment,
		    struct hf_capture_report *report)
{
	if (!stand->active)
		return hf_attachment_serve(attachment) > 0;
	look_at_all(attachment);
	if (has_ended(attachment))
		stand->lapse = HF_ERROR_TARGET_GONE;
	else if (stand->cancelled && *stand->cancelled)
		stand->lapse = HF_ERROR_INTERRUPTED;
	else if (stand->deadline_ns && hf_now_ns() >= stand->deadline_ns)
		stand->lapse = HF_ERROR_TIMEOUT;
	if (stand->lapse)
		let_go(stand, attachment, report);
	return true;
}

static struct hf_error *lapse_error(const struct hf_stand *stand, pid_t pid)
{
	struct hf_error *err;

	switch (stand->lapse) {
	case HF_ERROR_TARGET_GONE:
		return hf_error_create(HF_ERROR_TARGET_GONE,
				       "process %d ended while it stood still "
				       "to be read", pid);
	case HF_ERROR_INTERRUPTED:
		return hf_error_create(HF_ERROR_INTERRUPTED, "interrupted");
	case HF_ERROR_TIMEOUT:
		err = hf_error_create(HF_ERROR_TIMEOUT,
				      "process %d could not be read in the "
				      "time allowed, and was let go", pid);
		return hf_error_fix(err, "allow more time; or --mode fork, "
				    "which reads while the process runs");
	default:
		return NULL;
	}
}

struct hf_error *hf_stand_end(struct hf_stand *stand,
			      struct hf_attachment *attachment,
			      struct hf_capture_report *report)
{
	const struct timespec ms = { .tv_nsec = 1000 * 1000 };

	/* Whatever happened since the last look. */
	if (stand->active)
		hf_stand_serve(stand, attachment, report);
	let_go(stand, attachment, report);
	for (int i = 0; i < LATE_MS && hf_attachment_serve(attachment); i++)
		nanosleep(&ms, NULL);
	return lapse_error(stand, attachment->pid);
}

struct hf_error *hf_stand_advise(struct hf_error *err)
{
	static const char advice[] =
		"take the snapshot without a fork: --mode stop (the process "
		"then stands still until its memory was read, for seconds if "
		"it is large)";
	char first[512];

	if (err->is_static)
		return err;
	if (!err->fix)
		return hf_error_fix(err, "%s", advice);
	snprintf(first, sizeof(first), "%s", err->fix);
	return hf_error_fix(err, "%s; or %s", first, advice);
}
