/* Why may we not trace this process, and what can be done about it?
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_PERMISSION_H
#define HF_FORK_AGENT_PERMISSION_H

#include <sys/types.h>

#include "fork-agent/place.h"
#include "fork-agent/proc_task.h"
#include "util/error.h"

/**
 * Look for the rule that made the kernel refuse, for this user and this
 * kernel: another tracer (one thread of it is enough), another user,
 * capabilities, dumpable, Yama, seccomp on ourselves.
 *
 * @param err the refusal; its cause and fix are set. Taken and returned.
 */
struct hf_error *hf_permission_explain(struct hf_error *err, pid_t pid)
	HF_MUST_CHECK;

/** PERMISSION if another process traces `pid`, with that one's name. */
struct hf_error *hf_permission_check_tracer(pid_t pid) HF_MUST_CHECK;

/** The same for each thread of the process; ourselves we do not mind. */
struct hf_error *hf_permission_check_tracers(pid_t pid) HF_MUST_CHECK;

/**
 * PERMISSION if a seccomp filter on ourselves forbids ptrace, or would kill us
 * for it: tried on a child process, and only if there is a filter.
 */
struct hf_error *hf_permission_check_filter(pid_t pid) HF_MUST_CHECK;

/**
 * PERMISSION if we may not even trace what we start ourselves: a filter on us,
 * or Yama. Tried on a child process, which takes a millisecond.
 */
struct hf_error *hf_permission_check_own_child(void) HF_MUST_CHECK;

/**
 * PERMISSION or UNSUPPORTED if the process is under seccomp, which we may not
 * suspend for a fork in it: tried on a child process, and only if it is.
 */
struct hf_error *hf_permission_check_suspend(pid_t pid) HF_MUST_CHECK;

/** How to gain the right to suspend it; `own` is our own status. */
const char *hf_permission_gain_suspend(const struct hf_place *place,
				       const struct hf_proc_status *own);

/** PERMISSION if we may trace the process, but not end it: its child, which has
 * the same user, has to be killed by us. */
struct hf_error *hf_permission_check_end(pid_t pid) HF_MUST_CHECK;

/** kernel.yama.ptrace_scope; -1: there is no Yama. */
int hf_permission_yama_scope(void);

/** What a security module calls a process ("self", or a pid), without its end;
 * "" if none does. */
void hf_permission_label(const char *who, char *ret, size_t size);

/**
 * Do the plain permissions of the files in /proc/PID keep us out? CAP_SYS_PTRACE
 * does not lift them: who is neither root nor the owner needs
 * CAP_DAC_OVERRIDE, too.
 */
bool hf_permission_is_closed(pid_t pid, uint64_t own_cap_effective);

/** Is it certainly not dumpable? @param uid its effective one. */
bool hf_permission_is_undumpable(pid_t pid, uid_t uid);

#endif
