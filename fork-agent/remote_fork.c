/* Make a stopped process fork, without its noticing.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/remote_fork.h"

#include <inttypes.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>

enum {
	/* clone asks to be started again when it was interrupted early. */
	ERESTARTNOINTR = 513,
	RESTARTS_MAX = 16,
	PAGE_BYTES = 4096,
	/* Stacks that are looked at, until the next best thread is taken. */
	STACKS_MAX = 8,
};

/* NULL: fit to run a call. */
static const char *unfit(struct hf_tracee *tracee)
{
	if (tracee->held_signal)
		return "each thread is about to handle a signal";
	if (tracee->event != HF_PTRACE_EVENT_STOP)
		return "each thread is inside vfork or exec";
	if (hf_tracee_is_compat(tracee))
		return "it runs 32-bit code";
	if (hf_tracee_dispatches_syscalls(tracee))
		return "its system calls are redirected (syscall user "
		       "dispatch)";
	return NULL;
}

struct hf_tracee *hf_remote_fork_choose(struct hf_attachment *attachment,
					struct hf_way *way,
					const char **why_ret)
{
	struct hf_tracee *uncertain = NULL;
	uint32_t num_stacks = 0;

	*why_ret = "no thread could be stopped";
	for (int round = 3; round >= 0; round--) {
		bool in_call = round & 1, has_room = round & 2;

		if (!has_room && uncertain)
			return uncertain;

		for (size_t i = 0; i < attachment->num; i++) {
			struct hf_tracee *tracee = &attachment->tracees[i];
			const char *why;

			if (tracee->state != HF_TRACEE_STOPPED ||
			    tracee->kind != HF_TRACEE_THREAD ||
			    ((int64_t)tracee->regs.orig_rax >= 0) != in_call ||
			    hf_way_has_room(way, tracee) != has_room)
				continue;
			why = unfit(tracee);
			if (!why && !in_call && hf_tracee_in_rseq(tracee))
				why = "each thread is inside a restartable "
				      "sequence";
			if (why) {
				*why_ret = why;
				continue;
			}
			if (!has_room)
				return tracee;
			if (num_stacks == STACKS_MAX)
				return uncertain;
			if (hf_way_is_certain(way, tracee))
				return tracee;
			num_stacks++;
			if (!uncertain)
				uncertain = tracee;
		}
	}
	return NULL;
}

static struct hf_error *fork_error(pid_t pid, int os_error)
{
	struct hf_error *err =
		hf_error_os(os_error, "process %d cannot fork", pid);

	/* It is the target that lacks something, not we. */
	if (!err->is_static)
		err->code = HF_ERROR_OS;
	switch (os_error) {
	case EAGAIN:
		err = hf_error_cause(
			err, "a limit on processes is reached: RLIMIT_NPROC "
			"of its user, pids.max of its cgroup, or "
			"kernel.threads-max");
		return hf_error_fix(err, "raise the limit; one process more "
				    "is needed");
	case ENOMEM:
		err = hf_error_cause(
			err, "the kernel does not promise memory for a second "
			"copy (vm.overcommit_memory, Committed_AS in "
			"/proc/meminfo), or has none for the page tables");
		return hf_error_fix(err, "set vm.overcommit_memory to 0 or 1, "
				    "or free memory");
	case EPERM:
	case ENOSYS:
		return hf_error_cause(err, "a seccomp filter or a security "
				      "module refuses clone");
	default:
		return err;
	}
}

/* Kernel addresses: a child that pops its return address from there is killed,
 * if all its signals are blocked (force_sig_info_to_task, Linux 6.12: a fault
 * that is blocked ends the process, whatever handler there is). */
#define STACK_NOWHERE ((uint64_t)-PAGE_BYTES)

/* Should we be killed before the child is ours, it must not run a line of the
 * program: it goes home, where there is a way, or dies at once. */
static uint64_t child_stack(struct hf_remote_call *call)
{
	if (call->way && call->way->laid)
		return call->way->child;
	hf_remote_call_forgo_way(call, STACK_NOWHERE);
	return STACK_NOWHERE;
}

struct hf_error *hf_remote_fork(struct hf_remote_call *call, pid_t *child_ret)
{
	/* Raw clone on x86-64: flags, stack (0: the same), parent_tid,
	 * child_tid, tls. The low byte of flags is the exit signal. */
	const uint64_t args[6] = { CLONE_FILES, child_stack(call) };

	for (int i = 0; i < RESTARTS_MAX; i++) {
		enum hf_remote_stop stop;
		struct hf_error *err;
		int64_t result;

		err = hf_remote_call_enter(call, SYS_clone, args);
		if (err)
			return err;
		err = hf_remote_call_finish(call, &stop, &result);
		if (err)
			return err;
		if (stop == HF_REMOTE_CLONED) {
			*child_ret = (pid_t)result;
			return NULL;
		}
		if (result > 0)
			return hf_error_create(
				HF_ERROR_OS,
				"process %d has forked %" PRId64
				" unreported", call->pid, result);
		if (result != -ERESTARTNOINTR)
			return fork_error(call->pid, (int)-result);
	}
	return hf_error_create(HF_ERROR_TIMEOUT,
			       "process %d could not fork: interrupted again "
			       "and again", call->pid);
}
