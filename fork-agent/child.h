/* The forked child: never runs its own code, and holds nothing.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_CHILD_H
#define HF_FORK_AGENT_CHILD_H

#include "coredump/image.h"
#include "fork-agent/remote_syscall.h"

struct hf_child {
	pid_t pid;             /* in our pid namespace; 0: none */
	pid_t pid_in_target;   /* in the target's */
	bool dead;             /* and waited for by us: the pid may be
				* another's */
	bool descriptors_closed;
	uint64_t touched_pages; /* copied because we wrote to them */
	uint64_t faults_before; /* page faults of its own, see below */
	uint64_t dropped_cow_pages; /* dropped, and nobody else had them */
};

/**
 * Wait until the fresh child is in its first stop; make it die with us. Until
 * then it ends by itself if it is left alone.
 *
 * @param way that of its fork: cleared in the child's memory, too.
 */
struct hf_error *hf_child_adopt(struct hf_child *child,
				const struct hf_way *way,
				struct hf_wait_clock *clock) HF_MUST_CHECK;

/**
 * Outside the pause: give the child a descriptor table of its own and close
 * all of it, and make it the first choice of the OOM killer.
 *
 * Until then it shares the target's table: what the target closes is closed,
 * but what is still open when the target exits stays open with the child.
 * Where close_range is missing (before Linux 5.11) or refused, the table is
 * copied and each descriptor closed. If that fails as well,
 * `descriptors_closed` stays false: not an error.
 */
void hf_child_prepare(struct hf_child *child, uint64_t site,
		      bool no_close_range, struct hf_wait_clock *clock);

/** Of a text of smaps_rollup: what it alone maps. @return false: not told. */
bool hf_child_private_kib(const char *text, uint64_t *ret);

/** UINT64_MAX: not known. */
struct hf_child_memory {
	/* Anonymous memory that it alone maps, and its page tables: what it
	 * costs. */
	uint64_t private_bytes;
	/* Pages that the target had to copy since the fork because they were
	 * shared: of the child's anonymous pages those that it alone maps. A
	 * page that the target has unmapped meanwhile counts, too. */
	uint64_t cow_pages;
};

/** Walks its page tables: some ms a GiB. */
void hf_child_measure(const struct hf_child *child, pid_t parent,
		      struct hf_child_memory *ret);

/**
 * Make the child give back pages (MADV_DONTNEED), which must be private
 * anonymous memory that nobody reads from it any more. The target's next write
 * to such a page copies nothing. What cannot be dropped stays: no error.
 *
 * @return bytes that were there and no longer are.
 */
uint64_t hf_child_drop(struct hf_child *child, uint64_t site,
		       const struct hf_range *ranges, size_t num_ranges,
		       struct hf_wait_clock *clock);

/**
 * Kill, and wait for its end. The zombie that the target sees is another matter:
 * reap.h. Who may not send it signals has it call exit_group at `site`.
 *
 * @return TIMEOUT, PERMISSION, ...: it lives yet, and ends with this thread
 * (PTRACE_O_EXITKILL). Never waits for longer than a minute.
 */
struct hf_error *hf_child_kill(struct hf_child *child, uint64_t site,
			       struct hf_wait_clock *clock) HF_MUST_CHECK;

#endif
