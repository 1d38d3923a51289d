/* Safe point: whether a stop comes at a good moment for the heap's readers.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_SAFE_POINT_H
#define HF_FORK_AGENT_SAFE_POINT_H

#include "coredump/image.h"

/* The capture knows threads, and nothing of allocators. Who knows one gives it
 * these operations. A stop that is not safe is released at once and tried
 * again after a back-off; the last one is taken as it is, unless it has to be
 * exact. Of an allocator that is not known a stop is as good as any other:
 * the first one is taken, even if it has to be exact. */

/** What a stop has met. All zero: a safe point. */
struct hf_safe_point_state {
	uint32_t num_inside;  /* threads whose program counter is in the
			       * allocator's code */
	uint32_t num_locked;  /* arenas whose lock is held */
	pid_t tid_inside;     /* one of the threads inside; 0: none, or not
			       * known */
	bool unknown;         /* nothing is known of the allocator: neither
			       * safe nor unsafe */
};

struct hf_safe_point {
	void *arg;
	/**
	 * The target runs, and is not attached yet; it is about to be
	 * stopped. Find what `look` will need. Called before each stop: what
	 * was found may be stale (exec, dlopen). An error ends the capture.
	 */
	struct hf_error *(*prepare)(void *arg, pid_t pid);
	/**
	 * All threads stand, their registers were read; `threads` are valid
	 * but for stack and tls. In the pause: no allocation, no stdio, a
	 * bounded number of system calls, no ptrace.
	 */
	void (*look)(void *arg, pid_t pid, const struct hf_thread *threads,
		     size_t num_threads, struct hf_safe_point_state *ret);
};

static inline bool hf_safe_point_is_safe(
	const struct hf_safe_point_state *state)
{
	return !state->unknown && !state->num_inside && !state->num_locked;
}

/** Does it pay to let go, and stop again? */
static inline bool hf_safe_point_is_unsafe(
	const struct hf_safe_point_state *state)
{
	return !state->unknown && (state->num_inside || state->num_locked);
}

#endif
