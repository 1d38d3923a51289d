/* Run one system call in a stopped thread of another process.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_REMOTE_SYSCALL_H
#define HF_FORK_AGENT_REMOTE_SYSCALL_H

#include "fork-agent/wait_clock.h"
#include "fork-agent/way_home.h"

/**
 * A borrowed thread. Between hf_remote_call_begin and _end its registers and
 * its signal mask are ours:
 *
 *	begin   seccomp suspended, way home laid, signals blocked
 *	enter   the thread is at the entry of the call, which was verified
 *	finish  the call is done (or reports a ptrace event on its way)
 *	park    the thread is back in the stop from which the kernel itself
 *	        restarts the call that we interrupted
 *	end     registers and mask as they were
 *
 * enter and finish may be repeated. Arguments are numbers only.
 *
 * If we are killed in between, the thread goes home by itself, from whichever
 * instruction of these it is at: see way_home.h. What makes that so:
 *
 * - Before the first change of a register the signal mask is set to what it
 *   is: in a call with a mask for its own time (sigsuspend, ppoll, ...) the
 *   kernel would otherwise let signals in at our registers that are only
 *   welcome during that call.
 * - Then the registers lead home before signals are blocked, and lead home
 *   still when they are unblocked at the end: rt_sigreturn sets the mask.
 * - The way is cleared when the thread has its own registers again.
 */
struct hf_remote_call {
	struct hf_tracee *tracee;     /* borrowed; registers are its own */
	pid_t pid;                    /* the thread's process */
	struct hf_wait_clock *clock;  /* borrowed, running */
	uint64_t site;                /* address of a syscall instruction */
	struct hf_way *way;           /* borrowed; NULL: no way home, for a
				       * child that dies with us */
	long options;                 /* ptrace options of the tracee */
	uint64_t blocked;             /* signals, while it is ours */
	bool begun;
	uint64_t frame;               /* rbp during calls; 0: as it is */
	bool alive;                   /* the thread has not died */
};

enum hf_remote_stop {
	HF_REMOTE_RETURNED, /* result is the call's, or -errno */
	HF_REMOTE_CLONED,   /* PTRACE_EVENT_CLONE: result is the new tid */
};

/**
 * Take over a thread at PTRACE_EVENT_STOP whose registers were read.
 *
 * @param site 0: where `way` has one.
 * @param way prepared; as far as it can be laid for this thread, the calls are
 * made with a way home. Its `child` is then the stack pointer for a clone. NULL:
 * without.
 * Fails with PERMISSION or UNSUPPORTED if a seccomp filter is on and cannot be
 * suspended: trying could kill the target. Nothing was changed then.
 */
struct hf_error *hf_remote_call_begin(struct hf_remote_call *call,
				      struct hf_tracee *tracee, pid_t pid,
				      uint64_t site, long options,
				      struct hf_way *way,
				      struct hf_wait_clock *clock)
	HF_MUST_CHECK;

/** For a call without a way home: block the signals of faults, too, until the
 * end, and let rbp be `frame` meanwhile (of which `leave` makes the stack
 * pointer). */
void hf_remote_call_forgo_way(struct hf_remote_call *call, uint64_t frame);

struct hf_error *hf_remote_call_enter(struct hf_remote_call *call, long nr,
				      const uint64_t args[6]) HF_MUST_CHECK;

struct hf_error *hf_remote_call_finish(struct hf_remote_call *call,
				       enum hf_remote_stop *stop_ret,
				       int64_t *result_ret) HF_MUST_CHECK;

/** @param rax_ret the call's result as the thread itself sees it. */
struct hf_error *hf_remote_call_park(struct hf_remote_call *call,
				     int64_t *rax_ret) HF_MUST_CHECK;

/** Give the thread back. Parks it if that was not done. The tracee is then
 * as it was before _begin: stopped, or gone. */
void hf_remote_call_end(struct hf_remote_call *call);

#endif
