/* Blocking waits for tracees that end when a limit is over.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_WAIT_CLOCK_H
#define HF_FORK_AGENT_WAIT_CLOCK_H

#include <signal.h>
#include <sys/types.h>
#include <time.h>

#include "fork-agent/trace_calls.h"
#include "util/error.h"

/**
 * A thread that waits for tracees must sleep: polling would take the CPU from
 * the very threads it waits for. But a tracee may never come. So a timer
 * sends this thread, and no other, a signal every few milliseconds; its empty
 * handler is enough to end a blocked wait4 with EINTR.
 *
 * The signal is a real-time signal for which the process has no handler; its
 * disposition is put back by hf_wait_clock_deinit. Dispositions belong to the
 * whole process, so a second clock waits until the first is gone.
 *
 * Waits use __WNOTHREAD: only tracees and children of the calling thread are
 * looked at, never those of the rest of the process. A wait for one tid costs
 * the same however many there are; for any, the kernel looks through all.
 *
 * Stops are looked at, and not taken (WNOWAIT). A thread that is stopped on its
 * way to handle a signal has no other record of it than the code that a wait
 * reports: the kernel has it out of the queue, and forgets it if that code was
 * taken and then the tracer is killed. As long as it was not taken, the thread of
 * a dead tracer takes the signal itself, as it was. So a wait for a thread that
 * still stands reports the same stop again; once it was resumed, no more. (A wait
 * for any takes all other stops, and must not be repeated while a thread stands
 * with its signal.)
 * (Linux 6.12: wait_task_stopped, ptrace_stop, ptrace_signal, exit_ptrace.)
 */
struct hf_wait_clock {
	pid_t own_child;          /* a tracee that is also a child of this
				   * process: its end is for the caller's
				   * own waitpid; or 0 */
	struct hf_trace_calls *calls; /* borrowed; may be NULL */
	timer_t timer;
	int signal;               /* 0: not initialized */
	struct sigaction saved;
	sigset_t saved_mask;
};

enum { HF_WAIT_TICK_MS = 5 };

/** For the calling thread. The ticks begin with hf_wait_clock_start.
 * @param own_child see above.
 * @param calls counts the waits; see above. */
struct hf_error *hf_wait_clock_init(struct hf_wait_clock *clock,
				    pid_t own_child,
				    struct hf_trace_calls *calls)
	HF_MUST_CHECK;
/**
 * As hf_wait_clock_init; and a tick also ends a PTRACE_SEIZE with EINTR.
 *
 * While a thread runs exec, PTRACE_SEIZE waits for it, and exec waits for the
 * ends of all other threads: of which one may be in a PTRACE_EVENT_EXIT stop,
 * and wait for whoever is in PTRACE_SEIZE. The kernel would go on waiting after
 * a signal.
 */
struct hf_error *hf_wait_clock_init_breaking(struct hf_wait_clock *clock,
					     pid_t own_child,
					     struct hf_trace_calls *calls)
	HF_MUST_CHECK;
/** Safe on an all-zero clock. */
void hf_wait_clock_deinit(struct hf_wait_clock *clock);

void hf_wait_clock_start(struct hf_wait_clock *clock);
void hf_wait_clock_stop(struct hf_wait_clock *clock);

/**
 * Wait until `tid`, or any tracee (-1), stands or has ended, until the next tick.
 *
 * @return the tid; 0 after a tick; -1 if there is nothing to wait for, or
 * `tid` is own_child and has ended.
 */
pid_t hf_wait_clock_wait(struct hf_wait_clock *clock, pid_t tid, int *status);

/** Take the stop of `tid`, if it stands, so that it is not reported again: to
 * us, or to a wait of the calling program for any child of its own. For one that
 * stands for long and has no signal to lose. */
void hf_wait_clock_take(struct hf_wait_clock *clock, pid_t tid);

/** As hf_wait_clock_wait, but never blocks (0: nothing has happened). The
 * clock need not run, and may be deinitialized. */
pid_t hf_wait_clock_poll(struct hf_wait_clock *clock, pid_t tid, int *status);

#endif
