/* What can be checked before anything is stopped.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/preflight.h"

#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fork-agent/permission.h"
#include "fork-agent/place.h"
#include "fork-agent/proc_task.h"

enum { PF_KTHREAD = 0x00200000 };

struct live_search {
	pid_t pid;
	pid_t found;
};

static struct hf_error *find_live(void *arg, pid_t tid)
{
	struct live_search *search = arg;
	struct hf_proc_stat stat;
	struct hf_error *err =
		hf_proc_stat_read(search->pid, tid, &stat);

	if (err) {
		hf_error_ignore(err);
		return NULL;
	}
	if (stat.state == 'Z' || stat.state == 'X')
		return NULL;
	search->found = tid;
	return &hf_stop;
}

static struct hf_error *check_rights(pid_t pid, pid_t live_tid)
{
	struct hf_error *err = hf_permission_check_tracer(live_tid);
	char path[64];

	if (err)
		return err;
	/* Opening this file asks the kernel the same question as attaching
	 * does (PTRACE_MODE_ATTACH), and changes nothing. */
	snprintf(path, sizeof(path), "/proc/%d/mem", live_tid);

	/* For writing: a borrowed thread's way home is written below its
	 * stack. */
	HF_AUTO_FD int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd >= 0) {
		err = hf_permission_check_end(live_tid);
		return err ? err : hf_permission_check_filter(pid);
	}
	if (errno == ENOENT || errno == ESRCH)
		return hf_error_create(HF_ERROR_TARGET_GONE,
				       "no process with pid %d", pid);
	if (errno != EACCES && errno != EPERM)
		return hf_error_os(errno, "cannot open '%s'", path);
	return hf_permission_explain(
		hf_error_create(HF_ERROR_PERMISSION,
				"cannot attach to process %d", pid), pid);
}

/* The class of the program file. If it cannot be read, the code segment of
 * the stopped threads decides later. */
static struct hf_error *check_class(pid_t live_tid, pid_t pid)
{
	unsigned char ident[EI_NIDENT];
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", live_tid);

	HF_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, ident, sizeof(ident)) != sizeof(ident) ||
	    ident[EI_CLASS] != ELFCLASS32)
		return NULL;
	return hf_error_cause(
		hf_error_create(HF_ERROR_UNSUPPORTED,
				"process %d is a 32-bit program", pid),
		"heapfork understands 64-bit x86 processes only");
}

/* All that we know of a pid stands in /proc. If that is of another pid
 * namespace, it would be about one process, and ptrace about another. */
static struct hf_error *check_proc(void)
{
	char text[16] = "";

	if (readlink("/proc/self", text, sizeof(text) - 1) > 0 &&
	    atoi(text) == getpid())
		return NULL;
	return hf_error_fix(
		hf_error_cause(
			hf_error_create(HF_ERROR_UNSUPPORTED,
					"/proc does not fit this place"),
			"%s", *text || !access("/proc/version", F_OK) ?
			"it is that of another pid namespace: its pids are "
			"not those that heapfork can trace" :
			"it is not mounted"),
		"mount that of heapfork's own namespace: mount -t proc proc "
		"/proc (unshare: --mount-proc)");
}

/* The process is there, but /proc does not show it (option hidepid). */
static struct hf_error *explain_hidden(pid_t pid)
{
	struct hf_place place;

	hf_place_find(&place);
	return hf_error_fix(
		hf_error_cause(
			hf_error_create(HF_ERROR_PERMISSION,
					"process %d is hidden", pid),
			"it belongs to another user, whose processes /proc "
			"does not show (mount option hidepid)"),
		"%s", hf_place_gain_ptrace(&place));
}

struct hf_error *hf_preflight_check(pid_t pid, struct hf_target *ret)
{
	struct hf_target target = { .pid = pid, .live_tid = pid };
	struct hf_proc_status status;
	struct hf_proc_stat stat;
	struct hf_error *err;

	if (pid <= 0)
		return hf_error_create(HF_ERROR_USAGE,
				       "%d is not the pid of a process", pid);
	err = check_proc();
	if (!err)
		err = hf_proc_status_read(pid, 0, &status);
	if (!err)
		err = hf_proc_stat_read(pid, 0, &stat);
	if (err && (err->code == HF_ERROR_PERMISSION ||
		    (err->code == HF_ERROR_TARGET_GONE &&
		     kill(pid, 0) < 0 && errno == EPERM))) {
		hf_error_ignore(err);
		return explain_hidden(pid);
	}
	if (err && err->code == HF_ERROR_TARGET_GONE)
		return hf_error_fix(
			err, "see 'ps -e'; inside a container use the pid "
			"that is valid where heapfork runs");
	if (err)
		return err;
	if (status.tgid == getpid())
		return hf_error_fix(
			hf_error_cause(
				hf_error_create(HF_ERROR_USAGE,
						"process %d is heapfork itself",
						pid),
				"it cannot stop itself and go on working"),
			"name another process: 'ps -e' lists them");
	if (status.tgid != pid)
		return hf_error_fix(
			hf_error_create(HF_ERROR_USAGE,
					"%d is a thread of process %d", pid,
					status.tgid),
			"name the process: -p %d", status.tgid);
	if (stat.flags & PF_KTHREAD)
		return hf_error_cause(
			hf_error_create(HF_ERROR_UNSUPPORTED,
					"%d '%s' is a kernel thread", pid,
					stat.name),
			"it has no memory of its own");
	target.start_time = stat.start_time;
	target.is_own_child = stat.parent == getpid();

	if (stat.state == 'Z' || stat.state == 'X') {
		struct live_search search = { .pid = pid };

		err = hf_proc_for_each_thread(pid, find_live, &search);
		hf_error_ignore(err);
		if (!search.found)
			return hf_error_cause(
				hf_error_create(HF_ERROR_TARGET_GONE,
						"process %d has ended", pid),
				"it is a zombie: its parent %d has not "
				"waited for it", stat.parent);
		target.live_tid = search.found;
	}
	err = check_rights(pid, target.live_tid);
	if (!err)
		err = check_class(target.live_tid, pid);
	if (err)
		return err;
	*ret = target;
	return NULL;
}

struct hf_error *hf_preflight_recheck(const struct hf_target *target)
{
	struct hf_proc_stat stat;
	struct hf_error *err = hf_proc_stat_read(target->pid, 0, &stat);

	if (err)
		return err;
	if (stat.start_time == target->start_time)
		return NULL;
	return hf_error_create(HF_ERROR_TARGET_GONE,
			       "process %d has ended, and its pid belongs to "
			       "another one now", target->pid);
}
