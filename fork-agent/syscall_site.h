/* Where in the target a `syscall` instruction can be found.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_SYSCALL_SITE_H
#define HF_FORK_AGENT_SYSCALL_SITE_H

#include <sys/types.h>

#include "fork-agent/tracee.h"

/**
 * Find the bytes 0f 05 in memory that `tid`, a thread that is not a zombie,
 * may execute: first in the vdso, which also static programs have, then in
 * any other mapping. Reads /proc only and stops nobody, so the answer is stale
 * once the target calls exec: check with hf_syscall_site_check.
 *
 * @return NULL, NOT_FOUND, TARGET_GONE, PERMISSION or OS.
 */
struct hf_error *hf_syscall_site_find(pid_t tid, uint64_t *addr_ret)
	HF_MUST_CHECK;

/** Are the bytes (still) there? The tracee is stopped. */
bool hf_syscall_site_check(struct hf_tracee *tracee, uint64_t addr);

#endif
