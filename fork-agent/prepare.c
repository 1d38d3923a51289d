/* Prepare: put a running process's memory into huge pages before its pause.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/prepare.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#include "coredump/proc_maps.h"
#include "coredump/resident.h"
#include "fork-agent/headroom.h"
#include "fork-agent/preflight.h"
#include "util/file.h"

/* Linux 6.1; headers of older kernels lack it. */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* Documentation/admin-guide/mm/pagemap.rst */
#define PAGEMAP_PRESENT (UINT64_C(1) << 63)
#define PAGEMAP_SWAPPED (UINT64_C(1) << 62)
#define PAGEMAP_FILE (UINT64_C(1) << 61) /* of a file, or shared memory */
#define PAGEMAP_WATCHED (UINT64_C(1) << 57) /* userfaultfd */
#define PAGEMAP_EXCLUSIVE (UINT64_C(1) << 56) /* mapped once */

enum {
	PAGE_BYTES = 4096,
	BLOCK_BYTES = 2 * 1024 * 1024,
	PAGES_PER_BLOCK = BLOCK_BYTES / PAGE_BYTES,
	TRIES = 2,          /* pages may be busy for a moment */
	MAX_NO_MEMORY = 4,  /* in a row: there is no huge page left */
	LOOK_EVERY = 16,    /* blocks, at how much memory is left */
	NAP_NS = 20 * 1000 * 1000,
	DEFAULT_RATE = 1 << 30,
};

struct prepare {
	struct hf_prepare_options options;
	struct hf_prepare_report *report;
	int pidfd, pagemap_fd;
	struct hf_resident *resident;
	struct hf_headroom *headroom; /* NULL: it cannot be told */
	struct hf_range pending;  /* found, not looked at yet */
	uint64_t next_ns;         /* not before this time */
	uint64_t num_tried;
	uint32_t no_memory;       /* in a row */
};

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* 0, or errno. */
static int collapse(int pidfd, uint64_t addr, uint64_t len)
{
	const struct iovec iov = {
		.iov_base = (void *)(uintptr_t)addr, .iov_len = len,
	};

	return syscall(SYS_process_madvise, pidfd, &iov, len ? 1 : 0,
		       MADV_COLLAPSE, 0) < 0 ? errno : 0;
}

/* ---- may we? ---- */

static struct hf_error *unsupported(const char *cause)
{
	return hf_error_fix(
		hf_error_cause(
			hf_error_create(HF_ERROR_UNSUPPORTED,
					"the process was not prepared"),
			"%s", cause),
		"let the program ask for huge pages itself: "
		"GLIBC_TUNABLES=glibc.malloc.hugetlb=1");
}

static struct hf_error *refused(int os_error)
{
	return hf_error_fix(
		hf_error_cause(
			hf_error_os(os_error, "the process was not prepared"),
			"collapsing the memory of another process needs the "
			"capability CAP_SYS_NICE besides the right to trace "
			"it"),
		"run heapfork as root, or with that capability (of a "
		"container: --cap-add SYS_NICE)");
}

static struct hf_error *scarce(const char *cause)
{
	return hf_error_fix(
		hf_error_cause(
			hf_error_create(HF_ERROR_NO_SPACE, "preparing the "
					"process stopped early"), "%s", cause),
		"take the snapshot as it is, or free memory first");
}

/* Asked about nothing, the kernel answers whether it would. */
static struct hf_error *check_kernel(int pidfd)
{
	int os_error = collapse(pidfd, 0, 0);

	if (!os_error && access("/sys/kernel/mm/transparent_hugepage", F_OK))
		return unsupported("this kernel was built without transparent "
				   "huge pages");
	if (!os_error)
		return NULL;
	if (os_error == ENOSYS || os_error == EINVAL)
		return unsupported("this kernel cannot collapse memory of "
				   "another process: that came with Linux "
				   "6.1");
	if (os_error == ESRCH)
		return hf_error_create(HF_ERROR_TARGET_GONE,
				       "the process has ended");
	return refused(os_error);
}

/* ---- when to stop, when to wait ---- */

/* For a moment there are two of a block. */
static struct hf_error *check_free(const struct prepare *prepare)
{
	struct hf_headroom_state state;
	struct hf_error *err;

	/* Not told: then the kernel's own refusal is the limit. */
	if (!prepare->headroom)
		return NULL;
	err = hf_headroom_read(prepare->headroom,
			       prepare->options.keep_free_bytes, BLOCK_BYTES,
			       &state);
	if (err) {
		hf_error_ignore(err);
		return NULL;
	}
	if (state.spare_bytes >= BLOCK_BYTES)
		return NULL;
	return scarce(*state.where ? "a memory cgroup of the process is near "
				     "its limit" :
				     "memory gets scarce on this machine");
}

/* Until it is time for the next block, with an eye on the user. */
static struct hf_error *wait_turn(struct prepare *prepare)
{
	const struct hf_prepare_report *report = prepare->report;

	for (;;) {
		struct hf_error *err = hf_progress_update(
			prepare->options.progress, "prepare",
			hf_prepare_bytes(report), report->small_bytes);
		uint64_t now = hf_now_ns(), nap;

		if (err)
			return err;
		if (prepare->options.deadline_ns &&
		    now >= prepare->options.deadline_ns)
			return hf_error_create(HF_ERROR_TIMEOUT,
					       "preparing the process took too "
					       "long");
		if (now >= prepare->next_ns)
			return NULL;
		nap = prepare->next_ns - now;
		if (nap > NAP_NS)
			nap = NAP_NS;
		nanosleep(&(struct timespec){ .tv_nsec = (long)nap }, NULL);
	}
}

static void set_turn(struct prepare *prepare, uint64_t start, uint64_t end)
{
	/* BLOCK_BYTES * 10^9 < 2^51 */
	uint64_t period = (uint64_t)BLOCK_BYTES * 1000000000u /
			  prepare->options.rate_bytes;

	prepare->next_ns = end + (end - start);
	if (prepare->next_ns < start + period)
		prepare->next_ns = start + period;
}

/* ---- one block ---- */

static bool is_full(const struct prepare *prepare, uint64_t addr)
{
	const uint64_t wanted = PAGEMAP_PRESENT | PAGEMAP_EXCLUSIVE;
	uint64_t entries[PAGES_PER_BLOCK];

	/* After an exec this is the old memory: nothing is there. */
	if (pread(prepare->pagemap_fd, entries, sizeof(entries),
		  (off_t)(addr / PAGE_BYTES * sizeof(*entries))) !=
	    sizeof(entries))
		return false;
	for (size_t i = 0; i < PAGES_PER_BLOCK; i++)
		if ((entries[i] & (wanted | PAGEMAP_SWAPPED | PAGEMAP_FILE |
				   PAGEMAP_WATCHED)) != wanted)
			return false;
	return true;
}

static void count_refusal(struct hf_prepare_report *report, int os_error)
{
	uint32_t i = 0;

	report->num_refused++;
	while (i < report->num_reasons &&
	       report->reasons[i].os_error != os_error)
		i++;
	if (i == HF_PREPARE_MAX_REASONS)
		return;
	if (i == report->num_reasons) {
		report->num_reasons++;
		report->reasons[i].os_error = os_error;
		report->reasons[i].num = 0;
	}
	report->reasons[i].num++;
	for (; i && report->reasons[i].num > report->reasons[i - 1].num; i--) {
		__typeof__(report->reasons[0]) less = report->reasons[i - 1];

		report->reasons[i - 1] = report->reasons[i];
		report->reasons[i] = less;
	}
}

static struct hf_error *do_block(struct prepare *prepare, uint64_t addr)
{
	struct hf_prepare_report *report = prepare->report;
	struct hf_error *err = NULL;
	uint64_t start, end;
	int os_error = 0;

	if (prepare->num_tried++ % LOOK_EVERY == 0)
		err = check_free(prepare);
	if (!err)
		err = wait_turn(prepare);
	if (err)
		return err;
	if (!is_full(prepare, addr)) {
		report->num_not_full++;
		return NULL;
	}
	start = hf_now_ns();
	for (int i = 0; i < TRIES; i++) {
		os_error = collapse(prepare->pidfd, addr, BLOCK_BYTES);
		if (os_error != EAGAIN)
			break;
	}
	end = hf_now_ns();
	if (end - start > report->longest_ns)
		report->longest_ns = end - start;
	set_turn(prepare, start, end);
	if (!os_error) {
		report->num_blocks++;
		prepare->no_memory = 0;
		return NULL;
	}
	count_refusal(report, os_error);
	if (os_error == ESRCH)
		return hf_error_create(HF_ERROR_TARGET_GONE,
				       "the process ended while it was "
				       "prepared");
	if (os_error == EPERM)
		return refused(os_error);
	/* ENOMEM is also what a range is that was just unmapped. */
	if (os_error == ENOMEM || os_error == EBUSY)
		prepare->no_memory++;
	else
		prepare->no_memory = 0;
	if (prepare->no_memory < MAX_NO_MEMORY)
		return NULL;
	return scarce(os_error == EBUSY ?
			      "the memory cgroup of the process is at its "
			      "limit" :
			      "the kernel has no huge page left");
}

/* ---- all blocks of all mappings ---- */

static struct hf_error *do_pending(struct prepare *prepare)
{
	const struct hf_range range = prepare->pending;
	uint64_t start;

	prepare->pending = (struct hf_range){ 0 };
	if (range.start > UINT64_MAX - BLOCK_BYTES)
		return NULL;
	start = (range.start + BLOCK_BYTES - 1) &
		~(uint64_t)(BLOCK_BYTES - 1);
	for (; start < range.end && range.end - start >= BLOCK_BYTES;
	     start += BLOCK_BYTES) {
		struct hf_error *err = do_block(prepare, start);

		if (err)
			return err;
	}
	return NULL;
}

/* Ranges may come in parts: a block across two of them is full, too. */
static struct hf_error *found(void *arg, struct hf_range range)
{
	struct prepare *prepare = arg;
	struct hf_error *err = NULL;

	if (range.start != prepare->pending.end)
		err = do_pending(prepare);
	if (prepare->pending.start == prepare->pending.end)
		prepare->pending.start = range.start;
	prepare->pending.end = range.end;
	return err;
}

static struct hf_error *do_mapping(struct prepare *prepare,
				   const struct hf_mapping *mapping)
{
	struct hf_prepare_report *report = prepare->report;
	uint64_t before = report->num_blocks;
	uint64_t huge = mapping->huge_bytes / BLOCK_BYTES;
	struct hf_error *err;

	prepare->pending = (struct hf_range){ 0 };
	err = hf_resident_find_small(prepare->resident,
				     (struct hf_range){ mapping->start,
							mapping->end },
				     found, prepare);
	if (!err)
		err = do_pending(prepare);
	/* Huge ones were found, too, and the kernel had nothing to do. */
	if (!hf_resident_has_scan(prepare->resident))
		report->num_blocks -= smaller(huge,
						 report->num_blocks - before);
	return err;
}

static bool may_be_huge(const struct hf_mapping *mapping)
{
	return !mapping->is_shared && !mapping->inode &&
	       !mapping->is_io && !mapping->is_no_huge &&
	       !mapping->is_hugetlb && !mapping->is_watched &&
	       /* a fork does not copy these */
	       !mapping->is_dontfork && !mapping->is_wiped;
}

static uint64_t small_bytes(const struct hf_mapping *mapping)
{
	return mapping->anon_bytes -
	       smaller(mapping->huge_bytes, mapping->anon_bytes);
}

static int by_small_bytes(const void *a, const void *b)
{
	uint64_t x = small_bytes(a), y = small_bytes(b);

	return x < y ? 1 : x > y ? -1 : 0;
}

static struct hf_error *do_mappings(struct prepare *prepare,
				    struct hf_proc_maps *maps)
{
	struct hf_prepare_report *report = prepare->report;
	size_t num = 0;

	for (size_t i = 0; i < maps->num; i++) {
		const struct hf_mapping *mapping = &maps->data[i];

		if (!may_be_huge(mapping))
			continue;
		report->small_bytes += small_bytes(mapping);
		report->huge_bytes += mapping->huge_bytes;
		if (small_bytes(mapping) >= BLOCK_BYTES)
			maps->data[num++] = *mapping;
	}
	qsort(maps->data, num, sizeof(*maps->data), by_small_bytes);
	for (size_t i = 0; i < num; i++) {
		struct hf_error *err = do_mapping(prepare, &maps->data[i]);

		if (err)
			return err;
	}
	return NULL;
}

static struct hf_error *open_file(pid_t pid, const char *name, int *fd_ret)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	*fd_ret = open(path, O_RDONLY | O_CLOEXEC);
	return *fd_ret < 0 ? hf_error_os(errno, "cannot open '%s'", path) :
			     NULL;
}

/* prctl(PR_SET_THP_DISABLE), as status shows it since Linux 5.0. */
static struct hf_error *check_switch(pid_t pid)
{
	HF_AUTO_FREE char *text = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	hf_error_ignore(hf_read_file(path, &text, NULL));
	return text && strstr(text, "\nTHP_enabled:\t0\n") ?
		       unsupported("the process has switched huge pages off "
				   "for itself (PR_SET_THP_DISABLE)") : NULL;
}

static struct hf_error *check_process(const struct hf_target *target,
				      int *pidfd_ret)
{
	/* A pidfd is that of the main thread, and memory is found through a
	 * thread that lives. */
	if (target->live_tid != target->pid)
		return unsupported("its main thread has ended, through which "
				   "the kernel would find its memory");
	*pidfd_ret = (int)syscall(SYS_pidfd_open, target->pid, 0);
	if (*pidfd_ret < 0 && errno == ENOSYS)
		return unsupported("this kernel has no pidfd_open: it came "
				   "with Linux 5.3");
	if (*pidfd_ret < 0)
		return hf_error_os(errno, "cannot open process %d",
				   target->pid);
	return check_switch(target->pid);
}

struct hf_error *hf_prepare_check(pid_t pid)
{
	HF_AUTO_FD int pidfd = -1;
	struct hf_target target;
	struct hf_error *err = hf_preflight_check(pid, &target);

	if (!err)
		err = check_process(&target, &pidfd);
	return err ? err : check_kernel(pidfd);
}

static struct hf_error *run(struct prepare *prepare)
{
	HF_AUTO_FD int pidfd = -1, pagemap_fd = -1, smaps_fd = -1;
	HF_AUTO(hf_resident) struct hf_resident *resident = NULL;
	HF_AUTO(hf_headroom) struct hf_headroom *headroom = NULL;
	HF_AUTO(hf_proc_maps) struct hf_proc_maps maps = { 0 };
	HF_AUTO_FREE char *text = NULL;
	struct hf_target target;
	struct hf_error *err;
	size_t len;

	err = hf_preflight_check(prepare->options.pid, &target);
	if (err)
		return err;
	prepare->report->checked = true;
	err = check_process(&target, &pidfd);
	/* All three are of the process that was checked, or none is used. */
	if (!err)
		err = open_file(target.pid, "pagemap", &pagemap_fd);
	if (!err)
		err = open_file(target.pid, "smaps", &smaps_fd);
	if (!err)
		err = hf_preflight_recheck(&target);
	if (!err)
		err = check_kernel(pidfd);
	if (!err)
		err = hf_read_fd(smaps_fd, "smaps", &text, &len);
	if (!err)
		err = hf_proc_maps_parse(text, len, &maps);
	if (!err)
		err = hf_resident_create(pagemap_fd, prepare->options.no_scan,
					 &resident);
	if (err)
		return err;
	hf_error_ignore(hf_headroom_open(target.pid, NULL, &headroom));
	prepare->headroom = headroom;
	prepare->pidfd = pidfd;
	prepare->pagemap_fd = pagemap_fd;
	prepare->resident = resident;
	return do_mappings(prepare, &maps);
}

struct hf_error *hf_prepare(const struct hf_prepare_options *options,
			    struct hf_prepare_report *ret)
{
	struct prepare prepare = { .options = *options, .report = ret };
	uint64_t start = hf_now_ns();
	struct hf_error *err;

	*ret = (struct hf_prepare_report){ 0 };
	if (!prepare.options.rate_bytes)
		prepare.options.rate_bytes = DEFAULT_RATE;
	err = run(&prepare);
	ret->complete = !err;
	ret->elapsed_ns = hf_now_ns() - start;
	return err;
}
