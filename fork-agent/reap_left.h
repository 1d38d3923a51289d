/* Reap what captures have left behind whose tool was killed.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_REAP_LEFT_H
#define HF_FORK_AGENT_REAP_LEFT_H

#include <stdbool.h>
#include <sys/types.h>

#include "fork-agent/reap.h"
#include "util/error.h"

/* A tool that is killed between the fork and its end leaves one zombie to its
 * target: the child, which nobody but its parent can wait for. It costs a pid
 * and no memory. journal.h says how it is known again. */

struct hf_reap_left_options {
	pid_t pid;        /* only what was left to this process; 0: to any */
	bool unrecorded;  /* also zombies that no record names: each dead child
			   * of `pid` without an exit signal that has not
			   * called exec. The program itself may have made it,
			   * and may still want its exit status: only on the
			   * explicit wish of the user; needs a pid */
	struct hf_reap_limit limit; /* all zero: none */
	const char *journal_dir; /* NULL: the default, see journal.h */
	/* Told of each zombie, from another thread of ours while this one
	 * waits; err: why it is left, or NULL. May be NULL. */
	void (*tell)(void *arg, pid_t target, pid_t child,
		     const struct hf_error *err);
	void *arg;
};

struct hf_reap_left_result {
	uint32_t num_records;  /* of dead tools that were looked at */
	uint32_t num_reaped;   /* zombies that are gone now */
	uint32_t num_left;     /* zombies that are still there */
	uint32_t num_young;    /* records that are kept for the minute in which
				* a thread may still fork that was about to */
	uint64_t pause_ns;     /* how long one thread was stopped, in all */
};

/**
 * Look through the records; for each whose tool is dead, let the target wait
 * for its dead child (one thread of it is stopped for a moment), and remove
 * the record. Records of targets that are gone are removed as well. Captures
 * that are going on are not disturbed.
 *
 * Starts a thread for its ptrace calls, and waits for it.
 *
 * @param ret filled in also on failure.
 * @return NULL: nothing is left that was looked for (which may have been
 * nothing at all); TARGET_GONE, USAGE, PERMISSION or others for `pid`; if a
 * zombie is left, why the last one is.
 */
struct hf_error *hf_reap_left(const struct hf_reap_left_options *options,
			      struct hf_reap_left_result *ret) HF_MUST_CHECK;

/**
 * How many zombies of `pid` hf_reap_left could be meant for: dead children
 * without an exit signal that have not called exec. Reads /proc, stops nobody.
 */
struct hf_error *hf_reap_left_count(pid_t pid, uint32_t *ret) HF_MUST_CHECK;

#endif
