/* Sequence: the steps of one capture, in the order that makes it safe.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/sequence.h"

#include <inttypes.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "fork-agent/permission.h"
#include "fork-agent/proc_task.h"
#include "fork-agent/reap.h"
#include "fork-agent/remote_fork.h"
#include "fork-agent/sharers.h"
#include "fork-agent/standstill.h"
#include "util/progress.h"

/* Before the pause everything is found and allocated that the pause needs; in
 * the pause are only waits and ptrace calls; what can wait comes after it.
 *
 *	before   find a syscall instruction, what the safe point needs;
 *	         attach, make room
 *	pause    interrupt, wait for all, read registers, check the
 *	         instruction, fork, put the injector back and let it go,
 *	         let the others go
 *	after    make the child die with us, close its descriptors
 *
 * A stop at a bad moment for the heap's readers, or one that some threads do not
 * come to, is released and made again. In between all threads are detached: one that stays attached has to be served
 * for each signal, fork and job control stop as long as the back-off lasts, and
 * a signal that its program ignores would interrupt its calls. To attach anew
 * costs the target nothing.
 *
 * The injector is put back before any other goes: behind detached threads that
 * want the CPU it would wait for a turn of its own. */

enum {
	FIFO_PRIORITY = 10,
	MIN_PEAK_INTERVAL_NS = 20 * 1000 * 1000,
	LONG_WAIT_NS = 10 * 1000 * 1000, /* until the first thread stops */
	SERVE_INTERVAL_NS = 1000 * 1000, /* of threads that stop late */
	FIRST_BACK_OFF_NS = 2 * 1000 * 1000,      /* for a safe point */
	FIRST_LATE_BACK_OFF_NS = 10 * 1000 * 1000, /* when some did not stop */
	MAX_BACK_OFF_NS = 50 * 1000 * 1000,
	FIRST_STOP_LIMIT_NS = 100 * 1000 * 1000,
	MAX_STOP_LIMIT_NS = 800 * 1000 * 1000,
};

/* Detaching wakes a thread, which would take the CPU from a tracer of normal
 * priority, thread after thread. A tracer that sleeps in its waits may safely
 * be more important than they are, as long as the pause lasts. */
struct priority {
	int policy;
	struct sched_param param;
	bool raised;
};

static void raise_priority(struct priority *saved)
{
	const struct sched_param fifo = { .sched_priority = FIFO_PRIORITY };

	saved->policy = sched_getscheduler(0);
	saved->raised = saved->policy >= 0 &&
			sched_getparam(0, &saved->param) == 0 &&
			sched_setscheduler(0, SCHED_FIFO, &fifo) == 0;
}

static void restore_priority(struct priority *saved)
{
	if (saved->raised)
		sched_setscheduler(0, saved->policy, &saved->param);
	saved->raised = false;
}

static struct hf_error *at_step(struct hf_sequence *sequence,
				enum hf_capture_step step)
{
	struct hf_error *err = NULL;

	if (sequence->hooks.at_step)
		err = sequence->hooks.at_step(sequence->hooks.arg, step);
	if (!err && sequence->cancelled && *sequence->cancelled)
		err = hf_error_create(HF_ERROR_INTERRUPTED, "interrupted");
	return err;
}

static struct hf_error *again(struct hf_sequence *sequence,
			      struct hf_error *err)
{
	sequence->retry = true;
	return err;
}

static pid_t own_child(const struct hf_sequence *sequence)
{
	return sequence->target.is_own_child ? sequence->target.pid : 0;
}

static struct hf_error *attach(struct hf_sequence *sequence)
{
	pid_t pid = sequence->target.pid;
	struct hf_error *err;

	err = sequence->mode == HF_CAPTURE_FORK ?
		      hf_way_prepare(&sequence->way,
				     sequence->target.live_tid) : NULL;
	sequence->site = sequence->way.site.call.addr;
	if (err && err->code == HF_ERROR_NOT_FOUND) {
		/* Every program has one in its vdso, if it is there at all:
		 * an exec is just going on. */
		hf_error_ignore(err);
		return again(sequence, hf_error_create(
			HF_ERROR_TIMEOUT, "process %d is between two programs "
			"(exec)", pid));
	}
	if (err)
		return err;
	err = at_step(sequence, HF_STEP_SITE_FOUND);
	if (!err && sequence->safe_point)
		err = sequence->safe_point->prepare(sequence->safe_point->arg,
						    pid);
	if (err)
		return err;
	err = hf_attachment_seize(&sequence->attachment);
	if (err && err->code == HF_ERROR_PERMISSION)
		return hf_permission_explain(err, pid);
	if (!err)
		err = hf_preflight_recheck(&sequence->target);
	if (err)
		return err;
	hf_sharers_look(&sequence->attachment);
	free(sequence->threads);
	sequence->threads = calloc(sequence->attachment.capacity,
				   sizeof(*sequence->threads));
	if (!sequence->threads)
		return &hf_enomem;
	memset(sequence->threads, 0xff, sequence->attachment.capacity *
					sizeof(*sequence->threads));
	return at_step(sequence, HF_STEP_SEIZED);
}

/* How long others may stand before all are let go, if some do not stop. */
static uint64_t max_stop_ns(uint32_t num_late_stops)
{
	uint64_t limit = FIRST_STOP_LIMIT_NS;

	for (uint32_t i = 0; i < num_late_stops && limit < MAX_STOP_LIMIT_NS;
	     i++)
		limit *= 2;
	return limit;
}

/* Doubled each time, and never in step with the threads. */
static uint64_t back_off_time(uint64_t first_ns, uint32_t num_before)
{
	uint64_t back_off = first_ns;

	for (uint32_t i = 0; i < num_before && back_off < MAX_BACK_OFF_NS; i++)
		back_off *= 2;
	if (back_off > MAX_BACK_OFF_NS)
		back_off = MAX_BACK_OFF_NS;
	return back_off + hf_now_ns() / 64 % (back_off / 2);
}

static struct hf_error *stop(struct hf_sequence *sequence,
			     enum hf_standstill *ret)
{
	uint64_t start = hf_now_ns(), waited;
	struct hf_stop_limit limit = {
		.end_ns = start + sequence->stop_left_ns,
		.max_stop_ns = max_stop_ns(sequence->num_late_stops),
		.cancelled = sequence->cancelled,
	};
	struct hf_error *err;

	if (sequence->deadline_ns && limit.end_ns > sequence->deadline_ns)
		limit.end_ns = sequence->deadline_ns;
	hf_wait_clock_start(&sequence->clock); /* its first tick is in 5 ms */
	hf_attachment_interrupt(&sequence->attachment);
	err = at_step(sequence, HF_STEP_INTERRUPTED);
	if (err)
		return err;
	*ret = hf_attachment_wait(&sequence->attachment, &limit);
	if (!*ret)
		*ret = hf_attachment_empty_hands(&sequence->attachment,
						 &limit);
	if (!*ret)
		*ret = hf_sharers_stop(&sequence->attachment, &limit,
				       &sequence->report.num_vfork_stopped,
				       &sequence->report.num_vfork_children);
	waited = hf_now_ns() - start;
	sequence->stop_left_ns -= waited < sequence->stop_left_ns ?
					  waited : sequence->stop_left_ns;
	return *ret ? NULL : at_step(sequence, HF_STEP_STOPPED);
}

/* Not all threads have stopped, and all were let go: once more, or why not. */
static struct hf_error *consider(struct hf_sequence *sequence,
				 enum hf_standstill standstill,
				 bool *again_ret)
{
	struct hf_error *err;

	if (standstill == HF_STANDSTILL_TOO_LATE) {
		sequence->back_off_ns = back_off_time(FIRST_LATE_BACK_OFF_NS,
						      sequence->num_late_stops);
		sequence->num_late_stops++;
		*again_ret = sequence->stop_left_ns > 0 &&
			     (!sequence->deadline_ns ||
			      hf_now_ns() + sequence->back_off_ns <
				      sequence->deadline_ns);
		if (*again_ret)
			return NULL;
	}
	err = hf_attachment_explain(&sequence->attachment, standstill,
				    sequence->stop_timeout_ms);
	hf_attachment_abandon(&sequence->attachment);
	if (standstill == HF_STANDSTILL_EXECED ||
	    standstill == HF_STANDSTILL_CROWDED)
		sequence->retry = true;
	return err;
}

static struct hf_error *read_threads(struct hf_sequence *sequence)
{
	struct hf_attachment *attachment = &sequence->attachment;
	struct hf_capture_report *report = &sequence->report;
	pid_t pid = sequence->target.pid;
	size_t n = 0;

	report->num_partial = 0;
	report->num_restarted = 0;
	hf_attachment_read_registers(attachment);
	for (size_t i = 0; i < attachment->num; i++) {
		struct hf_tracee *tracee = &attachment->tracees[i];
		struct hf_thread *thread = &sequence->threads[n];

		if (tracee->kind != HF_TRACEE_THREAD ||
		    (tracee->state != HF_TRACEE_STOPPED &&
		     tracee->state != HF_TRACEE_PARTIAL))
			continue;
		hf_tracee_describe(tracee, pid, thread);
		if (tracee->tid == pid && n > 0) {
			struct hf_thread first = sequence->threads[0];

			sequence->threads[0] = *thread;
			*thread = first;
		}
		n++;
		report->num_partial += tracee->state == HF_TRACEE_PARTIAL;
		report->num_restarted += tracee->interrupted_call;
	}
	sequence->num_threads = n;
	report->num_threads = (uint32_t)n;
	return at_step(sequence, HF_STEP_REGISTERS);
}

static struct hf_error *not_exact(const struct hf_sequence *sequence)
{
	const struct hf_safe_point_state *state =
		&sequence->report.safe_point;
	uint32_t tries = sequence->report.safe_point_tries;
	const char *name = "";
	struct hf_error *err;

	for (size_t i = 0; i < sequence->num_threads; i++)
		if (sequence->threads[i].tid == state->tid_inside)
			name = sequence->threads[i].name;
	err = hf_error_create(HF_ERROR_TIMEOUT,
			      "process %d was at no safe point at %" PRIu32
			      " stop%s", sequence->target.pid, tries,
			      tries == 1 ? "" : "s");
	if (state->tid_inside)
		err = hf_error_cause(
			err, "at the last one %" PRIu32 " thread(s) were in "
			"the allocator's code, among them %d '%s', and %"
			PRIu32 " arena lock(s) were held", state->num_inside,
			state->tid_inside, name, state->num_locked);
	else
		err = hf_error_cause(
			err, "at the last one %" PRIu32 " thread(s) were in "
			"the allocator's code, and %" PRIu32 " arena lock(s) "
			"were held", state->num_inside, state->num_locked);
	return hf_error_fix(err, "try again, allow more stops "
			    "(--safe-point-tries), or do without --exact: the "
			    "snapshot then says what is in doubt");
}

/* A bad moment, and there may be a better one? */
static struct hf_error *look_for_safe_point(struct hf_sequence *sequence,
					    bool *again_ret)
{
	const struct hf_safe_point *safe_point = sequence->safe_point;
	struct hf_capture_report *report = &sequence->report;
	struct hf_safe_point_state state = { 0 };
	uint64_t back_off;
	bool is_last;

	*again_ret = false;
	if (!safe_point)
		return NULL;
	safe_point->look(safe_point->arg, sequence->target.pid,
			 sequence->threads, sequence->num_threads, &state);
	report->safe_point = state;
	report->safe_point_tries++;
	if (!hf_safe_point_is_unsafe(&state))
		return NULL;
	back_off = back_off_time(FIRST_BACK_OFF_NS,
				 report->safe_point_tries - 1);
	is_last = report->safe_point_tries >= sequence->safe_point_tries ||
		  (sequence->deadline_ns &&
		   hf_now_ns() + back_off >= sequence->deadline_ns);
	sequence->back_off_ns = back_off;
	*again_ret = !is_last;
	return is_last && sequence->exact ? not_exact(sequence) : NULL;
}

static uint64_t realtime_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct hf_error *fork_in(struct hf_sequence *sequence,
				struct hf_remote_call *call)
{
	struct hf_capture_report *report = &sequence->report;
	uint64_t start = hf_now_ns();
	struct hf_error *err;
	int64_t rax;

	err = at_step(sequence, HF_STEP_BORROWED);
	if (!err)
		err = hf_remote_fork(call, &sequence->child.pid);
	if (err)
		return err;
	sequence->fork_done_ns = hf_now_ns();
	report->taken_ns = realtime_ns();
	report->fork_ns = sequence->fork_done_ns - start;

	err = hf_remote_call_park(call, &rax);
	if (err)
		return err;
	sequence->child.pid_in_target = (pid_t)rax;
	err = at_step(sequence, HF_STEP_FORKED);
	if (err)
		return err;
	return at_step(sequence, HF_STEP_PARKED);
}

/* Where a fork is refused, there is another way. */
static struct hf_error *advise(struct hf_error *err)
{
	switch (err->code) {
	case HF_ERROR_OS:
	case HF_ERROR_PERMISSION:
	case HF_ERROR_UNSUPPORTED:
		return hf_stand_advise(err);
	default:
		return err;
	}
}

static struct hf_error *fork_stopped(struct hf_sequence *sequence)
{
	struct hf_attachment *attachment = &sequence->attachment;
	struct hf_remote_call call;
	struct hf_tracee *injector;
	struct hf_error *err;
	const char *why;

	injector = hf_remote_fork_choose(attachment, &sequence->way, &why);
	if (!injector)
		return again(sequence, hf_stand_advise(hf_error_cause(
			hf_error_create(HF_ERROR_TIMEOUT,
					"no thread of process %d can be made "
					"to fork", attachment->pid),
			"%s", why)));
	if (hf_tracee_is_compat(injector))
		return hf_error_create(HF_ERROR_UNSUPPORTED,
				       "process %d runs 32-bit code",
				       attachment->pid);
	if (!hf_way_check_site(&sequence->way, injector))
		return again(sequence, hf_error_create(
			HF_ERROR_TIMEOUT, "process %d runs another program "
			"now (exec)", attachment->pid));
	if (!hf_tracee_read_sigmask(injector))
		return hf_error_create(HF_ERROR_TARGET_GONE,
				       "thread %d ended while it was stopped",
				       injector->tid);
	sequence->injector_tid = injector->tid;
	err = hf_remote_call_begin(&call, injector, attachment->pid,
				   sequence->hooks.false_site,
				   HF_TRACEE_OPTIONS, &sequence->way,
				   attachment->clock);
	if (err)
		return advise(err);
	sequence->report.way_home = sequence->way.state;
	err = fork_in(sequence, &call);
	hf_remote_call_end(&call);
	hf_attachment_release_receivers(attachment, injector);
	hf_tracee_detach(injector);
	return err ? advise(err) : NULL;
}

/* They stay as they are. */
static struct hf_error *stand(struct hf_sequence *sequence, uint64_t start_ns)
{
	struct hf_capture_report *report = &sequence->report;

	report->taken_ns = realtime_ns();
	report->fork_ns = UINT64_MAX;
	hf_stand_begin(&sequence->stand, start_ns);
	return NULL;
}

/* Minor faults of all its threads so far. UINT64_MAX: not known. */
static uint64_t faults_of(const struct hf_target *target)
{
	struct hf_proc_stat stat;
	struct hf_error *err = hf_proc_stat_read(target->pid, 0, &stat);

	if (!err && stat.state != 'Z' &&
	    stat.start_time == target->start_time)
		return stat.minor_faults;
	hf_error_ignore(err);
	return UINT64_MAX;
}

/* @param again_ret set if the threads were let go because some did not stop, or
 * the moment was a bad one, and should be stopped again. */
static struct hf_error *pause_and_fork(struct hf_sequence *sequence,
				       bool *again_ret)
{
	struct hf_capture_report *report = &sequence->report;
	enum hf_standstill standstill = HF_STANDSTILL_REACHED;
	struct priority priority;
	uint64_t start, stopped, read, resume, num_calls;
	struct hf_error *err;

	*again_ret = false;
	/* Not after the pause: the copies that the fork brings begin with the
	 * first thread that goes on, long before we are at it again. */
	sequence->faults_before = faults_of(&sequence->target);
	hf_journal_note_forking(&sequence->journal,
				sequence->stop_left_ns / 1000000);
	report->journaled = sequence->journal.is_open;
	raise_priority(&priority);
	report->fifo = priority.raised;
	num_calls = sequence->calls.num;
	start = hf_now_ns();
	err = stop(sequence, &standstill);
	stopped = hf_now_ns();
	/* A process that slept beyond reach has not been paused by us. */
	if (sequence->attachment.first_stop_ns > start + LONG_WAIT_NS)
		start = sequence->attachment.first_stop_ns;
	if (!err && !standstill)
		err = read_threads(sequence);
	read = hf_now_ns();
	if (!err && !standstill)
		err = look_for_safe_point(sequence, again_ret);
	if (!err && !standstill && !*again_ret)
		err = sequence->mode == HF_CAPTURE_STOP ?
			      stand(sequence, start) : fork_stopped(sequence);
	resume = hf_now_ns();
	if (err)
		hf_attachment_abandon(&sequence->attachment);
	else if (!sequence->stand.active)
		hf_attachment_release(&sequence->attachment);
	report->pause_ns = hf_now_ns() - start;
	report->pause_calls = sequence->calls.num - num_calls;
	report->max_thread_calls =
		hf_attachment_max_calls(&sequence->attachment,
					sequence->injector_tid);
	report->stop_ns = stopped - start;
	report->regs_ns = read - stopped;
	report->resume_ns = report->pause_ns - (resume - start);
	if (sequence->fork_done_ns)
		report->resume_ns =
			start + report->pause_ns - sequence->fork_done_ns;
	restore_priority(&priority);
	if (!err && standstill)
		err = consider(sequence, standstill, again_ret);
	if (*again_ret && report->missed_pause_ns < report->pause_ns)
		report->missed_pause_ns = report->pause_ns;
	if (!err && !sequence->stand.active)
		err = at_step(sequence, HF_STEP_RESUMED);
	return err;
}

/* The target runs. Threads that could not be stopped are let go as soon as
 * they are. */
static struct hf_error *back_off(struct hf_sequence *sequence)
{
	const struct timespec interval = { .tv_nsec = SERVE_INTERVAL_NS };
	uint64_t end = hf_now_ns() + sequence->back_off_ns;

	while (hf_now_ns() < end) {
		if (sequence->cancelled && *sequence->cancelled)
			return hf_error_create(HF_ERROR_INTERRUPTED,
					       "interrupted");
		nanosleep(&interval, NULL);
		hf_attachment_serve(&sequence->attachment);
	}
	hf_attachment_restart(&sequence->attachment);
	return NULL;
}

static struct hf_error *capture(struct hf_sequence *sequence)
{
	bool once_more = false;
	struct hf_error *err;

	do {
		err = once_more ? back_off(sequence) : NULL;
		if (!err)
			err = attach(sequence);
		if (!err)
			err = pause_and_fork(sequence, &once_more);
	} while (!err && once_more);
	sequence->report.num_attempts = 1 + sequence->num_late_stops;
	return err;
}

/* After a failure: is the target still what it was? A dead one is gone, and
 * not merely slow; one that lives has only had an unlucky moment. */
static struct hf_error *review(struct hf_sequence *sequence,
			       struct hf_error *err)
{
	struct hf_error *gone = hf_preflight_recheck(&sequence->target);
	struct hf_proc_stat stat;

	if (!gone)
		gone = hf_proc_stat_read(sequence->target.pid, 0, &stat);
	if (!gone && stat.state == 'Z' && stat.num_threads <= 1)
		gone = hf_error_create(HF_ERROR_TARGET_GONE,
				       "process %d ended during the capture",
				       sequence->target.pid);
	if (!gone) {
		if (err->code == HF_ERROR_TARGET_GONE)
			sequence->retry = true;
		return err;
	}
	if (err->code == HF_ERROR_INTERRUPTED) {
		hf_error_ignore(gone);
		return err;
	}
	hf_error_destroy(err);
	sequence->retry = false;
	return gone;
}

/* The child: made ours, and prepared for being read. */
static struct hf_error *take_child(struct hf_sequence *sequence)
{
	struct hf_child *child = &sequence->child;
	struct hf_error *err = at_step(sequence, HF_STEP_ADOPTED);

	if (err)
		return err;
	hf_child_prepare(child, sequence->site, sequence->hooks.no_close_range,
			 &sequence->clock);
	sequence->report.descriptors_closed = child->descriptors_closed;
	return at_step(sequence, HF_STEP_PREPARED);
}

/* Without a record a zombie may stay, if we are killed; that is all. */
static void open_journal(struct hf_sequence *sequence)
{
	struct hf_error *err;

	if (sequence->mode != HF_CAPTURE_FORK)
		return;
	err = hf_journal_open(&sequence->journal, sequence->journal_dir,
			      sequence->target.pid,
			      sequence->target.start_time);
	sequence->report.journaled = !err;
	hf_error_ignore(err);
}

static struct hf_error *open_watch(struct hf_sequence *sequence)
{
	struct hf_error *err;

	if (sequence->mode != HF_CAPTURE_FORK)
		return NULL;
	err = hf_watch_create(sequence->target.pid, sequence->keep_free_bytes,
			      sequence->hooks.proc, &sequence->watch);
	return err ? err : hf_watch_check(sequence->watch);
}

struct hf_error *hf_sequence_run(struct hf_sequence *sequence)
{
	struct hf_child *child = &sequence->child;
	struct hf_error *err;

	sequence->calls.before = sequence->hooks.before_call;
	sequence->calls.arg = sequence->hooks.arg;
	err = at_step(sequence, HF_STEP_CHECKED);
	if (err)
		return err;
	err = hf_wait_clock_init(&sequence->clock, own_child(sequence),
				 &sequence->calls);
	if (err)
		return err;
	hf_attachment_init(&sequence->attachment, sequence->target.pid,
			   &sequence->clock);
	hf_wait_clock_start(&sequence->clock);
	sequence->stand.deadline_ns = sequence->deadline_ns;
	sequence->stand.cancelled = sequence->cancelled;
	sequence->report.mode = sequence->mode;
	sequence->report.start_time = sequence->target.start_time;
	sequence->report.parent_faults = UINT64_MAX;
	sequence->report.peak_private_bytes = UINT64_MAX;

	err = open_watch(sequence);
	if (!err) {
		open_journal(sequence);
		err = capture(sequence);
	}
	if (sequence->watch)
		hf_watch_begin(sequence->watch);
	if (child->pid) {
		struct hf_error *adopt_err =
			hf_child_adopt(child, &sequence->way,
				       &sequence->clock);

		if (err)
			hf_error_ignore(adopt_err);
		else
			err = adopt_err;
		hf_journal_note_child(&sequence->journal, child->pid,
				      child->pid_in_target);
	}
	if (!err && sequence->mode == HF_CAPTURE_FORK)
		err = take_child(sequence);
	hf_wait_clock_stop(&sequence->clock);
	hf_wait_clock_deinit(&sequence->clock);
	if (err) {
		err = review(sequence, err);
		sequence->is_given_up = true;
		if (child->pid)
			hf_error_ignore(hf_sequence_release(sequence));
		else
			hf_journal_remove(&sequence->journal);
	}
	return err;
}

bool hf_sequence_serve(struct hf_sequence *sequence)
{
	if (sequence->mode == HF_CAPTURE_STOP)
		return hf_stand_serve(&sequence->stand, &sequence->attachment,
				      &sequence->report);
	return hf_attachment_serve(&sequence->attachment) > 0;
}

/* Nothing was made, so nothing has to be reaped. */
static struct hf_error *end_stand(struct hf_sequence *sequence)
{
	struct hf_capture_report *report = &sequence->report;
	struct priority priority;
	struct hf_error *err;

	raise_priority(&priority);
	err = hf_stand_end(&sequence->stand, &sequence->attachment, report);
	restore_priority(&priority);
	report->reap_ns = report->child_life_ns = UINT64_MAX;
	report->cow_pages = UINT64_MAX;
	report->descriptors_closed = report->reaped = true;
	if (!err && sequence->hooks.at_step)
		err = sequence->hooks.at_step(sequence->hooks.arg,
					      HF_STEP_RESUMED);
	return err;
}

/* The most that it has cost so far. The measure is exact, and its price is a
 * walk of the child's page tables: at most 5 % of the time goes there. */
static void measure_peak(struct hf_sequence *sequence)
{
	struct hf_capture_report *report = &sequence->report;
	uint64_t start_ns = hf_now_ns(), took_ns;
	struct hf_child_memory memory;
	uint64_t bytes;

	hf_child_measure(&sequence->child, sequence->target.pid, &memory);
	bytes = memory.private_bytes;
	report->cow_pages = memory.cow_pages;
	if (bytes != UINT64_MAX && (report->peak_private_bytes == UINT64_MAX ||
				    bytes > report->peak_private_bytes))
		report->peak_private_bytes = bytes;
	took_ns = hf_now_ns() - start_ns;
	sequence->next_peak_ns = start_ns + 20 * took_ns;
	if (20 * took_ns < MIN_PEAK_INTERVAL_NS)
		sequence->next_peak_ns = start_ns + MIN_PEAK_INTERVAL_NS;
}

void hf_sequence_drop(struct hf_sequence *sequence,
		      const struct hf_range *ranges, size_t num_ranges)
{
	struct hf_error *err;

	if (sequence->mode == HF_CAPTURE_STOP)
		return; /* what was read is the target's own */
	/* Before it gets smaller. */
	if (hf_now_ns() >= sequence->next_peak_ns)
		measure_peak(sequence);
	err = hf_wait_clock_init(&sequence->clock, own_child(sequence),
				 &sequence->calls);
	if (err) {
		hf_error_ignore(err);
		return;
	}
	hf_wait_clock_start(&sequence->clock);
	sequence->report.dropped_bytes +=
		hf_child_drop(&sequence->child, sequence->site, ranges,
			      num_ranges, &sequence->clock);
	hf_wait_clock_deinit(&sequence->clock);
}

struct hf_error *hf_sequence_watch(struct hf_sequence *sequence,
				   uint64_t *next_ns_ret)
{
	uint64_t faults, copied = 0;
	struct hf_error *err;

	*next_ns_ret = 0;
	if (!sequence->watch || sequence->child.dead)
		return NULL;
	faults = faults_of(&sequence->target);
	if (faults != UINT64_MAX && sequence->faults_before != UINT64_MAX)
		copied = (faults - sequence->faults_before) *
			 (uint64_t)sysconf(_SC_PAGESIZE);
	err = hf_watch_look(sequence->watch, copied, next_ns_ret);
	if (err) {
		sequence->is_given_up = true;
		kill(sequence->child.pid, SIGKILL);
	} else if (hf_now_ns() >= sequence->next_peak_ns) {
		measure_peak(sequence);
	}
	return err;
}

static void count_faults(struct hf_sequence *sequence)
{
	uint64_t now = faults_of(&sequence->target);

	if (sequence->faults_before != UINT64_MAX && now != UINT64_MAX)
		sequence->report.parent_faults = now - sequence->faults_before;
}

struct hf_error *hf_sequence_release(struct hf_sequence *sequence)
{
	const struct hf_reap_limit no_limit = { 0 };
	struct hf_capture_report *report = &sequence->report;
	struct hf_error *err;

	if (sequence->mode == HF_CAPTURE_STOP)
		return end_stand(sequence);
	report->cow_pages = UINT64_MAX;
	/* Nobody waits for the figures of one that is given up. */
	if (!sequence->is_given_up &&
	    !(sequence->cancelled && *sequence->cancelled))
		measure_peak(sequence);
	count_faults(sequence);
	err = hf_wait_clock_init(&sequence->clock, own_child(sequence),
				 &sequence->calls);
	if (err)
		return err;
	hf_wait_clock_start(&sequence->clock);
	err = hf_child_kill(&sequence->child, sequence->site,
			    &sequence->clock);
	report->child_life_ns = hf_now_ns() - sequence->fork_done_ns;
	if (!err)
		err = hf_reap_child(sequence->target.pid, &sequence->child,
				    &sequence->way, &sequence->clock,
				    &no_limit, &report->reap_ns);
	if (report->way_home == HF_WAY_HOME_FULL)
		report->way_home = sequence->way.state;
	report->reaped = !err;
	if (!err)
		hf_journal_remove(&sequence->journal);
	hf_wait_clock_deinit(&sequence->clock);
	return err;
}

void hf_sequence_deinit(struct hf_sequence *sequence)
{
	hf_watch_destroy(HF_TAKE(sequence->watch));
	hf_attachment_deinit(&sequence->attachment);
	hf_way_deinit(&sequence->way);
	hf_journal_deinit(&sequence->journal);
	free(sequence->threads);
	sequence->threads = NULL;
}
