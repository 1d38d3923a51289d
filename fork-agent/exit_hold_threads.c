/* Exit hold: which threads are traced, and how they go on from each stop.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/exit_hold_internal.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "fork-agent/proc_task.h"
#include "util/progress.h"

/* Traced are all threads but the leader; the leader only if it is alone.
 *
 * Signals to a process come through its leader. While that is traced, the
 * kernel queues also what is ignored, and wakes a thread for each. When two
 * come in quick succession it wakes a second thread, and if the first takes
 * both from the queue, the second finds nothing: a call of those that the
 * kernel does not restart ends with EINTR, and there is no stop at which a
 * tracer could cure that. A thread that is alone takes all that it is woken
 * for. */

enum {
	OPTIONS = PTRACE_O_TRACEEXIT | PTRACE_O_TRACECLONE |
		  PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD,
	XSTATE_BYTES = 16 * 1024,
	FATAL_SIGNAL_MASK = 0x7f, /* of a wait status */
	/* How long threads that stand at their ends wait for all the others. */
	GATHER_LIMIT_NS = 500 * 1000 * 1000,
	DETACH_TICKS = 20,
	ATTACH_TRIES = 3,
};

/* ---- which threads are attached ---- */

static void note_running(struct hf_exit_hold *hold, pid_t tid)
{
	for (size_t i = 0; i < hold->running.num; i++)
		if (hold->running.data[i] == tid)
			return;
	/* Without memory it is one that we do not know of, but pass on. */
	hf_error_ignore(hf_array_append(&hold->running, tid));
}

static bool is_running(const struct hf_exit_hold *hold, pid_t tid)
{
	for (size_t i = 0; i < hold->running.num; i++)
		if (hold->running.data[i] == tid)
			return true;
	return false;
}

static bool is_leaving(const struct hf_exit_hold *hold, pid_t tid)
{
	for (size_t i = 0; i < hold->leaving.num; i++)
		if (hold->leaving.data[i] == tid)
			return true;
	return false;
}

static void drop_running(struct hf_exit_hold *hold, pid_t tid)
{
	for (size_t i = 0; i < hold->running.num; i++)
		if (hold->running.data[i] == tid)
			hold->running.data[i] =
				hold->running.data[--hold->running.num];
}

static void drop_leaving(struct hf_exit_hold *hold, pid_t tid)
{
	for (size_t i = 0; i < hold->leaving.num; i++)
		if (hold->leaving.data[i] == tid)
			hold->leaving.data[i] =
				hold->leaving.data[--hold->leaving.num];
}

bool hf_exit_hold_has(const struct hf_exit_hold *hold, pid_t tid)
{
	for (size_t i = 0; i < hold->held.num; i++)
		if (hold->held.data[i].tid == tid)
			return true;
	return false;
}

/* Is a thread attached besides the leader? */
static bool has_workers(const struct hf_exit_hold *hold)
{
	return hold->running.num > (size_t)is_running(hold, hold->pid);
}

struct seize {
	struct hf_exit_hold *hold;
	bool with_leader;
	size_t num_new;
};

static struct hf_error *seize_one(void *arg, pid_t tid)
{
	struct seize *seize = arg;
	struct hf_exit_hold *hold = seize->hold;
	struct hf_proc_status status;
	struct hf_error *err;
	int os_error;

	if ((tid == hold->pid) != seize->with_leader ||
	    is_running(hold, tid) || is_leaving(hold, tid) ||
	    hf_exit_hold_has(hold, tid))
		return NULL;
	if (hf_ptrace(&hold->calls, PTRACE_SEIZE, tid, NULL,
		      (void *)OPTIONS) == 0) {
		seize->num_new++;
		note_running(hold, tid);
		return NULL;
	}
	os_error = errno;
	/* EINTR: an exec is under way. */
	if (os_error == EINTR || os_error == ESRCH || hf_proc_is_dead(tid))
		return NULL;
	err = hf_proc_status_read(tid, 0, &status);
	if (err) {
		hf_error_ignore(err);
		return NULL;
	}
	if (status.tracer == hold->tid) {
		note_running(hold, tid); /* born attached */
		return NULL;
	}
	return hf_error_os(os_error, "cannot attach to thread %d of process "
			   "%d", tid, hold->pid);
}

/* All threads but the leader; if there are none, the leader. */
struct hf_error *hf_exit_hold_attach(struct hf_exit_hold *hold)
{
	struct seize seize = { .hold = hold };
	struct hf_error *err;

	do {
		seize.num_new = 0;
		err = hf_proc_for_each_thread(hold->pid, seize_one, &seize);
	} while (!err && seize.num_new);
	seize.with_leader = true;
	if (!err && !hold->running.num)
		err = seize_one(&seize, hold->pid);
	return err;
}

/* Threads that the leader made are not born attached, since it is not. */
void hf_exit_hold_attach_new(struct hf_exit_hold *hold)
{
	size_t num = hold->running.num + hold->leaving.num +
		     !is_running(hold, hold->pid);
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/task", hold->pid);
	/* A folder has two links more than folders in it. */
	if (stat(path, &st) == 0 && (size_t)st.st_nlink != num + 2)
		hf_error_ignore(hf_exit_hold_attach(hold));
	if (has_workers(hold) && is_running(hold, hold->pid))
		hf_ptrace(&hold->calls, PTRACE_INTERRUPT, hold->pid, NULL,
			  NULL);
}

void hf_exit_hold_forget(struct hf_exit_hold *hold)
{
	hold->running.num = hold->leaving.num = 0;
	hold->has_leader_regs = false;
	hf_exit_hold_let_all_go(hold);
}

/* ---- stops that are not the end ---- */

static void go_on(struct hf_exit_hold *hold, pid_t tid, int signal_number)
{
	hf_ptrace(&hold->calls, PTRACE_CONT, tid, NULL,
		  (void *)(long)signal_number);
}

/* The thread goes on from its stop, and no call of it ends for that. */
static void pass(struct hf_exit_hold *hold, pid_t tid, int event,
		 int signal_number)
{
	struct hf_tracee tracee = {
		.tid = tid,
		.kind = HF_TRACEE_THREAD,
		.calls = &hold->calls,
		.state = HF_TRACEE_STOPPED,
		.event = event,
		.held_signal = signal_number,
	};

	if (!hf_tracee_read_registers(&tracee, 0))
		return;
	/* Signals to the process come through the leader. While that is
	 * traced, ignored ones are queued, and may wake a thread that then
	 * finds nothing, and has no stop in which we could cure it. */
	if (tid == hold->pid && has_workers(hold)) {
		hold->leader_regs = tracee.regs;
		hold->has_leader_regs = true;
		drop_running(hold, tid);
		hf_tracee_detach(&tracee);
		return;
	}
	if (tracee.interrupted_call) {
		struct user_regs_struct regs =
			hf_tracee_stop_registers(&tracee);

		hf_tracee_ptrace(&tracee, PTRACE_SETREGS, NULL, &regs);
	}
	go_on(hold, tid, signal_number);
}

static void pass_stop(struct hf_exit_hold *hold, pid_t tid, int number)
{
	if (!hf_proc_is_thread_of(hold->pid, tid)) {
		/* Made by clone, but a process. */
		drop_running(hold, tid);
		hf_ptrace(&hold->calls, PTRACE_DETACH, tid, NULL, NULL);
	} else if (number == SIGTRAP ||
		   (tid == hold->pid && has_workers(hold))) {
		/* SIGCONT stops all tracees for a moment. A stop by job
		 * control outlives a detach. */
		pass(hold, tid, HF_PTRACE_EVENT_STOP, 0);
	} else {
		hf_ptrace(&hold->calls, PTRACE_LISTEN, tid, NULL, NULL);
	}
}

static void pass_clone(struct hf_exit_hold *hold, pid_t tid)
{
	unsigned long born = 0;

	if (hf_ptrace(&hold->calls, PTRACE_GETEVENTMSG, tid, NULL, &born) == 0
	    && hf_proc_is_thread_of(hold->pid, (pid_t)born))
		note_running(hold, (pid_t)born);
	pass(hold, tid, PTRACE_EVENT_CLONE, 0);
}

/* ---- the end ---- */

struct others {
	const struct hf_exit_hold *hold;
	bool any;
	bool any_in_exec;
};

static struct hf_error *look_at_other(void *arg, pid_t tid)
{
	struct others *others = arg;
	struct hf_proc_syscall call;

	if (hf_exit_hold_has(others->hold, tid) || hf_proc_is_dead(tid))
		return NULL;
	others->any = true;
	others->any_in_exec |=
		hf_proc_syscall_read(others->hold->pid, tid, &call) &&
		(call.nr == SYS_execve || call.nr == SYS_execveat);
	return NULL;
}

/* Threads that live and are not held. */
static struct others look_at_others(const struct hf_exit_hold *hold)
{
	struct others others = { .hold = hold };

	hf_error_ignore(hf_proc_for_each_thread(hold->pid, look_at_other,
						&others));
	return others;
}

bool hf_exit_hold_has_others(const struct hf_exit_hold *hold)
{
	return look_at_others(hold).any;
}

/* Is there another thread that will not end without us? */
static bool keep_watch(struct hf_exit_hold *hold, pid_t tid)
{
	hf_error_ignore(hf_array_append(&hold->leaving, tid));
	/* Again, should a tick have come between. */
	for (int i = 0; i < ATTACH_TRIES && !hold->running.num &&
			!hold->held.num; i++)
		hf_error_ignore(hf_exit_hold_attach(hold));
	if (hold->running.num)
		return true;
	drop_leaving(hold, tid);
	return false;
}

static void hold_thread(struct hf_exit_hold *hold, pid_t tid)
{
	struct hf_tracee tracee = { 0 };
	unsigned long code = 0;
	struct hf_error *err;
	bool by_itself;

	drop_running(hold, tid);
	hf_tracee_init(&tracee, tid, HF_TRACEE_THREAD, &hold->calls);
	tracee.state = HF_TRACEE_STOPPED;
	tracee.event = PTRACE_EVENT_EXIT;
	tracee.xstate = malloc(XSTATE_BYTES);
	if (!hf_tracee_read_registers(&tracee, XSTATE_BYTES) ||
	    hf_tracee_ptrace(&tracee, PTRACE_GETEVENTMSG, NULL, &code) < 0) {
		free(tracee.xstate);
		return; /* killed */
	}
	by_itself = tracee.regs.orig_rax == SYS_exit &&
		    !(code & FATAL_SIGNAL_MASK);
	err = by_itself && keep_watch(hold, tid) ?
	      &hf_stop : hf_array_append(&hold->held, tracee);
	if (err) {
		hf_error_ignore(err);
		free(tracee.xstate);
		go_on(hold, tid, 0);
		return;
	}
	if (!hold->first_ns)
		hold->first_ns = hf_now_ns();
	/* Else it was in the middle of something: another thread calls
	 * exit_group, with 0, or exec. */
	hold->is_end |= code || tracee.regs.orig_rax == SYS_exit ||
			tracee.regs.orig_rax == SYS_exit_group;
}

void hf_exit_hold_let_all_go(struct hf_exit_hold *hold)
{
	for (size_t i = 0; i < hold->held.num; i++) {
		go_on(hold, hold->held.data[i].tid, 0);
		free(hold->held.data[i].xstate);
	}
	hold->held.num = 0;
	hold->first_ns = 0;
	hold->is_end = false;
}

/* Do all that are left stand at their ends? */
bool hf_exit_hold_is_gathered(struct hf_exit_hold *hold)
{
	struct others others;
	bool is_late;

	if (!hold->held.num)
		return false;
	others = look_at_others(hold);
	if (!others.any)
		return true;
	is_late = hf_now_ns() - hold->first_ns > GATHER_LIMIT_NS;
	if (hold->is_end)
		return is_late;
	/* exec waits for these ends, and must not wait long. */
	if (others.any_in_exec || is_late)
		hf_exit_hold_let_all_go(hold);
	return false;
}

void hf_exit_hold_take_event(struct hf_exit_hold *hold, pid_t tid, int status)
{
	if (!WIFSTOPPED(status)) {
		drop_running(hold, tid);
		drop_leaving(hold, tid);
		return;
	}
	switch (status >> 16) {
	case PTRACE_EVENT_EXIT:
		hold_thread(hold, tid);
		break;
	case HF_PTRACE_EVENT_STOP:
		note_running(hold, tid);
		pass_stop(hold, tid, WSTOPSIG(status));
		break;
	case PTRACE_EVENT_CLONE:
		pass_clone(hold, tid);
		break;
	case PTRACE_EVENT_EXEC:
		/* The only thread, whatever its tid was. */
		hold->running.num = hold->leaving.num = 0;
		hold->has_leader_regs = false;
		note_running(hold, tid);
		go_on(hold, tid, 0);
		break;
	default:
		pass(hold, tid, status >> 16, status >> 16 ?
					      0 : WSTOPSIG(status));
		break;
	}
}

/* The kernel detaches without a stop, but a signal may be on its way, and have
 * interrupted a call already: so there is one, in which that is cured. */
void hf_exit_hold_detach_all(struct hf_exit_hold *hold)
{
	int ticks = 0;

	for (size_t i = 0; i < hold->running.num; i++)
		hf_ptrace(&hold->calls, PTRACE_INTERRUPT,
			  hold->running.data[i], NULL, NULL);
	while (hold->running.num && ticks < DETACH_TICKS) {
		struct hf_tracee tracee = {
			.kind = HF_TRACEE_THREAD,
			.calls = &hold->calls,
			.state = HF_TRACEE_STOPPED,
			.event = HF_PTRACE_EVENT_STOP,
		};
		int status;
		pid_t tid = hf_wait_clock_wait(&hold->clock, -1, &status);

		ticks += tid == 0;
		if (tid < 0 || (tid == hold->pid && !WIFSTOPPED(status)))
			return;
		if (tid == 0)
			continue;
		if (WIFSTOPPED(status) &&
		    status >> 16 == HF_PTRACE_EVENT_STOP) {
			tracee.tid = tid;
			drop_running(hold, tid);
			hf_tracee_detach(&tracee);
			continue;
		}
		hf_exit_hold_take_event(hold, tid, status);
		/* It has that behind it, and then this. */
		if (is_running(hold, tid))
			hf_ptrace(&hold->calls, PTRACE_INTERRUPT, tid, NULL,
				  NULL);
	}
}
