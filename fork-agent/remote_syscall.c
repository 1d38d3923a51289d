/* Run one system call in a stopped thread of another process.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/remote_syscall.h"

#include <inttypes.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "fork-agent/proc_task.h"

/* Kernel behaviour that this relies on (Linux 4.8 and later):
 *
 * - Registers set at PTRACE_EVENT_STOP are what the thread continues with; with
 *   orig_rax = -1 no restart is tried.
 * - PTRACE_SYSCALL stops at the entry, before seccomp looks, and at the exit,
 *   also if the call fails: the thread never runs on into the bytes that
 *   happen to follow the instruction.
 * - PTRACE_INTERRUPT + PTRACE_CONT from there ends in PTRACE_EVENT_STOP, which
 *   is inside the kernel's signal code: when the thread is resumed from it with
 *   rax = -ERESTART... and its orig_rax, the kernel restarts the call, with
 *   the remaining time where it has kept that. */

enum {
	/* A thread that was resumed enters its call at once, unless something
	 * else (a cgroup's freezer) holds it: then we let it go. */
	ENTER_LIMIT_MS = 2 * 1000,
	/* An injected call that takes longer is interrupted. Not the limit
	 * of a fork: that cannot be interrupted once it copies. */
	CALL_LIMIT_MS = 20 * 1000,
	STOPS_MAX = 64,    /* unexpected stops that are passed over */
	SYSCALL_STOP = SIGTRAP | 0x80,
};

static uint64_t signal_bit(int signal_number)
{
	return 1ull << (signal_number - 1);
}

/* Everything but the signals that an instruction raises itself: if such a
 * signal is blocked, the kernel removes the program's handler for it. */
static uint64_t blocked_during_call(void)
{
	return ~(signal_bit(SIGSEGV) | signal_bit(SIGBUS) |
		 signal_bit(SIGILL) | signal_bit(SIGFPE) |
		 signal_bit(SIGTRAP) | signal_bit(SIGSYS));
}

static bool set_mask(struct hf_tracee *tracee, uint64_t mask)
{
	return hf_tracee_ptrace(tracee, PTRACE_SETSIGMASK,
				(void *)HF_KERNEL_SIGSET_BYTES, &mask) == 0;
}

static bool has_way(const struct hf_remote_call *call)
{
	return call->way && call->way->laid;
}

static struct hf_error *gone(struct hf_remote_call *call)
{
	call->alive = false;
	call->tracee->state = HF_TRACEE_GONE;
	return hf_error_create(HF_ERROR_TARGET_GONE,
			       "thread %d ended while it was stopped",
			       call->tracee->tid);
}

/* Without the right to suspend it, a filter must not see our call. Looked at
 * beforehand (permission.h): this is a filter that is newer, or of one thread
 * only. */
static struct hf_error *check_seccomp(const struct hf_remote_call *call,
				      int suspend_errno)
{
	pid_t tid = call->tracee->tid;
	struct hf_proc_status status;
	struct hf_error *err = hf_proc_status_read(tid, 0, &status);

	if (err)
		return err;
	if (status.seccomp == 0)
		return NULL;
	err = hf_error_create(suspend_errno == EPERM ? HF_ERROR_PERMISSION :
						       HF_ERROR_UNSUPPORTED,
			      "process %d is under seccomp (%s)", call->pid,
			      status.seccomp == 1 ? "strict" : "filter");
	if (suspend_errno == EPERM)
		return hf_error_fix(
			hf_error_cause(err,
				       "suspending it for the fork needs "
				       "CAP_SYS_ADMIN, and a tracer that is "
				       "not under seccomp itself; without, "
				       "the kernel could kill the process"),
			"heapfork doctor %d tells how to gain that right",
			call->pid);
	return hf_error_cause(err, "this kernel cannot suspend seccomp "
			      "(CONFIG_CHECKPOINT_RESTORE is off)");
}

/* Each line leaves the thread in a state from which it finds back alone. */
static struct hf_error *take_over(struct hf_remote_call *call, uint64_t site)
{
	struct hf_tracee *tracee = call->tracee;
	struct hf_way *way = call->way;
	struct user_regs_struct regs;

	if (way)
		hf_way_lay(way, tracee);
	call->site = site;
	if (!site)
		call->site = way->laid ? way->site.call_ret.addr :
					 way->site.call.addr;
	if (has_way(call)) {
		regs = hf_way_registers(way, tracee);
		if (!set_mask(tracee, tracee->sigmask) ||
		    hf_tracee_ptrace(tracee, PTRACE_SETREGS, NULL, &regs) < 0)
			return gone(call);
	}
	call->blocked = blocked_during_call();
	if (!set_mask(tracee, call->blocked))
		return gone(call);
	call->begun = true;
	return NULL;
}

struct hf_error *hf_remote_call_begin(struct hf_remote_call *call,
				      struct hf_tracee *tracee, pid_t pid,
				      uint64_t site, long options,
				      struct hf_way *way,
				      struct hf_wait_clock *clock)
{
	memset(call, 0, sizeof(*call));
	call->tracee = tracee;
	call->pid = pid;
	call->clock = clock;
	call->way = way;
	call->alive = true;
	call->options = options | HF_PTRACE_O_SUSPEND_SECCOMP;
	if (hf_tracee_ptrace(tracee, PTRACE_SETOPTIONS, NULL,
			     (void *)call->options) < 0) {
		int suspend_errno = errno;

		if (suspend_errno == ESRCH)
			return gone(call);
		call->options = options;

		struct hf_error *err = check_seccomp(call, suspend_errno);

		if (err)
			return err;
		if (hf_tracee_ptrace(tracee, PTRACE_SETOPTIONS, NULL,
				     (void *)options) < 0)
			return gone(call);
	}
	return take_over(call, site);
}

void hf_remote_call_forgo_way(struct hf_remote_call *call, uint64_t frame)
{
	call->frame = frame;
	call->blocked = ~0ull;
	set_mask(call->tracee, call->blocked);
}

/* Is the signal that stopped the thread a consequence of our call? Then it is
 * dropped. A page of memory that went bad is nobody's fault. */
static bool is_own_fault(struct hf_remote_call *call, int signal_number)
{
	siginfo_t info;

	if (!(signal_bit(signal_number) & ~blocked_during_call()) ||
	    hf_tracee_ptrace(call->tracee, PTRACE_GETSIGINFO, NULL, &info) < 0)
		return false;
	return info.si_code > 0 && !(signal_number == SIGBUS &&
				     info.si_code == BUS_MCEERR_AO);
}

/* Any other belongs to the target. The thread is resumed with it, and as it is
 * blocked now, the kernel itself puts it back into the queue with all that came
 * with it. There is no moment at which it could be lost. SIGSTOP cannot be
 * blocked: then the process counts as stopped from here on, and the thread goes
 * on nevertheless, until it is let go. */
static void keep_signal(struct hf_remote_call *call, int signal_number)
{
	call->blocked |= signal_bit(signal_number);
	set_mask(call->tracee, call->blocked);
}

/* Resume with `request` until the next stop that is not incidental. */
static struct hf_error *run(struct hf_remote_call *call, int request,
			    uint32_t limit_ms, int *status_ret)
{
	pid_t tid = call->tracee->tid;
	uint32_t ticks = 0;
	uint64_t num_stops = 0;
	long kept_signal = 0;
	int status;

	for (;;) {
		if (num_stops++ > STOPS_MAX)
			return hf_error_create(
				HF_ERROR_OS,
				"thread %d keeps stopping for other reasons",
				tid);
		if (hf_tracee_ptrace(call->tracee, request, NULL,
				     (void *)kept_signal) < 0)
			return gone(call);
		kept_signal = 0;
		do {
			pid_t got = hf_wait_clock_wait(call->clock, tid,
						       &status);

			if (got < 0 || (got > 0 && !WIFSTOPPED(status)))
				return gone(call);
			if (got > 0)
				break;
			/* The end of a leader is not reported as long as its
			 * other threads have not been waited for. */
			if (hf_proc_is_dead(tid))
				return gone(call);
			if (++ticks == limit_ms / HF_WAIT_TICK_MS)
				hf_tracee_ptrace(call->tracee, PTRACE_INTERRUPT,
						 NULL, NULL);
		} while (true);

		int event = status >> 16, signal_number = WSTOPSIG(status);

		if (event == HF_PTRACE_EVENT_STOP && request != PTRACE_CONT) {
			/* An interruption left over, or job control. */
			if (ticks >= limit_ms / HF_WAIT_TICK_MS)
				return hf_error_create(
					HF_ERROR_TIMEOUT,
					"thread %d does not run, although it "
					"was resumed", tid);
			continue;
		}
		if (event == 0 && signal_number != SYSCALL_STOP) {
			if (is_own_fault(call, signal_number))
				return hf_error_create(
					HF_ERROR_OS,
					"signal %d when a system call was run "
					"in thread %d", signal_number, tid);
			keep_signal(call, signal_number);
			kept_signal = signal_number;
			continue;
		}
		*status_ret = status;
		return NULL;
	}
}

struct hf_error *hf_remote_call_enter(struct hf_remote_call *call, long nr,
				      const uint64_t args[6])
{
	struct user_regs_struct regs = call->tracee->regs;
	struct hf_error *err;
	int status;

	if (has_way(call))
		regs = hf_way_registers(call->way, call->tracee);
	if (call->frame)
		regs.rbp = call->frame;
	regs.rip = call->site;
	regs.rax = (uint64_t)nr;
	regs.orig_rax = ~0ull;
	regs.rdi = args[0];
	regs.rsi = args[1];
	regs.rdx = args[2];
	regs.r10 = args[3];
	regs.r8 = args[4];
	regs.r9 = args[5];
	if (hf_tracee_ptrace(call->tracee, PTRACE_SETREGS, NULL, &regs) < 0)
		return gone(call);
	err = run(call, PTRACE_SYSCALL, ENTER_LIMIT_MS, &status);
	if (err)
		return err;
	if (hf_tracee_ptrace(call->tracee, PTRACE_GETREGS, NULL, &regs) < 0)
		return gone(call);
	if (status >> 16 == 0 && (int64_t)regs.orig_rax == nr)
		return NULL;

	int64_t other = (int64_t)regs.orig_rax;

	regs.orig_rax = ~0ull; /* whatever it is: not this time */
	hf_tracee_ptrace(call->tracee, PTRACE_SETREGS, NULL, &regs);
	return hf_error_create(HF_ERROR_OS,
			       "thread %d entered system call %" PRId64
			       " instead of %ld", call->tracee->tid, other,
			       nr);
}

struct hf_error *hf_remote_call_finish(struct hf_remote_call *call,
				       enum hf_remote_stop *stop_ret,
				       int64_t *result_ret)
{
	struct user_regs_struct regs;
	struct hf_error *err;
	int status;

	err = run(call, PTRACE_SYSCALL, CALL_LIMIT_MS, &status);
	if (err)
		return err;
	if (status >> 16 == PTRACE_EVENT_CLONE) {
		unsigned long message = 0;

		if (hf_tracee_ptrace(call->tracee, PTRACE_GETEVENTMSG, NULL,
				     &message) < 0)
			return gone(call);
		*stop_ret = HF_REMOTE_CLONED;
		*result_ret = (int64_t)message;
		return NULL;
	}
	if (hf_tracee_ptrace(call->tracee, PTRACE_GETREGS, NULL, &regs) < 0)
		return gone(call);
	*stop_ret = HF_REMOTE_RETURNED;
	*result_ret = (int64_t)regs.rax;
	return NULL;
}

struct hf_error *hf_remote_call_park(struct hf_remote_call *call,
				     int64_t *rax_ret)
{
	struct user_regs_struct regs;
	struct hf_error *err;
	int status;

	hf_tracee_ptrace(call->tracee, PTRACE_INTERRUPT, NULL, NULL);
	do {
		err = run(call, PTRACE_CONT, CALL_LIMIT_MS, &status);
		if (err)
			return err;
	} while (status >> 16 != HF_PTRACE_EVENT_STOP);
	if (hf_tracee_ptrace(call->tracee, PTRACE_GETREGS, NULL, &regs) < 0)
		return gone(call);
	*rax_ret = (int64_t)regs.rax;
	call->begun = false;
	return NULL;
}

/* The mask first, while the registers still lead home. */
static void give_back(struct hf_remote_call *call)
{
	struct hf_tracee *tracee = call->tracee;
	/* Parked, it is where the kernel itself restarts the call. */
	struct user_regs_struct regs =
		call->begun ? hf_tracee_resume_registers(tracee) :
			      hf_tracee_stop_registers(tracee);

	set_mask(tracee, tracee->sigmask);
	/* One that does not stop any more (it should never happen) needs the
	 * way when it comes back. */
	if (hf_tracee_ptrace(tracee, PTRACE_SETREGS, NULL, &regs) == 0 &&
	    call->way)
		hf_way_clear(call->way, tracee->calls, tracee->tid);
}

void hf_remote_call_end(struct hf_remote_call *call)
{
	int64_t ignored;

	if (!call->tracee)
		return;
	if (call->begun && call->alive)
		hf_error_ignore(hf_remote_call_park(call, &ignored));
	if (call->alive)
		give_back(call);
	call->tracee = NULL;
}
