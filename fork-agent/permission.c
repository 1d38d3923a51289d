/* Why may we not trace this process, and what can be done about it?
 * SPDX-License-Identifier: MIT */
#include "fork-agent/permission.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fork-agent/lab.h"
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

enum {
	CAP_DAC_OVERRIDE_BIT = 1,
	CAP_SYS_PTRACE_BIT = 19,
	CAP_SYS_ADMIN_BIT = 21,
};

int hf_permission_yama_scope(void)
{
	HF_AUTO_FREE char *text = NULL;
	struct hf_error *err = hf_read_file(
		"/proc/sys/kernel/yama/ptrace_scope", &text, NULL);

	if (err) {
		hf_error_ignore(err);
		return -1;
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
				     bool has_capability,
				     const struct hf_place *place)
{
	if (scope >= 3)
		return hf_error_fix(
			hf_error_cause(err, "kernel.yama.ptrace_scope is 3: "
				       "nobody may trace, until the next "
				       "boot"),
			"boot the machine with another "
			"kernel.yama.ptrace_scope");
	if (scope == 2 && !has_capability)
		return hf_error_fix(
			hf_error_cause(err, "kernel.yama.ptrace_scope is 2: "
				       "only processes with CAP_SYS_PTRACE "
				       "may trace"),
			"%s", hf_place_gain_ptrace(place));
	if (scope != 1 || has_capability)
		return NULL;
	err = hf_error_cause(err, "kernel.yama.ptrace_scope is 1: a process "
			     "may trace only its own descendants");
	if (place->container != HF_CONTAINER_NONE)
		return hf_error_fix(err, "%s", hf_place_gain_ptrace(place));
	return hf_error_fix(err, "%s, or for the whole machine: sysctl "
			    "kernel.yama.ptrace_scope=0",
			    hf_place_gain_ptrace(place));
}

void hf_permission_label(const char *who, char *ret, size_t size)
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
	hf_permission_label("self", own, sizeof(own));
	hf_permission_label(who, target, sizeof(target));
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

static struct hf_error *explain_tracer(pid_t pid, pid_t tid, pid_t tracer_pid)
{
	struct hf_proc_stat tracer;
	struct hf_error *name_err = hf_proc_stat_read(tracer_pid, 0, &tracer);
	const char *name = name_err ? "?" : tracer.name;
	struct hf_error *err;

	err = hf_error_create(HF_ERROR_PERMISSION,
			      "cannot attach to process %d", pid);
	if (tid == pid)
		err = hf_error_cause(err, "process %d '%s' already traces it; "
				     "a process can have one tracer only",
				     tracer_pid, name);
	else
		err = hf_error_cause(err, "process %d '%s' already traces "
				     "thread %d of it; a thread can have one "
				     "tracer only", tracer_pid, name, tid);
	hf_error_ignore(name_err);
	return hf_error_fix(err, "end that debugger or strace first");
}

struct hf_error *hf_permission_check_tracer(pid_t pid)
{
	struct hf_proc_status status;
	struct hf_error *err = hf_proc_status_read(pid, 0, &status);

	if (err || !status.tracer)
		return err;
	return explain_tracer(pid, pid, status.tracer);
}

static struct hf_error *check_thread(void *arg, pid_t tid)
{
	const pid_t *pid = arg;
	struct hf_proc_status status;
	struct hf_error *err = hf_proc_status_read(tid, 0, &status);

	if (err) {
		hf_error_ignore(err); /* it has ended */
		return NULL;
	}
	/* Some of them may be attached to ourselves already. */
	if (!status.tracer || status.tracer == (pid_t)syscall(SYS_gettid))
		return NULL;
	return explain_tracer(*pid, tid, status.tracer);
}

struct hf_error *hf_permission_check_tracers(pid_t pid)
{
	return hf_proc_for_each_thread(pid, check_thread, &pid);
}

/* Of all that the kernel looks at, the owner of the files in /proc/PID shows
 * whether it is dumpable: root's, if not (proc(5)). A program of root shows
 * nothing. */
bool hf_permission_is_undumpable(pid_t pid, uid_t uid)
{
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	return uid != 0 && stat(path, &st) == 0 && st.st_uid != uid;
}

bool hf_permission_is_closed(pid_t pid, uint64_t own_cap_effective)
{
	const uint64_t lifted = UINT64_C(1) << CAP_DAC_OVERRIDE_BIT;
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	return !(own_cap_effective & lifted) && stat(path, &st) == 0 &&
	       st.st_uid != geteuid();
}

static struct hf_error *explain_closed(struct hf_error *err,
				       const struct hf_place *place)
{
	err = hf_error_cause(err, "we have CAP_SYS_PTRACE, but may not open "
			     "the files of another user in /proc: that needs "
			     "CAP_DAC_OVERRIDE");
	return hf_error_fix(err, place->container == HF_CONTAINER_NONE ?
				    "give heapfork CAP_DAC_OVERRIDE as "
				    "well, or run it as root" :
				    "give the container DAC_OVERRIDE as "
				    "well, or run heapfork as its root");
}

static struct hf_error *explain_user(struct hf_error *err,
				     const struct hf_proc_status *own,
				     const struct hf_proc_status *target,
				     const struct hf_place *place)
{
	if (own->uid[0] == 0)
		err = hf_error_cause(
			err, "the process belongs to uid %u (gid %u), and we "
			"are root without CAP_SYS_PTRACE%s", target->uid[1],
			target->gid[1],
			place->container == HF_CONTAINER_NONE ?
				"" : ", as usual in a container");
	else
		err = hf_error_cause(
			err, "the process belongs to uid %u (gid %u), we run "
			"as uid %u (gid %u) without CAP_SYS_PTRACE",
			target->uid[1], target->gid[1], own->uid[0],
			own->gid[0]);
	if (own->uid[0] == 0 || place->container != HF_CONTAINER_NONE)
		return hf_error_fix(err, "%s", hf_place_gain_ptrace(place));
	return hf_error_fix(err, "run as root (sudo heapfork ...) or as the "
			    "process's own user");
}

static struct hf_error *explain_user_namespace(struct hf_error *err,
					       bool target_seen,
					       const struct hf_place *place)
{
	err = hf_error_cause(
		err, target_seen ?
			     "the process lives in another user namespace, "
			     "where our CAP_SYS_PTRACE may not count" :
			     "we may not even see the user namespace of the "
			     "process: it probably lives in another one, "
			     "where our CAP_SYS_PTRACE does not count");
	return hf_error_fix(err, "%s", hf_place_go_outside(place));
}

struct hf_error *hf_permission_check_end(pid_t pid)
{
	struct hf_error *err;

	if (kill(pid, 0) == 0 || errno != EPERM)
		return NULL;
	err = hf_error_create(HF_ERROR_PERMISSION,
			      "cannot take a snapshot of process %d", pid);
	err = hf_error_cause(err, "we may trace it, but not send signals to "
			     "another user: the forked child could not be "
			     "ended");
	return hf_error_fix(err, "give heapfork CAP_KILL as well, or run it "
			    "as the process's own user or root");
}

static struct hf_error *blame_filter(struct hf_error *err,
				     const struct hf_lab *lab,
				     const struct hf_place *place)
{
	err = hf_error_cause(
		err, "a seccomp filter on heapfork itself forbids ptrace, "
		"even of a process of its own (%s)",
		lab->signal == SIGSYS ? "it would kill us" :
					strerror(lab->ptrace_error));
	return hf_error_fix(err, "%s", hf_place_escape_seccomp(place));
}

struct hf_error *hf_permission_check_filter(pid_t pid)
{
	struct hf_proc_status own;
	struct hf_place place;
	struct hf_lab lab;
	struct hf_error *err = hf_proc_status_read(getpid(), 0, &own);

	if (!err && !own.seccomp)
		return NULL;
	if (!err)
		err = hf_lab_run(HF_LAB_PTRACE, &lab);
	if (err) {
		hf_error_ignore(err); /* the attempt itself will tell */
		return NULL;
	}
	if (lab.signal != SIGSYS && lab.ptrace_error <= 0)
		return NULL;
	/* Yama forbids it for a child of our own only from 2 on. */
	if (lab.signal != SIGSYS && hf_permission_yama_scope() >= 2)
		return NULL;
	hf_place_find(&place);
	err = hf_error_create(HF_ERROR_PERMISSION,
			      "cannot attach to process %d", pid);
	return blame_filter(err, &lab, &place);
}

const char *hf_permission_gain_suspend(const struct hf_place *place,
				       const struct hf_proc_status *own)
{
	bool can = (own->cap_effective >> CAP_SYS_ADMIN_BIT & 1) &&
		   !place->own_user_namespace;

	return own->seccomp && can ? hf_place_escape_seccomp(place) :
				     hf_place_go_outside(place);
}

/* The kernel asks the tracer's capability in the machine's user namespace, and
 * that it has no filter itself (kernel/seccomp.c, PTRACE_O_SUSPEND_SECCOMP). */
static struct hf_error *explain_suspend(struct hf_error *err,
					const struct hf_proc_status *own)
{
	bool can = own->cap_effective >> CAP_SYS_ADMIN_BIT & 1;
	struct hf_place place;

	hf_place_find(&place);
	err = hf_error_cause(
		err, "suspending it for the fork needs CAP_SYS_ADMIN of the "
		"machine, and a tracer without a filter of its own; we have "
		"%s%s%s; without, the kernel could kill the process",
		can ? "CAP_SYS_ADMIN" : "no CAP_SYS_ADMIN",
		can && place.own_user_namespace ?
			" (of our user namespace only)" : "",
		own->seccomp ? ", and a filter" : "");
	return hf_error_fix(err, "%s",
			    hf_permission_gain_suspend(&place, own));
}

struct hf_error *hf_permission_check_suspend(pid_t pid)
{
	struct hf_proc_status own, target;
	struct hf_lab lab;
	struct hf_error *err = hf_proc_status_read(pid, 0, &target);

	if (!err && target.seccomp == 0)
		return NULL;
	if (!err)
		err = hf_proc_status_read(getpid(), 0, &own);
	if (!err)
		err = hf_lab_run(HF_LAB_PTRACE, &lab);
	if (err) {
		hf_error_ignore(err); /* the attempt itself will tell */
		return NULL;
	}
	if (lab.suspend_error <= 0)
		return NULL;
	err = hf_error_create(lab.suspend_error == EPERM ?
				      HF_ERROR_PERMISSION :
				      HF_ERROR_UNSUPPORTED,
			      "process %d is under seccomp (%s)", pid,
			      target.seccomp == 1 ? "strict" : "filter");
	if (lab.suspend_error == EPERM)
		return explain_suspend(err, &own);
	return hf_error_cause(err, "this kernel cannot suspend seccomp "
			      "(CONFIG_CHECKPOINT_RESTORE is off), and its "
			      "filter could kill the process for the fork");
}

struct hf_error *hf_permission_explain(struct hf_error *err, pid_t pid)
{
	struct hf_proc_status own, target;
	struct hf_place place;
	struct hf_error *other;
	char who[16];

	other = hf_permission_check_tracers(pid);
	if (!other && hf_permission_yama_scope() <= 0)
		other = hf_permission_check_filter(pid);
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
	hf_place_find(&place);
	snprintf(who, sizeof(who), "%d", pid);

	bool has_capability = own.cap_effective >> CAP_SYS_PTRACE_BIT & 1;
	uint64_t own_ns = user_namespace("self");
	uint64_t target_ns = user_namespace(who);

	/* With the capability over its namespace we could see it. */
	if (has_capability && own_ns && own_ns != target_ns)
		return explain_user_namespace(err, target_ns != 0, &place);
	if (!has_capability && !same_ids(&own, &target))
		return explain_user(err, &own, &target, &place);
	if (!has_capability && (target.cap_permitted & ~own.cap_permitted)) {
		err = hf_error_cause(err, "the process has capabilities that "
				     "we have not (CapPrm %llx)",
				     (unsigned long long)target.cap_permitted);
		return hf_error_fix(err, "%s", hf_place_gain_ptrace(&place));
	}
	/* A process that is not dumpable is out of reach before Yama is asked:
	 * what cures that does not cure this. */
	if (!has_capability &&
	    hf_permission_is_undumpable(pid, target.uid[1])) {
		err = hf_error_cause(err, "the process is not dumpable "
				     "(PR_SET_DUMPABLE, it has changed its "
				     "user id, or its program file may not be "
				     "read)");
		return hf_error_fix(err, "%s", hf_place_gain_ptrace(&place));
	}
	other = explain_yama(err, hf_permission_yama_scope(), has_capability,
			     &place);
	if (other)
		return other;
	if (!has_capability) {
		err = hf_error_cause(err, "the process is not dumpable "
				     "(PR_SET_DUMPABLE, or it has changed its "
				     "user id), or a security module "
				     "(SELinux, AppArmor) forbids it");
		return hf_error_fix(err, "%s", hf_place_gain_ptrace(&place));
	}
	if (hf_permission_is_closed(pid, own.cap_effective))
		return explain_closed(err, &place);
	return explain_module(err, pid);
}

struct hf_error *hf_permission_check_own_child(void)
{
	struct hf_proc_status own = { 0 };
	struct hf_place place;
	struct hf_error *err, *explained;
	struct hf_lab lab;
	bool has_capability;

	err = hf_lab_run(HF_LAB_PTRACE, &lab);
	if (err) {
		hf_error_ignore(err); /* the attempt itself will tell */
		return NULL;
	}
	if (lab.signal != SIGSYS && lab.ptrace_error <= 0)
		return NULL;
	hf_error_ignore(hf_proc_status_read(getpid(), 0, &own));
	has_capability = own.cap_effective >> CAP_SYS_PTRACE_BIT & 1;
	hf_place_find(&place);
	err = hf_error_create(HF_ERROR_PERMISSION,
			      "no snapshot could be taken of what is started "
			      "here");
	if (lab.signal != SIGSYS && hf_permission_yama_scope() >= 2) {
		explained = explain_yama(err, hf_permission_yama_scope(),
					 has_capability, &place);
		if (explained)
			return explained;
	}
	if (lab.signal == SIGSYS || own.seccomp)
		return blame_filter(err, &lab, &place);
	return hf_error_cause(err, "ptrace of a process of its own fails "
			      "(%s): a security module, perhaps",
			      strerror(lab.ptrace_error));
}
