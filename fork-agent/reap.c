/* Have the target reap the dead child, so that no zombie stays.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/reap.h"

#include <sys/syscall.h>
#include <sys/wait.h>

#include "fork-agent/proc_task.h"
#include "fork-agent/syscall_site.h"
#include "util/progress.h"

enum {
	/* A thread that does not stop by then is not the one to take. */
	STOP_LIMIT_MS = 100,
	/* Its rounds over all threads, with time between. */
	ROUNDS_MAX = 5,
	ROUND_PAUSE_US = 20 * 1000,
	PASSED_MAX = 16,   /* stops of other kinds, one after the other */
};

struct reaper {
	pid_t target;
	const struct hf_child *child;
	struct hf_wait_clock *clock;
	uint64_t pause_ns;
	bool reaped;
	bool in_calls;         /* this round: only threads asleep */
	struct hf_error *last; /* why the last thread could not do it */
};

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

/* Bring an attached thread to PTRACE_EVENT_STOP with nothing in hand. */
static bool stop_thread(struct reaper *reaper, struct hf_tracee *tracee)
{
	uint32_t ticks = 0;

	ptrace(PTRACE_INTERRUPT, tracee->tid, NULL, NULL);
	for (int i = 0; i < PASSED_MAX; i++) {
		int status;
		pid_t got;

		do {
			got = hf_wait_clock_wait(reaper->clock, tracee->tid,
						 &status);
		} while (got == 0 &&
			 ++ticks < STOP_LIMIT_MS / HF_WAIT_TICK_MS);
		if (got <= 0 || !WIFSTOPPED(status))
			return false;
		tracee->state = HF_TRACEE_STOPPED;
		tracee->event = status >> 16;
		if (tracee->event == HF_PTRACE_EVENT_STOP)
			return true;
		/* A signal in hand: deliver it. The interruption is still
		 * pending and stops the thread at its handler. */
		ptrace(PTRACE_CONT, tracee->tid, NULL,
		       (void *)(long)(tracee->event ? 0 : WSTOPSIG(status)));
		tracee->state = HF_TRACEE_RUNNING;
	}
	return false;
}

static struct hf_error *wait4_in(struct reaper *reaper,
				 struct hf_tracee *tracee, uint64_t site)
{
	const uint64_t args[6] = {
		(uint64_t)reaper->child->pid_in_target, 0,
		(uint64_t)(WNOHANG | __WALL), 0,
	};
	struct hf_remote_call call;
	enum hf_remote_stop stop;
	struct hf_error *err;
	int64_t result;

	err = hf_remote_call_begin(&call, tracee, reaper->target, site,
				   PTRACE_O_TRACESYSGOOD, reaper->clock);
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

static struct hf_error *reap_from(struct reaper *reaper, pid_t tid)
{
	struct hf_tracee tracee = { 0 };
	struct hf_error *err = NULL;
	const char *unfit = NULL;
	uint64_t site, start;

	err = hf_syscall_site_find(tid, &site);
	if (err)
		return err;
	hf_tracee_init(&tracee, tid, HF_TRACEE_THREAD);
	if (ptrace(PTRACE_SEIZE, tid, NULL, PTRACE_O_TRACESYSGOOD) < 0)
		return hf_error_os(errno, "cannot attach to thread %d", tid);
	start = hf_now_ns();
	if (!stop_thread(reaper, &tracee))
		return hf_error_create(HF_ERROR_TIMEOUT,
				       "thread %d does not stop", tid);
	if (!hf_tracee_read_registers(&tracee, 0))
		return hf_error_create(HF_ERROR_TARGET_GONE,
				       "thread %d ended", tid);
	hf_tracee_check_interrupted(&tracee);
	if (hf_tracee_is_compat(&tracee) ||
	    hf_tracee_dispatches_syscalls(&tracee))
		unfit = "cannot run a system call";
	else if ((int64_t)tracee.regs.orig_rax < 0 &&
		 hf_tracee_in_rseq(&tracee))
		unfit = "is inside a restartable sequence";
	else if (!hf_syscall_site_check(tid, site))
		unfit = "has called exec meanwhile";
	if (unfit)
		err = hf_error_create(HF_ERROR_TIMEOUT, "thread %d %s", tid,
				      unfit);
	else
		err = wait4_in(reaper, &tracee, site);
	hf_tracee_detach(&tracee);
	reaper->pause_ns += hf_now_ns() - start;
	return err;
}

static struct hf_error *try_thread(void *arg, pid_t tid)
{
	struct reaper *reaper = arg;
	struct hf_proc_stat stat;
	struct hf_error *err;

	if (!is_zombie(reaper->target, reaper->child)) {
		reaper->reaped = true;
		return &hf_stop;
	}
	err = hf_proc_stat_read(tid, 0, &stat);
	if (err) {
		hf_error_ignore(err);
		return NULL;
	}
	/* Not a thread in uninterruptible sleep: it would stay attached. */
	if (reaper->in_calls ? stat.state != 'S' : stat.state != 'R' &&
						   stat.state != 'T')
		return NULL;
	hf_error_destroy(reaper->last);
	reaper->last = reap_from(reaper, tid);
	return NULL;
}

struct hf_error *hf_reap_child(pid_t target, const struct hf_child *child,
			       struct hf_wait_clock *clock,
			       uint64_t *pause_ns_ret)
{
	struct reaper reaper = {
		.target = target,
		.child = child,
		.clock = clock,
	};
	struct hf_error *err;

	for (int round = 0; round < ROUNDS_MAX; round++) {
		for (int in_calls = 1; in_calls >= 0; in_calls--) {
			reaper.in_calls = in_calls;
			err = hf_proc_for_each_thread(target, try_thread,
						      &reaper);
			hf_error_ignore(err);
			if (reaper.reaped ||
			    !is_zombie(target, child)) {
				hf_error_destroy(reaper.last);
				*pause_ns_ret = reaper.pause_ns;
				return NULL;
			}
		}
		usleep(ROUND_PAUSE_US);
	}
	*pause_ns_ret = reaper.pause_ns;
	err = reaper.last ? reaper.last :
			    hf_error_create(HF_ERROR_TIMEOUT,
					    "no thread could be stopped");
	return hf_error_fix(
		hf_error_prefix(err, "process %d keeps a zombie child %d",
				target, child->pid),
		"it costs a pid and no memory, and is gone when the process "
		"ends");
}
