/* Have the target reap the dead child, so that no zombie stays.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/reap.h"

#include <sys/syscall.h>
#include <sys/wait.h>

#include "fork-agent/proc_task.h"
#include "fork-agent/signal_frame.h"
#include "util/array.h"
#include "util/progress.h"

enum {
	/* A thread that does not stop by then is not the one to take. */
	STOP_LIMIT_MS = 100,
	/* But one in uninterruptible sleep stops when it wakes up. */
	SLEEPER_LIMIT_MS = 3000,
	/* Rounds over all threads go on for so long: one that calls exec or
	 * vfork again and again is seldom met in between. */
	ROUNDS_MS = 3000,
	ROUND_PAUSE_US = 3 * 1000,
	PASSED_MAX = 16,   /* stops of other kinds, one after the other */
	PICKY_MAX = 3,     /* threads that are let go again because there is
			    * no room for a way home on their stack */
};

/* Best first. See remote_attach.c for why the threads that signals come
 * through are left in peace if there is another. */
enum rank {
	RANK_ASLEEP,       /* blocked in a call, receives no signals */
	RANK_RECEIVER,     /* blocked in a call */
	RANK_AWAKE,        /* running, or stopped by job control */
	RANK_BEYOND_REACH, /* uninterruptible */
};

struct candidate {
	pid_t tid;
	enum rank rank;
};

struct reaper {
	pid_t target;
	const struct hf_child *child;
	struct hf_way *way;
	struct hf_wait_clock *clock;
	uint8_t *xstate;          /* of the thread that is borrowed */
	size_t xstate_room;
	const struct hf_reap_limit *limit;
	uint64_t pause_ns;
	size_t num_picky;         /* such threads, still */
	HF_ARRAY(struct candidate) candidates;
	/* Threads that did not stop in time. They are ours, and will stop: then
	 * they must be let go, if there is nothing else to do with them. */
	HF_ARRAY(pid_t) late;
};

bool hf_reap_limit_is_over(const struct hf_reap_limit *limit)
{
	return (limit->deadline_ns && hf_now_ns() >= limit->deadline_ns) ||
	       (limit->cancelled && *limit->cancelled);
}

static bool is_late(const struct reaper *reaper, pid_t tid)
{
	for (size_t i = 0; i < reaper->late.num; i++)
		if (reaper->late.data[i] == tid)
			return true;
	return false;
}

static void no_longer_late(struct reaper *reaper, pid_t tid)
{
	size_t num = 0;

	for (size_t i = 0; i < reaper->late.num; i++)
		if (reaper->late.data[i] != tid)
			reaper->late.data[num++] = reaper->late.data[i];
	reaper->late.num = num;
}

/* A zombie of the target, and nobody else's. */
static bool is_zombie(pid_t target, const struct hf_child *child)
{
	struct hf_proc_stat stat;
	struct hf_error *err = hf_proc_stat_read(child->pid, 0, &stat);

	if (err) {
		hf_error_ignore(err);
		return false;
	}
	return stat.state == 'Z' && stat.parent == target;
}

/* Bring an attached and interrupted thread to PTRACE_EVENT_STOP with nothing
 * in hand. */
static bool stop_thread(struct reaper *reaper, struct hf_tracee *tracee,
			uint32_t limit_ms)
{
	uint32_t ticks = 0;

	for (int i = 0; i < PASSED_MAX; i++) {
		int status;
		pid_t got;

		do {
			got = hf_wait_clock_wait(reaper->clock, tracee->tid,
						 &status);
		} while (got == 0 &&
			 ++ticks < limit_ms / HF_WAIT_TICK_MS);
		if (got <= 0 || !WIFSTOPPED(status))
			return false;
		tracee->state = HF_TRACEE_STOPPED;
		tracee->event = status >> 16;
		if (tracee->event == HF_PTRACE_EVENT_STOP)
			return true;
		/* A signal in hand: deliver it. The interruption is still
		 * pending and stops the thread at its handler. */
		hf_tracee_ptrace(tracee, PTRACE_CONT, NULL,
				 (void *)(long)(tracee->event ?
						0 : WSTOPSIG(status)));
		tracee->state = HF_TRACEE_RUNNING;
	}
	return false;
}

static struct hf_error *wait4_in(struct reaper *reaper,
				 struct hf_tracee *tracee)
{
	const uint64_t args[6] = {
		(uint64_t)reaper->child->pid_in_target, 0,
		(uint64_t)(WNOHANG | __WALL), 0,
	};
	struct hf_remote_call call;
	enum hf_remote_stop stop;
	struct hf_error *err;
	int64_t result;

	err = hf_remote_call_begin(&call, tracee, reaper->target, 0,
				   PTRACE_O_TRACESYSGOOD, reaper->way,
				   reaper->clock);
	if (err)
		return err;
	err = hf_remote_call_enter(&call, SYS_wait4, args);
	if (!err)
		err = hf_remote_call_finish(&call, &stop, &result);
	hf_remote_call_end(&call);
	if (!err && result < 0)
		err = hf_error_os((int)-result, "wait4 in process %d",
				  reaper->target);
	return err;
}

static struct hf_error *reap_from(struct reaper *reaper, pid_t tid,
				  uint32_t limit_ms)
{
	struct hf_tracee tracee = { 0 };
	struct hf_error *err = NULL;
	const char *unfit = NULL;
	uint64_t start;

	err = hf_way_prepare(reaper->way, tid);
	if (err)
		return err;
	tracee.xstate = reaper->xstate;
	hf_tracee_init(&tracee, tid, HF_TRACEE_THREAD, reaper->clock->calls);
	if (!is_late(reaper, tid)) {
		if (hf_tracee_ptrace(&tracee, PTRACE_SEIZE, NULL,
				     (void *)PTRACE_O_TRACESYSGOOD) < 0)
			return hf_error_os(errno, "cannot attach to thread %d",
					   tid);
		hf_tracee_ptrace(&tracee, PTRACE_INTERRUPT, NULL, NULL);
		err = hf_array_append(&reaper->late, tid);
		if (err)
			return err;
	}
	if (!stop_thread(reaper, &tracee, limit_ms))
		return hf_error_create(HF_ERROR_TIMEOUT,
				       "thread %d does not stop", tid);
	no_longer_late(reaper, tid);
	start = hf_now_ns();
	if (!hf_tracee_read_registers(&tracee, reaper->xstate_room))
		return hf_error_create(HF_ERROR_TARGET_GONE,
				       "thread %d ended", tid);
	if (hf_tracee_is_compat(&tracee) ||
	    hf_tracee_dispatches_syscalls(&tracee))
		unfit = "cannot run a system call";
	else if ((int64_t)tracee.regs.orig_rax < 0 &&
		 hf_tracee_in_rseq(&tracee))
		unfit = "is inside a restartable sequence";
	else if (!hf_way_check_site(reaper->way, &tracee))
		unfit = "has called exec meanwhile";
	else if (reaper->num_picky > 0 &&
		 !hf_way_is_certain(reaper->way, &tracee)) {
		unfit = "has no room on its stack";
		reaper->num_picky--;
	}
	if (unfit)
		err = hf_error_create(HF_ERROR_TIMEOUT, "thread %d %s", tid,
				      unfit);
	else
		err = wait4_in(reaper, &tracee);
	hf_tracee_detach(&tracee);
	reaper->pause_ns += hf_now_ns() - start;
	return err;
}

static struct hf_error *list_candidate(void *arg, pid_t tid)
{
	struct reaper *reaper = arg;
	struct candidate candidate = { .tid = tid };
	struct hf_proc_stat stat;
	struct hf_error *err = hf_proc_stat_read(tid, 0, &stat);

	if (err) {
		hf_error_ignore(err);
		return NULL;
	}
	switch (stat.state) {
	case 'S':
	case 'I':
		candidate.rank = tid == reaper->target ||
				 hf_proc_has_children(reaper->target, tid) ?
					 RANK_RECEIVER : RANK_ASLEEP;
		break;
	case 'R':
	case 'T':
		candidate.rank = RANK_AWAKE;
		break;
	case 't':
		/* Ours, from a round before; or another tracer's. */
		if (!is_late(reaper, tid))
			return NULL;
		candidate.rank = RANK_ASLEEP;
		break;
	case 'D':
		candidate.rank = RANK_BEYOND_REACH;
		break;
	default:
		return NULL;
	}
	return hf_array_append(&reaper->candidates, candidate);
}

static int by_rank(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return (int)x->rank - (int)y->rank;
}

/* @return the error of the last thread that was tried. */
static struct hf_error *try_all(struct reaper *reaper)
{
	struct hf_error *err, *last = NULL;

	reaper->candidates.num = 0;
	err = hf_proc_for_each_thread(reaper->target, list_candidate, reaper);
	if (err || reaper->candidates.num == 0)
		return err;
	qsort(reaper->candidates.data, reaper->candidates.num,
	      sizeof(reaper->candidates.data[0]), by_rank);
	reaper->num_picky = reaper->candidates.num - 1;
	if (reaper->num_picky > PICKY_MAX)
		reaper->num_picky = PICKY_MAX;
	for (size_t i = 0; i < reaper->candidates.num &&
			   !hf_reap_limit_is_over(reaper->limit) &&
			   is_zombie(reaper->target, reaper->child); i++) {
		const struct candidate *candidate =
			&reaper->candidates.data[i];

		hf_error_destroy(last);
		last = reap_from(reaper, candidate->tid,
				 candidate->rank == RANK_BEYOND_REACH ?
					 SLEEPER_LIMIT_MS : STOP_LIMIT_MS);
	}
	return last;
}

/* What stopped meanwhile. Who has not is let go by the kernel when this thread
 * ends. */
static void let_late_go(struct reaper *reaper)
{
	for (size_t i = 0; i < reaper->late.num; i++) {
		pid_t tid = reaper->late.data[i];
		struct hf_tracee tracee = { .xstate = reaper->xstate };

		hf_tracee_init(&tracee, tid, HF_TRACEE_THREAD,
			       reaper->clock->calls);
		if (stop_thread(reaper, &tracee, HF_WAIT_TICK_MS) &&
		    hf_tracee_read_registers(&tracee, reaper->xstate_room))
			hf_tracee_detach(&tracee);
	}
}

struct hf_error *hf_reap_child(pid_t target, const struct hf_child *child,
			       struct hf_way *way,
			       struct hf_wait_clock *clock,
			       const struct hf_reap_limit *limit,
			       uint64_t *pause_ns_ret)
{
	struct reaper reaper = {
		.target = target,
		.child = child,
		.way = way,
		.clock = clock,
		.limit = limit,
		.xstate_room = hf_xstate_max_bytes(),
	};
	uint64_t end = hf_now_ns() + (uint64_t)ROUNDS_MS * 1000000;
	struct hf_error *err;

	reaper.xstate = malloc(reaper.xstate_room);
	if (!reaper.xstate)
		return &hf_enomem;
	err = try_all(&reaper);
	while (is_zombie(target, child) && hf_now_ns() < end &&
	       !hf_reap_limit_is_over(limit)) {
		usleep(ROUND_PAUSE_US);
		hf_error_destroy(err);
		err = try_all(&reaper);
	}
	let_late_go(&reaper);
	hf_array_deinit(&reaper.candidates);
	hf_array_deinit(&reaper.late);
	free(reaper.xstate);
	*pause_ns_ret = reaper.pause_ns;
	if (!is_zombie(target, child)) {
		hf_error_destroy(err);
		return NULL;
	}
	if (!err)
		err = hf_error_create(HF_ERROR_TIMEOUT,
				      "no thread could be stopped");
	return hf_error_fix(
		hf_error_prefix(err, "process %d keeps a zombie child %d",
				target, child->pid),
		"it costs a pid and no memory, and is gone when the process "
		"ends");
}
