/* Standstill: wait until every thread of the target has stopped.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/standstill.h"

#include <sched.h>
#include <sys/stat.h>

#include "fork-agent/proc_task.h"
#include "util/progress.h"

/* Each thread is waited for by its own id: a wait for any of them makes the
 * kernel look through all, for each one that comes. As long as all is well, that
 * is one call a thread, which sleeps until this thread has stopped; the others
 * stop meanwhile.
 *
 * A thread that lets a tick of the clock pass is looked at. Some never stop: one
 * that waits in vfork stops when its child has called exec, one that sleeps on
 * a dead disk perhaps never, and the end of a leader is not told before that of
 * its threads. From then on no other thread is waited for blindly either, so
 * that many such threads cost no tick each. */

enum {
	VFORK_GRACE_MS = 5,       /* until a vfork wait is given up */
	SLEEP_GRACE_MS = 50,      /* until other uninterruptible sleep is */
	MISSED_ROUNDS_MAX = 16,   /* looks for threads that were missed */
};

struct vigil {
	struct hf_attachment *attachment;
	const struct hf_stop_limit *limit;
	bool any_stuck;           /* a thread is beyond the reach of signals */
	bool slept;               /* this round had a blocking wait */
};

static uint64_t suffered_ns(const struct hf_attachment *attachment,
			    uint64_t now)
{
	return attachment->first_stop_ns ? now - attachment->first_stop_ns : 0;
}

static enum hf_standstill check_limit(const struct vigil *vigil)
{
	const struct hf_stop_limit *limit = vigil->limit;
	uint64_t now = hf_now_ns();

	if (vigil->attachment->execed)
		return HF_STANDSTILL_EXECED;
	if (vigil->attachment->overflow)
		return HF_STANDSTILL_CROWDED;
	if (limit->cancelled && *limit->cancelled)
		return HF_STANDSTILL_CANCELLED;
	if (now >= limit->end_ns ||
	    suffered_ns(vigil->attachment, now) >= limit->max_stop_ns)
		return HF_STANDSTILL_TOO_LATE;
	return HF_STANDSTILL_REACHED;
}

/* A thread has not stopped for a while: why? As long as no other has stopped,
 * nobody suffers from waiting for it.
 *
 * @return whether it is one that may never stop. */
static bool is_stuck(struct vigil *vigil, struct hf_tracee *tracee)
{
	struct hf_attachment *attachment = vigil->attachment;
	struct hf_proc_stat stat;
	struct hf_error *err = hf_proc_stat_read(tracee->tid, 0, &stat);
	uint64_t suffered_ms =
		suffered_ns(attachment, hf_now_ns()) / 1000000;

	if (err) {
		hf_error_ignore(err);
		return false;
	}
	switch (stat.state) {
	case 'Z':
	case 'X':
		/* A leader that has left its threads alone. */
		hf_attachment_set_state(attachment, tracee, HF_TRACEE_GONE);
		return false;
	case 'D':
		vigil->any_stuck = true;
		if (!attachment->num_stopped || suffered_ms < VFORK_GRACE_MS)
			return true;
		tracee->in_vfork = hf_proc_waits_in_vfork(tracee->tid);
		if (tracee->in_vfork || suffered_ms >= SLEEP_GRACE_MS)
			hf_attachment_set_state(attachment, tracee,
						HF_TRACEE_PARTIAL);
		return true;
	default:
		return false;
	}
}

/* One wait, which sleeps until the next tick at most. @return false if nothing
 * has happened. */
static bool wait_once(struct vigil *vigil, struct hf_tracee *tracee,
		      bool may_sleep)
{
	struct hf_attachment *attachment = vigil->attachment;
	int status;
	pid_t tid;

	if (may_sleep)
		tid = hf_wait_clock_wait(attachment->clock, tracee->tid,
					 &status);
	else
		tid = hf_wait_clock_poll(attachment->clock, tracee->tid,
					 &status);
	vigil->slept |= may_sleep;
	if (tid > 0)
		hf_attachment_note(attachment, tid, status);
	else if (tid < 0)
		hf_attachment_set_state(attachment, tracee, HF_TRACEE_GONE);
	return tid != 0;
}

/* Until it has stopped, or may never stop. */
static enum hf_standstill wait_for(struct vigil *vigil,
				   struct hf_tracee *tracee)
{
	enum hf_standstill result = HF_STANDSTILL_REACHED;

	if (vigil->any_stuck && !wait_once(vigil, tracee, false) &&
	    is_stuck(vigil, tracee))
		return check_limit(vigil);
	while (!result && tracee->state == HF_TRACEE_RUNNING) {
		bool is_news = wait_once(vigil, tracee, true);

		result = check_limit(vigil);
		if (!is_news && is_stuck(vigil, tracee))
			break;
	}
	return result;
}

static enum hf_standstill wait_for_all(struct vigil *vigil)
{
	struct hf_attachment *attachment = vigil->attachment;
	enum hf_standstill result = HF_STANDSTILL_REACHED;

	while (!result && attachment->num_running > 0) {
		struct hf_tracee *stuck = NULL;

		vigil->slept = false;
		/* Newborns are appended meanwhile. */
		for (size_t i = 0; i < attachment->num && !result; i++) {
			struct hf_tracee *tracee = &attachment->tracees[i];

			if (tracee->state != HF_TRACEE_RUNNING)
				continue;
			result = wait_for(vigil, tracee);
			if (tracee->state == HF_TRACEE_RUNNING)
				stuck = tracee;
		}
		/* Never spin: those who are to stop need the CPU. */
		if (!result && stuck && !vigil->slept) {
			wait_once(vigil, stuck, true);
			result = check_limit(vigil);
		}
	}
	return result;
}

/* Is there a thread that we do not know? A clone that had begun when its thread
 * was attached is not reported, and may have come to light after the last look
 * at the list. The number of links of the list is that of the threads, and 2:
 * one call tells that all is well. */
static bool is_complete(const struct hf_attachment *attachment)
{
	struct stat stat;
	size_t num_known = 0;

	if (attachment->task_fd < 0 || fstat(attachment->task_fd, &stat) < 0)
		return false;
	for (size_t i = 0; i < attachment->num; i++)
		num_known += attachment->tracees[i].kind == HF_TRACEE_THREAD &&
			     (attachment->tracees[i].state ==
				      HF_TRACEE_STOPPED ||
			      attachment->tracees[i].state ==
				      HF_TRACEE_PARTIAL);
	return stat.st_nlink == num_known + 2;
}

enum hf_standstill hf_attachment_wait(struct hf_attachment *attachment,
				      const struct hf_stop_limit *limit)
{
	struct vigil vigil = { .attachment = attachment, .limit = limit };
	enum hf_standstill result = wait_for_all(&vigil);

	for (int i = 0; !result && !is_complete(attachment) &&
			i < MISSED_ROUNDS_MAX; i++) {
		if (hf_attachment_seize_missed(attachment) == 0)
			break;
		result = wait_for_all(&vigil);
	}
	if (!result && attachment->num_stopped == 0)
		result = HF_STANDSTILL_GONE;
	return result;
}

enum hf_standstill
hf_attachment_wait_for_sharers(struct hf_attachment *attachment,
			       const struct hf_stop_limit *limit)
{
	struct vigil vigil = { .attachment = attachment, .limit = limit };
	enum hf_standstill result = wait_for_all(&vigil);

	/* As for the target's own threads: there are other tries. */
	if (result != HF_STANDSTILL_TOO_LATE || hf_now_ns() < limit->end_ns)
		return result;
	for (size_t i = 0; i < attachment->num; i++) {
		struct hf_tracee *tracee = &attachment->tracees[i];

		if (tracee->state == HF_TRACEE_RUNNING &&
		    tracee->kind == HF_TRACEE_SHARER)
			hf_attachment_set_state(attachment, tracee,
						HF_TRACEE_PARTIAL);
	}
	return attachment->num_running ? result : HF_STANDSTILL_REACHED;
}

static struct hf_error *explain_vfork(struct hf_error *err,
				      const struct hf_tracee *tracee)
{
	err = hf_error_cause(err, "thread %d '%s' waits in vfork for its "
			     "child to call exec or to end, and cannot be "
			     "stopped before", tracee->tid, tracee->name);
	return hf_error_fix(err, "try again when the child is there no more "
			    "('pstree -p' or 'ps --ppid PID' show it)");
}

static struct hf_error *explain_late(const struct hf_attachment *attachment,
				     uint32_t timeout_ms)
{
	struct hf_error *err = hf_error_create(
		HF_ERROR_TIMEOUT, "process %d did not stop within %g s",
		attachment->pid, timeout_ms / 1e3);

	for (size_t i = 0; i < attachment->num; i++) {
		const struct hf_tracee *tracee = &attachment->tracees[i];
		struct hf_proc_stat stat;
		struct hf_error *stat_err;

		if (tracee->state != HF_TRACEE_RUNNING)
			continue;
		if (hf_proc_waits_in_vfork(tracee->tid))
			return explain_vfork(err, tracee);
		stat_err = hf_proc_stat_read(tracee->tid, 0, &stat);
		err = hf_error_cause(err, "%zu thread(s) still run, among "
				     "them %d '%s' (state %c)",
				     attachment->num_running, tracee->tid,
				     tracee->name,
				     stat_err ? '?' : stat.state);
		hf_error_ignore(stat_err);
		break;
	}
	return hf_error_fix(err, "try again when the machine is less busy, or "
			    "allow more time (--stop-timeout)");
}

struct hf_error *
hf_attachment_explain(const struct hf_attachment *attachment,
		      enum hf_standstill standstill, uint32_t timeout_ms)
{
	pid_t pid = attachment->pid;

	switch (standstill) {
	case HF_STANDSTILL_REACHED:
		return NULL;
	case HF_STANDSTILL_EXECED:
		return hf_error_create(HF_ERROR_TIMEOUT,
				       "process %d runs another program now "
				       "(exec)", pid);
	case HF_STANDSTILL_CROWDED:
		return hf_error_create(HF_ERROR_TIMEOUT,
				       "process %d creates threads too fast",
				       pid);
	case HF_STANDSTILL_CANCELLED:
		return hf_error_create(HF_ERROR_INTERRUPTED, "interrupted");
	case HF_STANDSTILL_GONE:
		return hf_error_create(HF_ERROR_TARGET_GONE,
				       "process %d ended while it was being "
				       "stopped", pid);
	case HF_STANDSTILL_TOO_LATE:
	default:
		return explain_late(attachment, timeout_ms);
	}
}
