/* Tracee: the ptrace state of one thread of the target.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_TRACEE_H
#define HF_FORK_AGENT_TRACEE_H

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/user.h>

#include "coredump/image.h"
#include "fork-agent/trace_calls.h"
#include "util/error.h"

/* Not in glibc's <sys/ptrace.h> before 2.37; values of the kernel's ABI. */
enum {
	HF_PTRACE_O_SUSPEND_SECCOMP = 1 << 21,
	HF_PTRACE_GET_RSEQ_CONFIGURATION = 0x420f,      /* Linux 5.13 */
	HF_PTRACE_GET_SYSCALL_USER_DISPATCH = 0x4211,   /* Linux 6.4 */
	HF_PTRACE_EVENT_STOP = 128,
	HF_KERNEL_SIGSET_BYTES = 8,
	/* ptrace and wait calls from the interruption to the end for a thread
	 * that we do not borrow: interrupt, wait, two sets of registers, mask
	 * or cure, detach. */
	HF_TRACEE_CALLS_MAX = 6,
	/* What the target's threads are seized with. Never EXITKILL. */
	HF_TRACEE_OPTIONS = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE |
			    PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
			    PTRACE_O_TRACEEXEC,
};

enum hf_tracee_state {
	HF_TRACEE_LISTED,  /* not attached yet */
	HF_TRACEE_RUNNING, /* attached, no stop reported yet */
	HF_TRACEE_STOPPED, /* in a ptrace stop, at our mercy */
	HF_TRACEE_PARTIAL, /* attached, but does not stop: given up */
	HF_TRACEE_GONE,    /* dead, or detached */
};

enum hf_tracee_kind {
	HF_TRACEE_THREAD,  /* of the target */
	HF_TRACEE_NEWBORN, /* a process that the target forked meanwhile */
	HF_TRACEE_SHARER,  /* of a process in the target's memory: sharers.h */
};

struct hf_tracee {
	pid_t tid;
	struct hf_trace_calls *calls; /* borrowed */
	uint32_t num_calls; /* ptrace and wait calls for this thread */
	enum hf_tracee_state state;
	enum hf_tracee_kind kind;
	int event;         /* PTRACE_EVENT_* of the stop; 0: signal delivery */
	int held_signal;   /* the thread is about to handle it */
	bool group_stop;   /* the process was stopped by job control */
	bool in_vfork;     /* PARTIAL, and its child runs in its memory */
	bool has_sharers;  /* before the stop: has children in its memory */
	pid_t sharer;      /* the process that it is of, if it is a SHARER */
	bool is_receiver;  /* signals to the process pass through it: see
			    * remote_attach.c */
	char name[16];     /* before the stop */
	char run_state;    /* before the stop: R S D T; 0 if not known */
	bool has_registers; /* of this stop; with interrupted_call */
	struct user_regs_struct regs; /* at the stop, never changed after */
	bool has_sigmask;  /* of this stop, too; else it is of before */
	uint64_t sigmask;
	uint8_t *xstate;   /* borrowed from the set; NULL: no room */
	size_t xstate_bytes; /* 0: not captured */
	bool interrupted_call; /* restart instead of EINTR, see below */
};

/** Start values, RUNNING; name, run_state and sigmask from /proc. No ptrace. */
void hf_tracee_init(struct hf_tracee *tracee, pid_t tid,
		    enum hf_tracee_kind kind, struct hf_trace_calls *calls);

/** ptrace(2) on this thread; counted. */
long hf_tracee_ptrace(struct hf_tracee *tracee, int request, void *addr,
		      void *data);

/**
 * Read registers, XSTATE (into at most `xstate_room` bytes) and signal mask of
 * a stopped thread, and decide whether its system call has to be restarted by
 * us.
 *
 * Most calls that a ptrace stop interrupts are restarted by the kernel. Some
 * (epoll_wait, semop, sigtimedwait, io_getevents, recv with a time-out, ...)
 * return EINTR instead, which a program without signal handlers has never
 * seen. At the stop that is rax == -EINTR with orig_rax still the call's
 * number: `interrupted_call`. See hf_tracee_stop_registers for the cure.
 *
 * @return false if it died.
 */
bool hf_tracee_read_registers(struct hf_tracee *tracee, size_t xstate_room);

/** As hf_tracee_read_registers, but the signal mask only if that leaves the
 * thread with HF_TRACEE_CALLS_MAX calls until it is detached: else it remains
 * the one of hf_tracee_init. */
bool hf_tracee_read_frugally(struct hf_tracee *tracee, size_t xstate_room);

/** Read the mask of a stopped thread if that was not done. @return false if
 * it died. */
bool hf_tracee_read_sigmask(struct hf_tracee *tracee);

/** Of the signals in `set` (bit n - 1 is signal n): those that would do
 * anything to the process. While a process is traced the kernel queues even
 * signals that it ignores, and interrupts calls for them. */
uint64_t hf_tracee_effective_signals(pid_t tid, uint64_t set);

/**
 * The registers to resume with from the very stop they were read at: those of
 * the stop, or with an interrupted call that says -ERESTARTNOHAND instead of
 * -EINTR. The stop is inside the kernel's signal code, which then itself does
 * what is right: the call ends with EINTR if a handler runs, also for a signal
 * that comes at the last moment, and is restarted if none does.
 */
struct user_regs_struct
hf_tracee_stop_registers(const struct hf_tracee *tracee);

/** The registers to put the thread's user code back to from elsewhere: those
 * of the stop, or set back onto the instruction of the interrupted call. */
struct user_regs_struct
hf_tracee_resume_registers(const struct hf_tracee *tracee);

/** Let a stopped thread go, with its held signal, as if nothing had been.
 * Reads its registers first if that was not done. */
void hf_tracee_detach(struct hf_tracee *tracee);

/** Is the thread inside a restartable sequence, which the kernel would not
 * abort if we ran a system call from it? */
bool hf_tracee_in_rseq(struct hf_tracee *tracee);

/** Does the thread turn system calls into SIGSYS (as Wine does)? */
bool hf_tracee_dispatches_syscalls(struct hf_tracee *tracee);

/** Has the thread 32-bit code in front of it? */
bool hf_tracee_is_compat(const struct hf_tracee *tracee);

/** What the image says about this thread; xstate borrowed. */
void hf_tracee_describe(const struct hf_tracee *tracee, pid_t pid,
			struct hf_thread *ret);

#endif
