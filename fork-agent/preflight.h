/* What can be checked before anything is stopped.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_PREFLIGHT_H
#define HF_FORK_AGENT_PREFLIGHT_H

#include <sys/types.h>

#include "util/error.h"

/** The process that is meant, so that a reused pid is noticed. */
struct hf_target {
	pid_t pid;            /* thread group leader */
	uint64_t start_time;  /* clock ticks after boot */
	pid_t live_tid;       /* a thread with memory: the leader, unless it
			       * has ended before the others */
	bool is_own_child;    /* of this very process */
};

/**
 * @return NULL; USAGE (ourselves, a thread's id, nonsense), TARGET_GONE (no
 * such process, zombie), UNSUPPORTED (kernel thread, 32-bit), PERMISSION; with
 * cause and fix where there is one. Nothing was stopped or attached.
 */
struct hf_error *hf_preflight_check(pid_t pid, struct hf_target *ret)
	HF_MUST_CHECK;

/** Is it still the same process? @return NULL or TARGET_GONE. */
struct hf_error *hf_preflight_recheck(const struct hf_target *target)
	HF_MUST_CHECK;

#endif
