/* Exit hold: a process kept at its very end, with its memory.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_EXIT_HOLD_H
#define HF_FORK_AGENT_EXIT_HOLD_H

#include "fork-agent/capture.h"

/**
 * A thread of ours traces the threads of a process for as long as it lives
 * (PTRACE_O_TRACEEXIT), and lets each go on at once from whatever stop, but the
 * last: when the process ends, by exit, a return from main or a signal, its
 * threads stand at their ends, and its memory is still there.
 *
 * What a tracer changes for the process is undone at each stop:
 *
 * - A signal is passed on with its origin. One that the program ignores would
 *   have been thrown away; now it is queued, and interrupts a call, of those
 *   that ptrace ends with EINTR, too: the call is begun again. Where that
 *   would not do, the leader is not traced: see exit_hold_threads.c. At the end
 *   it is then HF_STOP_PARTIAL, without registers but fs_base, if known.
 * - A stop by job control stays one (PTRACE_LISTEN).
 * - A thread that ends by itself, or for an exec, is let go.
 *
 * If we end or die, the kernel detaches all without a stop. Two things stay:
 * nobody else can trace the process, and a set-user-id program that it becomes
 * by exec runs without its privilege.
 */
struct hf_exit_hold;

/** @return NULL, TARGET_GONE, PERMISSION, OS. */
struct hf_error *hf_exit_hold_create(pid_t pid, struct hf_exit_hold **ret)
	HF_MUST_CHECK;

/** Readable when the process stands at its end, or is gone. Borrowed. */
int hf_exit_hold_fd(const struct hf_exit_hold *hold);

/** Is there nothing to wait for any more: it is held, or gone? */
bool hf_exit_hold_is_over(struct hf_exit_hold *hold);

/** Does the process stand at its end? */
bool hf_exit_hold_is_held(struct hf_exit_hold *hold);

/** Valid while it is held; borrowed. Leader first, if it was still there. */
const struct hf_thread *hf_exit_hold_threads(const struct hf_exit_hold *hold,
					     size_t *num_ret);

/** A thread that stands, for /proc: a leader that has ended has no memory. */
pid_t hf_exit_hold_tid(const struct hf_exit_hold *hold);

/** As hf_frozen_report, of what is known when it is held. */
const struct hf_capture_report *
hf_exit_hold_report(const struct hf_exit_hold *hold);

/** Let it go to its end. @return TARGET_GONE if it was killed meanwhile. */
struct hf_error *hf_exit_hold_release(struct hf_exit_hold *hold) HF_MUST_CHECK;

/**
 * A process that is held, for the functions of capture.h: as one that was
 * captured in HF_CAPTURE_STOP.
 *
 * @param hold borrowed; lives longer than the frozen.
 */
struct hf_error *hf_capture_at_exit(struct hf_exit_hold *hold, pid_t pid,
				    struct hf_frozen **ret) HF_MUST_CHECK;

/** Detaches; one that is held goes to its end. */
void hf_exit_hold_destroy(struct hf_exit_hold *hold);

HF_DEFINE_AUTO(struct hf_exit_hold *, hf_exit_hold, hf_exit_hold_destroy)

#endif
