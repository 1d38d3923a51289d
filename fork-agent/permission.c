/* Why may we not trace this process, and what can be done about it?
 * SPDX-License-Identifier: MIT */
#include "fork-agent/permission.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fork-agent/proc_task.h"
#include "util/file.h"

/* The kernel's rules (kernel/ptrace.c __ptrace_may_access, ptrace_attach;
 * security/yama/yama_lsm.c; Linux 6.1), in its order:
 *
 * 1. the tracer has CAP_SYS_PTRACE over the target's user namespace, or its
 *    uid and gid equal all of the target's real, effective and saved ones;
 * 2. the target is dumpable, or the tracer has CAP_SYS_PTRACE;
 * 3. commoncap: the target's permitted capabilities are a subset of ours, or
 *    CAP_SYS_PTRACE;
 * 4. other security modules (SELinux, AppArmor), and Yama:
 *    ptrace_scope 0: nothing more; 1: only descendants, or who was named by
 *    PR_SET_PTRACER, or CAP_SYS_PTRACE; 2: CAP_SYS_PTRACE; 3: nobody;
 * 5. it has no tracer yet. */

enum { CAP_SYS_PTRACE_BIT = 19 };

static int yama_scope(void)
{
	HF_AUTO_FREE char *text = NULL;
	struct hf_error *err = hf_read_file(
		"/proc/sys/kernel/yama/ptrace_scope", &text, NULL);

	if (err) {
		hf_error_ignore(err);
		return 0;
	}
	return atoi(text);
}

/* The user namespace as a number; 0: not known. */
static uint64_t user_namespace(const char *who)
{
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%s/ns/user", who);
	return stat(path, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

static bool same_ids(const struct hf_proc_status *own,
		     const struct hf_proc_status *target)
{
	/* Real ids: those count for ptrace itself. */
	for (int i = 0; i < 3; i++)
		if (target->uid[i] != own->uid[0] ||
		    target->gid[i] != own->gid[0])
			return false;
	return true;
}

static struct hf_error *explain_yama(struct hf_error *err, int scope,
				     bool has_capability)
{
	if (scope >= 3)
		return hf_error_fix(
			hf_error_cause(err, "kernel.yama.ptrace_scope is 3: "
				       "nobody may trace, until the next "
				       "boot"),
			"boot with another kernel.yama.ptrace_scope");
	if (scope == 2 && !has_capability)
		return hf_error_fix(
			hf_error_cause(err, "kernel.yama.ptrace_scope is 2: "
				       "only processes with CAP_SYS_PTRACE "
				       "may trace"),
			"run as root: sudo heapfork ...");
	if (scope == 1 && !has_capability)
		return hf_error_fix(
			hf_error_cause(err, "kernel.yama.ptrace_scope is 1: "
				       "a process may trace only its own "
				       "descendants"),
			"run as root (sudo heapfork ...), or for the whole "
			"machine: sysctl kernel.yama.ptrace_scope=0");
	return NULL;
}

/* What a security module calls a process, without its end; "" if none does. */
static void read_label(const char *who, char *ret, size_t size)
{
	HF_AUTO_FREE char *text = NULL;
	char path[64];
	struct hf_error *err;

	snprintf(path, sizeof(path), "/proc/%s/attr/current", who);
	err = hf_read_file(path, &text, NULL);
	snprintf(ret, size, "%.*s", err ? 0 : (int)strcspn(text, "\n"),
		 err ? "" : text);
	hf_error_ignore(err);
}

/* The end of the list: nothing else is left that we could look at. */
static struct hf_error *explain_module(struct hf_error *err, pid_t pid)
{
	char who[16], own[64], target[64];

	snprintf(who, sizeof(who), "%d", pid);
	read_label("self", own, sizeof(own));
	read_label(who, target, sizeof(target));
	if (own[0] || target[0])
		err = hf_error_cause(
			err, "we have CAP_SYS_PTRACE, nobody else traces it, "
			"and neither Yama nor a seccomp filter is in the way: "
			"probably a security module (SELinux, AppArmor) "
			"forbids '%s' to trace '%s'", own[0] ? own : "?",
			target[0] ? target : "?");
	else
		err = hf_error_cause(
			err, "we have CAP_SYS_PTRACE, nobody else traces it, "
			"and neither Yama nor a seccomp filter is in the way: "
			"probably a security module (SELinux, AppArmor, "
			"lockdown) forbids it");
	return hf_error_fix(err, "look for the refusal in the kernel's log "
			    "(dmesg, or ausearch -m avc), and allow ptrace "
			    "there or run heapfork outside of that "
			    "confinement");
}

struct hf_error *hf_permission_check_tracer(pid_t pid)
{
	struct hf_proc_status status;
	struct hf_proc_stat tracer;
	struct hf_error *err = hf_proc_status_read(pid, 0, &status);

	if (err || !status.tracer)
		return err;
	err = hf_error_create(HF_ERROR_PERMISSION,
			      "cannot attach to process %d", pid);

	struct hf_error *name_err =
		hf_proc_stat_read(status.tracer, 0, &tracer);

	err = hf_error_cause(err, "process %d '%s' already traces it; a "
			     "process can have one tracer only",
			     status.tracer, name_err ? "?" : tracer.name);
	hf_error_ignore(name_err);
	return hf_error_fix(err, "end that debugger or strace first");
}

struct hf_error *hf_permission_explain(struct hf_error *err, pid_t pid)
{
	struct hf_proc_status own, target;
	struct hf_error *other;
	int scope = yama_scope();

	other = hf_permission_check_tracer(pid);
	if (other) {
		hf_error_destroy(err);
		return other;
	}
	other = hf_proc_status_read(getpid(), 0, &own);
	if (!other)
		other = hf_proc_status_read(pid, 0, &target);
	if (other) {
		hf_error_ignore(other);
		return err;
	}

	bool has_capability = own.cap_effective >> CAP_SYS_PTRACE_BIT & 1;
	uint64_t own_ns = user_namespace("self");
	char who[16];

	snprintf(who, sizeof(who), "%d", pid);

	uint64_t target_ns = user_namespace(who);

	if (has_capability && own_ns && own_ns != target_ns) {
		/* With the capability over its namespace we could see it. */
		err = hf_error_cause(
			err, target_ns ?
				     "the process lives in another user "
				     "namespace, where our CAP_SYS_PTRACE "
				     "may not count" :
				     "we may not even see the user namespace "
				     "of the process: it probably lives in "
				     "another one, where our CAP_SYS_PTRACE "
				     "does not count");
		return hf_error_fix(err, "run heapfork outside of the "
				    "container, as root of the machine");
	}
	if (!has_capability && !same_ids(&own, &target)) {
		if (own.uid[0] == 0)
			err = hf_error_cause(
				err, "the process belongs to uid %u (gid %u), "
				"and we are root without CAP_SYS_PTRACE, as "
				"in a container", target.uid[1],
				target.gid[1]);
		else
			err = hf_error_cause(
				err, "the process belongs to uid %u (gid %u), "
				"we run as uid %u (gid %u) without "
				"CAP_SYS_PTRACE", target.uid[1], target.gid[1],
				own.uid[0], own.gid[0]);
		if (own.uid[0] == 0)
			return hf_error_fix(err, "start the container with "
					    "--cap-add=SYS_PTRACE");
		return hf_error_fix(err, "run as root (sudo heapfork ...) or "
				    "as the process's own user");
	}
	if (!has_capability && (target.cap_permitted & ~own.cap_permitted)) {
		err = hf_error_cause(err, "the process has capabilities that "
				     "we have not (CapPrm %llx)",
				     (unsigned long long)target.cap_permitted);
		return hf_error_fix(err, "run as root: sudo heapfork ...");
	}
	other = explain_yama(err, scope, has_capability);
	if (other)
		return other;
	if (!has_capability) {
		err = hf_error_cause(err, "the process is not dumpable "
				     "(PR_SET_DUMPABLE, or it has changed its "
				     "user id), or a security module "
				     "(SELinux, AppArmor) forbids it");
		return hf_error_fix(err, "run as root: sudo heapfork ...");
	}
	if (own.seccomp)
		return hf_error_fix(
			hf_error_cause(err, "a seccomp filter on heapfork "
				       "itself forbids ptrace, as in a "
				       "container"),
			"start the container with --security-opt "
			"seccomp=unconfined, or run on its host");
	return explain_module(err, pid);
}
