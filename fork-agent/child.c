/* The forked child: never runs its own code, and holds nothing.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/child.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/close_range.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "fork-agent/proc_task.h"
#include "util/array.h"
#include "util/file.h"

/* Documentation/admin-guide/mm/pagemap.rst */
#define PAGEMAP_PRESENT (UINT64_C(1) << 63)
#define PAGEMAP_FILE (UINT64_C(1) << 61)      /* or shared memory */
#define PAGEMAP_EXCLUSIVE (UINT64_C(1) << 56) /* nobody else maps it */

enum {
	CHILD_OPTIONS = PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD,
	ADOPT_LIMIT_MS = 20 * 1000,
	DEATH_TICKS = 400,      /* 2 s */
	/* A large memory takes seconds to be freed; one whose pages hang in a
	 * network file system may take for ever. */
	KILL_LIMIT_MS = 60 * 1000,
	PAGE_BYTES = 4096,
	PAGEMAP_ENTRIES = 4096, /* read at a time: 16 MiB */
};

struct hf_error *hf_child_adopt(struct hf_child *child,
				const struct hf_way *way,
				struct hf_wait_clock *clock)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	uint32_t ticks = 0;
	int status;
	pid_t got;

	do {
		got = hf_wait_clock_wait(clock, child->pid, &status);
	} while (got == 0 && ++ticks < ADOPT_LIMIT_MS / HF_WAIT_TICK_MS);
	if (got == 0)
		return hf_error_create(HF_ERROR_TIMEOUT,
				       "the forked process %d does not start",
				       child->pid);
	if (got < 0 || !WIFSTOPPED(status)) {
		child->dead = true;
		return hf_error_create(HF_ERROR_TARGET_GONE,
				       "the forked process %d was killed",
				       child->pid);
	}
	if (hf_ptrace(clock->calls, PTRACE_SETOPTIONS, child->pid, NULL,
		      (void *)CHILD_OPTIONS) < 0)
		return hf_error_os(errno, "cannot set options of the forked "
				   "process %d", child->pid);
	hf_wait_clock_take(clock, child->pid);
	/* It goes nowhere any more: back to the instant of the fork. */
	if (way->laid) {
		hf_way_clear(way, clock->calls, child->pid);
		child->touched_pages = (way->start + way->num_bytes - 1) /
					       page_bytes -
				       way->start / page_bytes + 1;
	}
	return NULL;
}

/* One call in the child. Its registers need not be put back exactly: it will
 * never run. -ESRCH if it is dead or could not be made to. */
static int64_t call_in_child(struct hf_remote_call *call, long nr, uint64_t a,
			     uint64_t b, uint64_t c)
{
	const uint64_t args[6] = { a, b, c };
	enum hf_remote_stop stop;
	struct hf_error *err;
	int64_t result = -ESRCH;

	err = hf_remote_call_enter(call, nr, args);
	if (!err)
		err = hf_remote_call_finish(call, &stop, &result);
	if (!err)
		return result;
	hf_error_ignore(err);
	return -ESRCH;
}

/* For kernels and filters without close_range. */
static bool close_one_by_one(struct hf_remote_call *call, pid_t pid)
{
	HF_ARRAY(int) fds = { 0 };
	struct dirent *entry;
	char path[64];
	bool ok = true;
	DIR *dir;

	if (call_in_child(call, SYS_unshare, CLONE_FILES, 0, 0) != 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	if (!dir)
		return false;
	while ((entry = readdir(dir))) {
		struct hf_error *err;

		if (entry->d_name[0] == '.')
			continue;
		err = hf_array_append(&fds, atoi(entry->d_name));
		if (err) {
			hf_error_ignore(err);
			ok = false;
			break;
		}
	}
	closedir(dir);
	for (size_t i = 0; i < fds.num; i++)
		if (call_in_child(call, SYS_close, (uint64_t)fds.data[i], 0,
				  0) == -ESRCH)
			ok = false;
	hf_array_deinit(&fds);
	return ok;
}

static void prefer_for_oom_kill(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", pid);

	HF_AUTO_FD int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		hf_error_ignore(hf_write_all(fd, path, "1000", 4));
}

/* Borrow the child's thread. It is in the stop of its birth, or in that in
 * which hf_remote_call_end has left it. */
static struct hf_error *begin_calls(const struct hf_child *child,
				    uint64_t site, struct hf_tracee *tracee,
				    struct hf_remote_call *call,
				    struct hf_wait_clock *clock)
{
	*tracee = (struct hf_tracee){
		.tid = child->pid,
		.state = HF_TRACEE_STOPPED,
		.event = HF_PTRACE_EVENT_STOP,
		.calls = clock->calls,
	};
	if (!hf_tracee_read_registers(tracee, 0))
		return hf_error_create(HF_ERROR_TARGET_GONE,
				       "the forked process %d was killed",
				       child->pid);
	return hf_remote_call_begin(call, tracee, child->pid, site,
				    CHILD_OPTIONS, NULL, clock);
}

/* Give the thread back. A child that has died on the way may have been waited
 * for, and its pid may mean another process from then on: that is found out
 * now. Else it stands from here on, for long. */
static void end_calls(struct hf_child *child, struct hf_remote_call *call,
		      struct hf_wait_clock *clock)
{
	bool alive;

	hf_remote_call_end(call);
	alive = call->alive;
	for (uint32_t i = 0; !alive && !child->dead && i < DEATH_TICKS; i++) {
		int status;
		pid_t got = hf_wait_clock_wait(clock, child->pid, &status);

		child->dead = got < 0 || (got > 0 && !WIFSTOPPED(status));
	}
	if (alive)
		hf_wait_clock_take(clock, child->pid);
}

void hf_child_prepare(struct hf_child *child, uint64_t site,
		      bool no_close_range, struct hf_wait_clock *clock)
{
	struct hf_tracee tracee;
	struct hf_remote_call call;
	struct hf_proc_stat stat;
	struct hf_error *err;
	int64_t result = -ENOSYS;

	prefer_for_oom_kill(child->pid);
	err = begin_calls(child, site, &tracee, &call, clock);
	if (err) {
		hf_error_ignore(err);
		return;
	}
	if (!no_close_range)
		result = call_in_child(&call, SYS_close_range, 0, ~0u,
				       CLOSE_RANGE_UNSHARE);
	child->descriptors_closed =
		result == 0 ||
		(result != -ESRCH && close_one_by_one(&call, child->pid));
	end_calls(child, &call, clock);

	err = hf_proc_stat_read(child->pid, 0, &stat);
	if (!err)
		child->faults_before = stat.minor_faults +
				       child->touched_pages;
	hf_error_ignore(err);
}

bool hf_child_private_kib(const char *text, uint64_t *ret)
{
	static const char *const fields[] = { "\nPrivate_Clean:",
					      "\nPrivate_Dirty:" };
	uint64_t kib = 0;

	for (size_t i = 0; i < 2; i++) {
		const char *line = strstr(text, fields[i]);

		if (!line)
			return false;
		kib += strtoull(line + strlen(fields[i]), NULL, 10);
	}
	*ret = kib;
	return true;
}

static bool private_pages(pid_t pid, uint64_t *ret)
{
	HF_AUTO_FREE char *text = NULL;
	struct hf_error *err;
	uint64_t kib;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
	err = hf_read_file(path, &text, NULL);
	if (err) {
		hf_error_ignore(err);
		return false;
	}
	if (!hf_child_private_kib(text, &kib))
		return false;
	*ret = kib * 1024 / (uint64_t)sysconf(_SC_PAGESIZE);
	return true;
}

void hf_child_measure(const struct hf_child *child, pid_t parent,
		      struct hf_child_memory *ret)
{
	struct hf_proc_status status;
	struct hf_proc_stat stat;
	struct hf_error *err;
	uint64_t pages;

	ret->private_bytes = ret->cow_pages = UINT64_MAX;
	if (!child->pid || child->dead || !private_pages(child->pid, &pages))
		return;
	err = hf_proc_status_read(child->pid, 0, &status);
	if (!err)
		ret->private_bytes =
			pages * (uint64_t)sysconf(_SC_PAGESIZE) +
			status.page_table_bytes;
	hf_error_ignore(err);
	/* With the parent gone (or another program) every page is ours alone,
	 * and none of them was copied for it. */
	err = hf_proc_stat_read(parent, 0, &stat);
	if (err || stat.state == 'Z') {
		hf_error_ignore(err);
		return;
	}
	pages += child->dropped_cow_pages;
	/* What the child itself touched (its rseq area, when it closed its
	 * descriptors) was copied for it, not for the target. */
	ret->cow_pages = pages > child->faults_before ?
				 pages - child->faults_before : 0;
}

/* Anonymous pages that the child alone maps: what a drop really frees. */
static uint64_t count_own(int pagemap_fd, struct hf_range range,
			  uint64_t *present_ret)
{
	uint64_t entries[PAGEMAP_ENTRIES], num_own = 0;
	uint64_t at = range.start / PAGE_BYTES, end = range.end / PAGE_BYTES;

	while (at < end) {
		uint64_t num = end - at < PAGEMAP_ENTRIES ? end - at :
							    PAGEMAP_ENTRIES;
		ssize_t got = pread(pagemap_fd, entries, num * 8,
				    (off_t)(at * 8));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 8)
			break;
		num = (uint64_t)got / 8;
		for (uint64_t i = 0; i < num; i++) {
			*present_ret += (entries[i] & PAGEMAP_PRESENT) != 0;
			num_own += (entries[i] & (PAGEMAP_PRESENT |
						  PAGEMAP_EXCLUSIVE |
						  PAGEMAP_FILE)) ==
				   (PAGEMAP_PRESENT | PAGEMAP_EXCLUSIVE);
		}
		at += num;
	}
	return num_own;
}

uint64_t hf_child_drop(struct hf_child *child, uint64_t site,
		       const struct hf_range *ranges, size_t num_ranges,
		       struct hf_wait_clock *clock)
{
	struct hf_tracee tracee;
	struct hf_remote_call call;
	struct hf_error *err;
	uint64_t dropped = 0;
	char path[64];

	if (!child->pid || child->dead)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/pagemap", child->pid);

	HF_AUTO_FD int pagemap = open(path, O_RDONLY | O_CLOEXEC);

	err = begin_calls(child, site, &tracee, &call, clock);
	if (err) {
		hf_error_ignore(err);
		return 0;
	}
	for (size_t i = 0; i < num_ranges; i++) {
		uint64_t len = ranges[i].end - ranges[i].start, present = 0;
		uint64_t own = count_own(pagemap, ranges[i], &present);
		int64_t result = call_in_child(&call, SYS_madvise,
					       ranges[i].start, len,
					       MADV_DONTNEED);

		if (result == -ESRCH)
			break;
		/* A mapping in the range may refuse (huge pages of another
		 * size, locked memory): its pages stay. */
		if (result < 0)
			continue;
		dropped += present * PAGE_BYTES;
		child->dropped_cow_pages += own;
	}
	end_calls(child, &call, clock);
	return dropped;
}

/* Let it end itself: for a tracer that may trace it, but not send it signals
 * (another user's process, without CAP_KILL). */
static struct hf_error *exit_in_child(struct hf_child *child, uint64_t site,
				      struct hf_wait_clock *clock)
{
	struct hf_tracee tracee;
	struct hf_remote_call call;
	struct hf_error *err =
		begin_calls(child, site, &tracee, &call, clock);

	if (err)
		return err;
	call_in_child(&call, SYS_exit_group, 0, 0, 0);
	end_calls(child, &call, clock);
	return child->dead ? NULL :
			     hf_error_create(HF_ERROR_PERMISSION,
					     "it does not end itself");
}

static struct hf_error *not_killed(const struct hf_child *child,
				   struct hf_error *err)
{
	return hf_error_prefix(err, "the frozen child %d cannot be killed yet "
			       "(the kernel does that when heapfork ends)",
			       child->pid);
}

struct hf_error *hf_child_kill(struct hf_child *child, uint64_t site,
			       struct hf_wait_clock *clock)
{
	struct hf_error *err;
	uint32_t ticks = 0;
	int status = 0;
	pid_t got;

	if (!child->pid || child->dead)
		return NULL;
	if (kill(child->pid, SIGKILL) < 0 && errno == EPERM) {
		err = exit_in_child(child, site, clock);
		return err ? not_killed(child, err) : NULL;
	}
	do {
		got = hf_wait_clock_wait(clock, child->pid, &status);
		if (got > 0 && WIFSTOPPED(status))
			hf_wait_clock_take(clock, child->pid);
	} while ((got == 0 && ++ticks < KILL_LIMIT_MS / HF_WAIT_TICK_MS) ||
		 (got > 0 && WIFSTOPPED(status)));
	if (got == 0)
		return not_killed(child, hf_error_create(
			HF_ERROR_TIMEOUT, "it does not end within %d s",
			KILL_LIMIT_MS / 1000));
	child->dead = true;
	return NULL;
}
