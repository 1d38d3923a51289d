/* Headroom: how much memory a process may still take before somebody is killed.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_HEADROOM_H
#define HF_FORK_AGENT_HEADROOM_H

#include <limits.h>
#include <sys/types.h>

#include "util/error.h"

/* Memory is limited by each cgroup that a process is in, from its own up to
 * the root (v2: memory.max and memory.high; v1: memory.limit_in_bytes), and by
 * the machine. The one with least to spare counts. */

struct hf_headroom;

/** The place that has least to spare. */
struct hf_headroom_state {
	uint64_t limit_bytes; /* of the place */
	uint64_t free_bytes;  /* of it: not used, or the kernel can have it back
			       * at once (clean pages of files) */
	uint64_t keep_bytes;  /* that should stay free */
	int64_t spare_bytes;  /* free - keep */
	char where[PATH_MAX]; /* folder of the cgroup; "": the machine */
};

/**
 * @param pid the process whose cgroups count.
 * @param proc where /proc is; NULL: there.
 * @return NULL, TARGET_GONE or NO_MEMORY. Cgroups that cannot be seen are left
 * out: then the machine's memory alone counts.
 */
struct hf_error *hf_headroom_open(pid_t pid, const char *proc,
				  struct hf_headroom **ret) HF_MUST_CHECK;
void hf_headroom_close(struct hf_headroom *headroom);

/**
 * Look now; a few small files are read.
 *
 * @param keep_bytes that should stay free, in each place; 0: the default: 2 %
 * of the limit, and no less than 64 MiB, but no more than an eighth of it.
 * @param need_bytes how much is about to be taken: the free bytes are counted
 * more closely (which costs more) when they may not be enough for it.
 */
struct hf_error *hf_headroom_read(const struct hf_headroom *headroom,
				  uint64_t keep_bytes, uint64_t need_bytes,
				  struct hf_headroom_state *ret) HF_MUST_CHECK;

HF_DEFINE_AUTO(struct hf_headroom *, hf_headroom, hf_headroom_close)

#endif
