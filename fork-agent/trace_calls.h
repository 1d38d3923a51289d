/* Trace calls: every ptrace and wait call of a capture, counted.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_TRACE_CALLS_H
#define HF_FORK_AGENT_TRACE_CALLS_H

#include <stdint.h>
#include <sys/types.h>

/* What costs a stopped process time is calls of the kernel: they are counted,
 * and reported. The same place lets a test stop the world, or the tool,
 * between any two of them. No ptrace or wait call is made but through here. */

struct hf_trace_calls {
	uint64_t num;  /* so far */
	/** Called before each call with its number, from 0. May be NULL. */
	void (*before)(void *arg, uint64_t num);
	void *arg;
};

/** Count a call that is about to be made. `calls` may be NULL. */
void hf_trace_calls_count(struct hf_trace_calls *calls);

/** ptrace(2); counted. `request` is an enum __ptrace_request, or one that
 * glibc has no name for. */
long hf_ptrace(struct hf_trace_calls *calls, int request, pid_t tid,
	       void *addr, void *data);

#endif
