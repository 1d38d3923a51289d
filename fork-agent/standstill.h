/* Standstill: wait until every thread of the target has stopped.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_STANDSTILL_H
#define HF_FORK_AGENT_STANDSTILL_H

#include "fork-agent/remote_attach.h"

/** How long threads may be waited for. */
struct hf_stop_limit {
	uint64_t end_ns;       /* monotonic: not longer, whatever happens */
	uint64_t max_stop_ns;  /* nor so long after the first thread has
				* stopped: from then on the target suffers */
	const volatile sig_atomic_t *cancelled; /* polled; may be NULL */
};

enum hf_standstill {
	HF_STANDSTILL_REACHED,
	HF_STANDSTILL_TOO_LATE,   /* the limit is over, threads still run */
	HF_STANDSTILL_EXECED,     /* the target called exec meanwhile */
	HF_STANDSTILL_CROWDED,    /* more newborns than there is room for */
	HF_STANDSTILL_GONE,       /* no thread of it is left */
	HF_STANDSTILL_CANCELLED,
};

/**
 * Wait until each thread has stopped, died, or is in uninterruptible sleep
 * (vfork, disk) for longer than a grace period while others have stopped: such
 * threads are given up as HF_TRACEE_PARTIAL. Then look whether there is a
 * thread that was missed when the others were attached.
 *
 * Allocates nothing, unless a thread was missed.
 */
enum hf_standstill hf_attachment_wait(struct hf_attachment *attachment,
				      const struct hf_stop_limit *limit);

/**
 * After hf_attachment_wait: wait for what was attached by
 * hf_attachment_seize_sharer since. One that is in uninterruptible sleep, or has
 * not stopped when the time for all tries is over, is given up as
 * HF_TRACEE_PARTIAL.
 */
enum hf_standstill
hf_attachment_wait_for_sharers(struct hf_attachment *attachment,
			       const struct hf_stop_limit *limit);

/**
 * If every thread that stopped has a signal in hand, or is inside clone, let
 * one after the other take its signal or end its call until one stands with
 * empty hands: only such a thread can be made to run a system call. The
 * interruption stops it again before the first instruction of its own.
 *
 * @return as hf_attachment_wait; REACHED also if there is no such thread.
 */
enum hf_standstill
hf_attachment_empty_hands(struct hf_attachment *attachment,
			  const struct hf_stop_limit *limit);

/** What a standstill other than REACHED means; names a thread. Call it when
 * nobody waits for us: it allocates, and reads /proc.
 *
 * @param timeout_ms how long was waited in all, for the message.
 * @return TIMEOUT, TARGET_GONE or INTERRUPTED. */
struct hf_error *
hf_attachment_explain(const struct hf_attachment *attachment,
		      enum hf_standstill standstill, uint32_t timeout_ms)
	HF_MUST_CHECK;

#endif
