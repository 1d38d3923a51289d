/* Have the target reap the dead child, so that no zombie stays.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_REAP_H
#define HF_FORK_AGENT_REAP_H

#include <signal.h>

#include "fork-agent/child.h"

/** When to give up. All zero: when every thread was tried for some time. */
struct hf_reap_limit {
	uint64_t deadline_ns;    /* monotonic; 0: none */
	const volatile sig_atomic_t *cancelled; /* borrowed; may be NULL */
};

bool hf_reap_limit_is_over(const struct hf_reap_limit *limit);

/**
 * A child without an exit signal is a zombie until its parent waits for it
 * with __WALL, which no program does. So one thread of the target is stopped
 * for a moment and made to call wait4(child, NULL, WNOHANG | __WALL, NULL).
 *
 * Fine without that: the target is gone (init reaps), or has waited itself.
 *
 * @param way prepared anew here; its state tells afterwards whether the thread
 * would have found home alone.
 * @param limit looked at between one thread and the next.
 * @param pause_ns_ret how long the thread was stopped.
 * @return NULL if no zombie is left; else why one is.
 */
struct hf_error *hf_reap_child(pid_t target, const struct hf_child *child,
			       struct hf_way *way,
			       struct hf_wait_clock *clock,
			       const struct hf_reap_limit *limit,
			       uint64_t *pause_ns_ret) HF_MUST_CHECK;

#endif
