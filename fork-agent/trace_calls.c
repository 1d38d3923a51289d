/* Trace calls: every ptrace and wait call of a capture, counted.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/trace_calls.h"

#include <sys/ptrace.h>

void hf_trace_calls_count(struct hf_trace_calls *calls)
{
	if (!calls)
		return;
	if (calls->before)
		calls->before(calls->arg, calls->num);
	calls->num++;
}

long hf_ptrace(struct hf_trace_calls *calls, int request, pid_t tid,
	       void *addr, void *data)
{
	hf_trace_calls_count(calls);
	return ptrace((enum __ptrace_request)request, tid, addr, data);
}
