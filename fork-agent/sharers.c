/* Sharers: processes that run in the target's memory, stopped with it.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/sharers.h"

#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <time.h>

#include "fork-agent/proc_task.h"

enum {
	ROUNDS_MAX = 8,       /* sharers of sharers, and new threads of them */
	EXEC_LOOKS_MAX = 10,  /* a millisecond each, for all children */
};

enum sharing {
	SHARING_NO,
	SHARING_YES,
	SHARING_MAYBE, /* as far as can be told without kcmp */
};

struct search {
	struct hf_attachment *attachment;
	pid_t tid;               /* a thread of the target with memory */
	struct hf_tracee *parent; /* whose children are looked at */
	uint32_t num_new;        /* threads that were attached */
	uint32_t num_exec_looks;
	uint32_t num_stopped;    /* counted at the end */
	uint32_t num_running;
	uint32_t num_of_parent;  /* sharers among its children */
};

static enum sharing sharing(pid_t tid, pid_t other)
{
	long rc = syscall(SYS_kcmp, tid, other, KCMP_VM, 0, 0);
	struct hf_proc_stat one, two;
	struct hf_error *err;

	if (rc >= 0)
		return rc == 0 ? SHARING_YES : SHARING_NO;
	if (errno == ESRCH)
		return SHARING_NO;
	err = hf_proc_stat_read(tid, 0, &one);
	if (!err)
		err = hf_proc_stat_read(other, 0, &two);
	if (err) {
		hf_error_ignore(err);
		return SHARING_NO;
	}
	return one.memory_bytes == two.memory_bytes && one.memory_bytes ?
		       SHARING_MAYBE : SHARING_NO;
}

static bool is_sharer(const struct search *search, pid_t child)
{
	const struct hf_tracee *parent = search->parent;
	enum sharing result = sharing(search->tid, child);

	return result == SHARING_YES ||
	       (result == SHARING_MAYBE &&
		parent->state == HF_TRACEE_PARTIAL && parent->in_vfork);
}

/* ---- before the pause ---- */

static void look_at_child(void *arg, pid_t child)
{
	struct search *search = arg;

	if (!search->parent->has_sharers)
		search->parent->has_sharers =
			sharing(search->tid, child) == SHARING_YES;
}

void hf_sharers_look(struct hf_attachment *attachment)
{
	for (size_t i = 0; i < attachment->num; i++) {
		struct hf_tracee *tracee = &attachment->tracees[i];
		struct search search = {
			.attachment = attachment,
			.tid = tracee->tid,
			.parent = tracee,
		};

		/* Only they had children when they were attached. */
		if (tracee->kind == HF_TRACEE_THREAD && tracee->is_receiver &&
		    tracee->state == HF_TRACEE_RUNNING)
			hf_proc_for_each_child(tracee->tid, look_at_child,
					       &search);
	}
}

/* ---- in the pause ---- */

static bool may_have_sharers(const struct hf_tracee *tracee)
{
	switch (tracee->kind) {
	case HF_TRACEE_THREAD:
		if (tracee->state == HF_TRACEE_PARTIAL)
			return tracee->in_vfork || tracee->has_sharers;
		return tracee->state == HF_TRACEE_STOPPED &&
		       (tracee->has_sharers ||
			tracee->event == PTRACE_EVENT_VFORK ||
			tracee->event == PTRACE_EVENT_CLONE);
	case HF_TRACEE_SHARER:
		return tracee->state != HF_TRACEE_GONE;
	case HF_TRACEE_NEWBORN: /* at its beginning */
	default:
		return false;
	}
}

static void for_each_child(struct search *search,
			   void (*fn)(void *arg, pid_t child),
			   void (*after)(struct search *search))
{
	struct hf_attachment *attachment = search->attachment;

	/* Sharers are appended meanwhile; the table does not move. */
	for (size_t i = 0; i < attachment->num; i++) {
		search->parent = &attachment->tracees[i];
		if (!may_have_sharers(search->parent))
			continue;
		search->num_of_parent = 0;
		hf_proc_for_each_child(search->parent->tid, fn, search);
		if (after)
			after(search);
	}
}

/* To attach takes a lock that the kernel holds during exec. A process that is
 * in it does not write to this memory, and has soon another. (One that runs is
 * not asleep on a disk: its exec, if it is in one, ends in no time.) */
static bool is_in_exec(pid_t pid)
{
	struct hf_proc_syscall call;

	return hf_proc_syscall_read(pid, pid, &call) &&
	       (call.nr == SYS_execve || call.nr == SYS_execveat);
}

static bool is_out_of_exec(struct search *search, pid_t pid)
{
	const struct timespec ms = { .tv_nsec = 1000 * 1000 };

	while (is_in_exec(pid)) {
		if (search->num_exec_looks == EXEC_LOOKS_MAX)
			return false;
		search->num_exec_looks++;
		nanosleep(&ms, NULL);
	}
	return true;
}

struct process {
	struct search *search;
	pid_t pid;
};

static struct hf_error *seize_thread(void *arg, pid_t tid)
{
	struct process *process = arg;
	struct hf_attachment *attachment = process->search->attachment;
	size_t num_running = attachment->num_running;

	hf_attachment_seize_sharer(attachment, process->pid, tid);
	process->search->num_new += attachment->num_running > num_running;
	return NULL;
}

static void seize_child(void *arg, pid_t child)
{
	struct process process = { .search = arg, .pid = child };
	const struct hf_tracee *known =
		hf_attachment_find(process.search->attachment, child);

	/* One that was born in the pause stands already. */
	if ((known && known->kind != HF_TRACEE_SHARER) ||
	    !is_sharer(process.search, child) ||
	    !is_out_of_exec(process.search, child) ||
	    !is_sharer(process.search, child))
		return;
	hf_error_ignore(hf_proc_for_each_thread(child, seize_thread,
						&process));
}

/* One that waits in vfork itself writes nothing as long as its own child,
 * which is counted too, does not come to an end. */
static bool is_standing(const struct hf_tracee *tracee)
{
	return tracee->state == HF_TRACEE_STOPPED ||
	       (tracee->state == HF_TRACEE_PARTIAL && tracee->in_vfork);
}

static bool stands(const struct hf_attachment *attachment, pid_t pid)
{
	struct hf_proc_stat stat;
	struct hf_error *err = hf_proc_stat_read(pid, 0, &stat);
	uint64_t num_standing = 0;

	if (err) {
		hf_error_ignore(err);
		return false;
	}
	for (size_t i = 0; i < attachment->num; i++) {
		const struct hf_tracee *tracee = &attachment->tracees[i];
		pid_t owner = tracee->kind == HF_TRACEE_SHARER ?
				      tracee->sharer : tracee->tid;

		num_standing += owner == pid && is_standing(tracee);
	}
	return num_standing >= stat.num_threads;
}

static void count_child(void *arg, pid_t child)
{
	struct search *search = arg;

	if (!is_sharer(search, child))
		return;
	search->num_of_parent++;
	if (stands(search->attachment, child))
		search->num_stopped++;
	else
		search->num_running++;
}

/* Somebody must be there, if a thread waits for it. */
static void count_missing(struct search *search)
{
	const struct hf_tracee *parent = search->parent;

	if (parent->state == HF_TRACEE_PARTIAL && parent->in_vfork &&
	    !search->num_of_parent && hf_proc_waits_in_vfork(parent->tid))
		search->num_running++;
}

/* A thread that stands has memory; a leader may have ended before the rest. */
static pid_t a_thread(const struct hf_attachment *attachment)
{
	for (size_t i = 0; i < attachment->num; i++)
		if (attachment->tracees[i].kind == HF_TRACEE_THREAD &&
		    attachment->tracees[i].state == HF_TRACEE_STOPPED)
			return attachment->tracees[i].tid;
	return attachment->pid;
}

/* Attached and interrupted at an earlier stop, for which they were too late. */
static enum hf_standstill
wait_for_late_ones(struct hf_attachment *attachment,
		   const struct hf_stop_limit *limit)
{
	for (size_t i = 0; i < attachment->num; i++)
		if (attachment->tracees[i].kind == HF_TRACEE_SHARER &&
		    attachment->tracees[i].state == HF_TRACEE_PARTIAL)
			hf_attachment_set_state(attachment,
						&attachment->tracees[i],
						HF_TRACEE_RUNNING);
	return attachment->num_running ?
		       hf_attachment_wait_for_sharers(attachment, limit) :
		       HF_STANDSTILL_REACHED;
}

enum hf_standstill hf_sharers_stop(struct hf_attachment *attachment,
				   const struct hf_stop_limit *limit,
				   uint32_t *num_stopped_ret,
				   uint32_t *num_running_ret)
{
	struct search search = {
		.attachment = attachment,
		.tid = a_thread(attachment),
	};
	enum hf_standstill result = wait_for_late_ones(attachment, limit);

	for (int round = 0; round < ROUNDS_MAX && !result; round++) {
		search.num_new = 0;
		for_each_child(&search, seize_child, NULL);
		if (!search.num_new)
			break;
		result = hf_attachment_wait_for_sharers(attachment, limit);
	}
	for_each_child(&search, count_child, count_missing);
	*num_stopped_ret = search.num_stopped;
	*num_running_ret = search.num_running;
	return result;
}
