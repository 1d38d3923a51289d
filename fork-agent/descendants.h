/* Descendants: a process and those that come from it.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_DESCENDANTS_H
#define HF_FORK_AGENT_DESCENDANTS_H

#include <sys/types.h>

#include "util/error.h"

struct hf_descendant {
	pid_t pid;
	char name[16];       /* comm */
	uint64_t start_time; /* as in hf_proc_stat */
};

/**
 * The process itself, then its children, their children, and so on, as they are
 * now. Not among them: the calling process, zombies, and the frozen children
 * of captures (by whatever heapfork that runs or ran here).
 *
 * @param ret the caller frees; at least one, `pid`.
 * @return NULL, or TARGET_GONE if there is no `pid`.
 */
struct hf_error *hf_descendants_list(pid_t pid, struct hf_descendant **ret,
				     size_t *num_ret) HF_MUST_CHECK;

#endif
