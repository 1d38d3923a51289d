/* Tracee: the ptrace state of one thread of the target.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/tracee.h"

#include <elf.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "fork-agent/proc_task.h"

enum {
	USER_CS_64 = 0x33,
	SYSCALL_INSN_BYTES = 2,
	/* The kernel's own: restart the call, unless a handler runs. Never
	 * seen by a program. */
	ERESTARTNOHAND = 514,
};

/* Layouts of the kernel's ABI (include/uapi/linux/ptrace.h, Linux 6.4;
 * glibc names them differently from version to version). */
struct rseq_configuration {
	uint64_t rseq_abi_pointer;
	uint32_t rseq_abi_size;
	uint32_t signature;
	uint32_t flags;
	uint32_t pad;
};

struct syscall_dispatch_config {
	uint64_t mode;     /* 0 off, 1 on */
	uint64_t selector;
	uint64_t offset;
	uint64_t len;
};

static uint64_t signal_bit(int signal_number)
{
	return 1ull << (signal_number - 1);
}

void hf_tracee_init(struct hf_tracee *tracee, pid_t tid,
		    enum hf_tracee_kind kind, struct hf_trace_calls *calls)
{
	struct hf_proc_status status;
	struct hf_error *err;
	uint8_t *xstate = tracee->xstate;

	memset(tracee, 0, sizeof(*tracee));
	tracee->xstate = xstate;
	tracee->tid = tid;
	tracee->calls = calls;
	tracee->kind = kind;
	tracee->state = HF_TRACEE_RUNNING;
	err = hf_proc_status_read(tid, 0, &status);
	if (err) {
		hf_error_ignore(err);
		return;
	}
	memcpy(tracee->name, status.name, sizeof(tracee->name));
	tracee->run_state = status.state;
	tracee->sigmask = status.signals_blocked;
}

long hf_tracee_ptrace(struct hf_tracee *tracee, int request, void *addr,
		      void *data)
{
	tracee->num_calls++;
	return hf_ptrace(tracee->calls, request, tracee->tid, addr, data);
}

static bool read_registers(struct hf_tracee *tracee, size_t xstate_room)
{
	struct iovec gpr = { &tracee->regs, sizeof(tracee->regs) };
	struct iovec xstate = { tracee->xstate, xstate_room };
	int64_t nr;

	tracee->interrupted_call = false;
	if (hf_tracee_ptrace(tracee, PTRACE_GETREGSET, (void *)NT_PRSTATUS,
			     &gpr) < 0)
		return false;
	if (tracee->xstate && xstate_room > 0 &&
	    hf_tracee_ptrace(tracee, PTRACE_GETREGSET, (void *)NT_X86_XSTATE,
			     &xstate) == 0)
		tracee->xstate_bytes = xstate.iov_len;
	tracee->has_registers = true;
	nr = (int64_t)tracee->regs.orig_rax;
	/* close() has given the descriptor up even if it says EINTR: a second
	 * close could hit somebody else's new one. */
	tracee->interrupted_call =
		(tracee->event == HF_PTRACE_EVENT_STOP ||
		 tracee->event == 0) &&
		nr >= 0 && nr != SYS_close &&
		(int64_t)tracee->regs.rax == -EINTR;
	return true;
}

bool hf_tracee_read_sigmask(struct hf_tracee *tracee)
{
	if (!tracee->has_sigmask)
		tracee->has_sigmask =
			hf_tracee_ptrace(tracee, PTRACE_GETSIGMASK,
					 (void *)HF_KERNEL_SIGSET_BYTES,
					 &tracee->sigmask) == 0;
	return tracee->has_sigmask;
}

bool hf_tracee_read_registers(struct hf_tracee *tracee, size_t xstate_room)
{
	return read_registers(tracee, xstate_room) &&
	       hf_tracee_read_sigmask(tracee);
}

bool hf_tracee_read_frugally(struct hf_tracee *tracee, size_t xstate_room)
{
	if (!read_registers(tracee, xstate_room))
		return false;
	/* To come: the cure, the detaching. */
	if (tracee->num_calls + tracee->interrupted_call + 1 <
	    HF_TRACEE_CALLS_MAX)
		return hf_tracee_read_sigmask(tracee);
	return true;
}

uint64_t hf_tracee_effective_signals(pid_t tid, uint64_t set)
{
	const uint64_t ignored_by_default =
		signal_bit(SIGCHLD) | signal_bit(SIGCONT) |
		signal_bit(SIGURG) | signal_bit(SIGWINCH);
	struct hf_proc_status status;
	struct hf_error *err;

	if (!set)
		return 0;
	err = hf_proc_status_read(tid, 0, &status);
	if (err) {
		hf_error_ignore(err);
		return set;
	}
	return set & ~status.signals_ignored &
	       ~(ignored_by_default & ~status.signals_caught);
}

struct user_regs_struct
hf_tracee_stop_registers(const struct hf_tracee *tracee)
{
	struct user_regs_struct regs = tracee->regs;

	if (tracee->interrupted_call)
		regs.rax = (uint64_t)-ERESTARTNOHAND;
	return regs;
}

struct user_regs_struct
hf_tracee_resume_registers(const struct hf_tracee *tracee)
{
	struct user_regs_struct regs = tracee->regs;

	if (tracee->interrupted_call) {
		regs.rax = regs.orig_rax;
		regs.rip -= SYSCALL_INSN_BYTES;
		regs.orig_rax = ~0ull;
	}
	return regs;
}

void hf_tracee_detach(struct hf_tracee *tracee)
{
	if (tracee->state != HF_TRACEE_STOPPED)
		return;
	if (!tracee->has_registers && tracee->kind != HF_TRACEE_NEWBORN)
		read_registers(tracee, 0);
	if (tracee->interrupted_call) {
		struct user_regs_struct regs =
			hf_tracee_stop_registers(tracee);

		hf_tracee_ptrace(tracee, PTRACE_SETREGS, NULL, &regs);
	}
	/* ESRCH: it was killed meanwhile. */
	hf_tracee_ptrace(tracee, PTRACE_DETACH, NULL,
			 (void *)(long)tracee->held_signal);
	tracee->state = HF_TRACEE_GONE;
}

static bool peek_u64(struct hf_tracee *tracee, uint64_t addr, uint64_t *ret)
{
	errno = 0;
	*ret = (uint64_t)hf_tracee_ptrace(tracee, PTRACE_PEEKDATA,
					  (void *)addr, NULL);
	return !(*ret == ~0ull && errno);
}

bool hf_tracee_in_rseq(struct hf_tracee *tracee)
{
	/* struct rseq: cpu_id_start u32, cpu_id u32, rseq_cs u64 at 8.
	 * struct rseq_cs: version u32, flags u32, start_ip u64 at 8,
	 * post_commit_offset u64 at 16, abort_ip u64 at 24.
	 * (include/uapi/linux/rseq.h, Linux 6.1) */
	struct rseq_configuration config = { 0 };
	uint64_t cs, start, length;

	if (hf_tracee_ptrace(tracee, HF_PTRACE_GET_RSEQ_CONFIGURATION,
			     (void *)sizeof(config), &config) < 0 ||
	    !config.rseq_abi_pointer)
		return false;
	if (!peek_u64(tracee, config.rseq_abi_pointer + 8, &cs) || !cs)
		return false;
	if (!peek_u64(tracee, cs + 8, &start) ||
	    !peek_u64(tracee, cs + 16, &length))
		return true;
	return tracee->regs.rip - start < length;
}

bool hf_tracee_dispatches_syscalls(struct hf_tracee *tracee)
{
	struct syscall_dispatch_config config = { 0 };

	return hf_tracee_ptrace(tracee, HF_PTRACE_GET_SYSCALL_USER_DISPATCH,
				(void *)sizeof(config), &config) == 0 &&
	       config.mode != 0;
}

bool hf_tracee_is_compat(const struct hf_tracee *tracee)
{
	return tracee->regs.cs != USER_CS_64;
}

void hf_tracee_describe(const struct hf_tracee *tracee, pid_t pid,
			struct hf_thread *ret)
{
	bool in_call = (int64_t)tracee->regs.orig_rax >= 0;
	struct hf_proc_syscall call;

	memset(ret, 0, sizeof(*ret));
	ret->tid = tracee->tid;
	memcpy(ret->name, tracee->name, sizeof(ret->name));
	ret->state = tracee->run_state;
	if (tracee->state == HF_TRACEE_PARTIAL) {
		ret->stop_how = HF_STOP_PARTIAL;
		ret->state = 'D';
		ret->regs.orig_rax = ~0ull;
		if (hf_proc_syscall_read(pid, tracee->tid, &call)) {
			ret->regs.rip = call.pc;
			ret->regs.rsp = call.sp;
			ret->regs.orig_rax = (uint64_t)call.nr;
			ret->regs.rdi = call.args[0];
			ret->regs.rsi = call.args[1];
			ret->regs.rdx = call.args[2];
			ret->regs.r10 = call.args[3];
			ret->regs.r8 = call.args[4];
			ret->regs.r9 = call.args[5];
		}
		return;
	}
	ret->regs = tracee->regs;
	ret->sigmask = tracee->sigmask;
	ret->xstate = tracee->xstate_bytes ? tracee->xstate : NULL;
	ret->xstate_bytes = tracee->xstate_bytes;
	if (tracee->event == 0)
		ret->stop_how = HF_STOP_SIGNAL;
	else
		ret->stop_how = in_call ? HF_STOP_SYSCALL : HF_STOP_USER;
	if (tracee->group_stop)
		ret->state = 'T';
	else if (!in_call)
		ret->state = 'R';
	else if (!ret->state)
		ret->state = 'S';
}
