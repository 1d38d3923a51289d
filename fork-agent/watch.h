/* Watch: is there memory for what the frozen child costs its target?
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_WATCH_H
#define HF_FORK_AGENT_WATCH_H

#include <sys/types.h>

#include "util/error.h"

/* As long as the child lives, each page that the target writes is copied, and
 * the copy counts for the target: for its cgroups, and for the machine. A
 * snapshot is not worth a process that is killed for lack of memory: when too
 * little is left, the child goes. */

struct hf_watch;

/**
 * @param target the process that is forked.
 * @param keep_bytes that shall stay free; 0: the default, see headroom.h.
 * @param proc where /proc is; NULL: there.
 */
struct hf_error *hf_watch_create(pid_t target, uint64_t keep_bytes,
				 const char *proc, struct hf_watch **ret)
	HF_MUST_CHECK;
void hf_watch_destroy(struct hf_watch *watch);

/** Before the fork: is there room for page tables of a second process?
 * @return NULL or NO_SPACE, with the figures, and what to do. */
struct hf_error *hf_watch_check(const struct hf_watch *watch) HF_MUST_CHECK;

/** The fork has happened now. */
void hf_watch_begin(struct hf_watch *watch);

/**
 * Look again.
 *
 * @param copied_bytes that the target has copied, as far as it is known.
 * @param next_ns_ret after how long to look the next time.
 * @return NULL, or NO_SPACE: the child must go at once.
 */
struct hf_error *hf_watch_look(const struct hf_watch *watch,
			       uint64_t copied_bytes, uint64_t *next_ns_ret)
	HF_MUST_CHECK;

HF_DEFINE_AUTO(struct hf_watch *, hf_watch, hf_watch_destroy)

#endif
