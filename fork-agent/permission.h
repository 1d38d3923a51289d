/* Why may we not trace this process, and what can be done about it?
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_PERMISSION_H
#define HF_FORK_AGENT_PERMISSION_H

#include <sys/types.h>

#include "util/error.h"

/**
 * Look for the rule that made the kernel refuse, for this user and this
 * kernel: another tracer, another user, capabilities, dumpable, Yama, seccomp
 * on ourselves.
 *
 * @param err the refusal; its cause and fix are set. Taken and returned.
 */
struct hf_error *hf_permission_explain(struct hf_error *err, pid_t pid)
	HF_MUST_CHECK;

/** PERMISSION if another process traces `pid`, with that one's name. */
struct hf_error *hf_permission_check_tracer(pid_t pid) HF_MUST_CHECK;

#endif
