/* Where in the target the instructions are that a borrowed thread runs.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_SYSCALL_SITE_H
#define HF_FORK_AGENT_SYSCALL_SITE_H

#include <sys/types.h>

#include "coredump/proc_maps.h"

enum { HF_SITE_BYTES = 16 };

/** Some bytes of the target that are known to be these. */
struct hf_site {
	uint64_t addr;       /* 0: not found */
	uint8_t bytes[HF_SITE_BYTES];
	uint32_t num_bytes;
};

struct hf_syscall_site {
	struct hf_site call;     /* syscall */
	struct hf_site call_ret; /* syscall; ret */
	struct hf_site restorer; /* mov $15, %eax; syscall: rt_sigreturn, as
				  * libc gives it to each sigaction() */
};

/**
 * Search the mappings that `maps` calls executable: the vdso, which also
 * static programs have, for a syscall instruction; then libc and the loader,
 * then all others for what is still missing. Stops nobody, so the answer is
 * stale once the target calls exec or unloads code: check the bytes again.
 *
 * What is not there has address 0.
 *
 * @param mem_fd the open /proc/PID/mem.
 */
void hf_syscall_site_search(int mem_fd, const struct hf_proc_maps *maps,
			    struct hf_syscall_site *ret);

#endif
