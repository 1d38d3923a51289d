/* The ways to get a process's memory that the bench of the pause compares.
 * SPDX-License-Identifier: MIT */
#include "bench/pause_ways.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "coredump/proc_maps.h"
#include "fork-agent/copy_out.h"
#include "fork-agent/proc_task.h"
#include "util/file.h"
#include "util/low_priority.h"
#include "util/progress.h"

enum {
	PIECE = 1 << 20,
	DROP_PIECE = 16 << 20, /* one call of the child for each */
	PATH_BYTES = 4096,
	EXIT_SKIPPED = 77,
};

void bench_require(struct hf_error *err)
{
	if (!err)
		return;
	fprintf(stderr, "bench_pause: %s%s%s\n", err->message,
		err->cause ? ": " : "", err->cause ? err->cause : "");
	exit(err->code == HF_ERROR_PERMISSION ? EXIT_SKIPPED : 1);
}

/* ---- heapfork ---- */

/* process_vm_readv would do for neither the child nor the target: what it reads
 * is no longer shared (coredump/process_memory.c), and so paid for. */
static int open_memory(pid_t pid)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		bench_die("memory cannot be opened");
	return fd;
}

/* The child's copy of the table, piece by piece. */
static void read_child(const struct bench_target *target,
		       struct hf_frozen *frozen, enum bench_child child,
		       char *buf)
{
	HF_AUTO_FD int fd = open_memory(hf_frozen_pid(frozen));
	uint64_t end = target->table + target->bytes;
	uint64_t undropped = target->table;

	for (uint64_t at = target->table; at < end;) {
		uint64_t len = end - at < PIECE ? end - at : PIECE;

		if (pread(fd, buf, len, (off_t)at) != (ssize_t)len)
			bench_die("the child's memory cannot be read");
		at += len;
		if (child == BENCH_CHILD_DROPPED &&
		    (at - undropped >= DROP_PIECE || at == end)) {
			const struct hf_range range = { undropped, at };

			hf_frozen_drop(frozen, &range, 1);
			undropped = at;
		}
	}
}

static void sleep_until(uint64_t ns)
{
	const struct timespec until = {
		.tv_sec = (time_t)(ns / 1000000000),
		.tv_nsec = (long)(ns % 1000000000),
	};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) ==
	       EINTR)
		;
}

/* What a snapshot does with the child. */
static struct hf_error *copy_out(void *arg)
{
	const struct hf_copy_options options = { .way = HF_COPY_AUTO };
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	struct hf_frozen *frozen = arg;
	struct hf_copy_report report;
	struct hf_error *err = hf_frozen_open_image(frozen, &image);

	if (!err)
		err = hf_copy_out(frozen, image, &options, &report);
	if (!err && !report.spool.is_whole)
		err = hf_error_create(HF_ERROR_NO_MEMORY,
				      "no room for a copy of the memory");
	if (!err)
		err = hf_frozen_release(frozen);
	return err;
}

static struct hf_frozen *take_child(struct bench_target *target)
{
	const struct hf_capture_options options = { .pid = target->pid };
	struct hf_frozen *frozen;

	bench_require(hf_capture(&options, &frozen));
	return frozen;
}

static struct hf_capture_report let_go(struct hf_frozen *frozen)
{
	struct hf_capture_report report;

	bench_require(hf_frozen_release(frozen));
	report = *hf_frozen_report(frozen);
	hf_frozen_destroy(frozen);
	return report;
}

struct hf_capture_report bench_capture(struct bench_target *target)
{
	return let_go(take_child(target));
}

struct hf_capture_report bench_capture_read(struct bench_target *target,
					    enum bench_child child,
					    uint64_t life_ns)
{
	HF_AUTO_FREE char *buf = malloc(PIECE);
	struct hf_frozen *frozen;
	uint64_t start;

	if (!buf)
		bench_die("out of memory");
	memset(buf, 0, PIECE);
	frozen = take_child(target);
	start = hf_now_ns();
	if (child == BENCH_CHILD_COPIED) {
		bench_require(hf_run_low_priority(copy_out, frozen));
	} else {
		read_child(target, frozen, child, buf);
		if (child != BENCH_CHILD_READ)
			sleep_until(start + life_ns);
	}
	return let_go(frozen);
}

/* ---- gcore ---- */

bool bench_gcore(const struct bench_target *target, const char *dir)
{
	char prefix[PATH_BYTES], file[PATH_BYTES + 16], pid[16];
	bool exists;
	pid_t gdb;
	int status;

	snprintf(prefix, sizeof(prefix), "%s/bench-pause-%d", dir, getpid());
	snprintf(file, sizeof(file), "%s.%d", prefix, target->pid);
	snprintf(pid, sizeof(pid), "%d", target->pid);
	fflush(stdout);
	gdb = fork();
	if (gdb < 0)
		bench_die(strerror(errno));
	if (gdb == 0) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		unsetenv("DEBUGINFOD_URLS");
		execlp("gcore", "gcore", "-o", prefix, pid, (char *)NULL);
		_exit(127);
	}
	while (waitpid(gdb, &status, 0) < 0)
		if (errno != EINTR)
			bench_die("waitpid");
	exists = !unlink(file);
	return exists && WIFEXITED(status) && !WEXITSTATUS(status);
}

/* ---- SIGSTOP and copy ---- */

static void wait_stopped(pid_t pid)
{
	struct hf_proc_stat stat;

	do {
		bench_require(hf_proc_stat_read(pid, 0, &stat));
	} while (stat.state != 'T');
}

static void copy_mapping(int from, const struct hf_mapping *mapping, int to,
			 char *buf)
{
	for (uint64_t at = mapping->start; at < mapping->end;) {
		uint64_t len = mapping->end - at;
		ssize_t got = pread(from, buf, len < PIECE ? len : PIECE,
				    (off_t)at);

		if (got <= 0)
			return;
		bench_require(hf_write_all(to, "the copy", buf, (size_t)got));
		at += (uint64_t)got;
	}
}

void bench_stop_and_copy(const struct bench_target *target, const char *dir,
			 uint64_t *stopped_ns_ret)
{
	HF_AUTO(hf_proc_maps) struct hf_proc_maps maps = { 0 };
	HF_AUTO_FREE char *text = NULL, *buf = malloc(PIECE);
	char path[PATH_BYTES], maps_path[64];
	uint64_t start;
	size_t len;

	snprintf(path, sizeof(path), "%s/bench-pause-%d.copy", dir, getpid());
	snprintf(maps_path, sizeof(maps_path), "/proc/%d/maps", target->pid);

	HF_AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
				 0600);

	HF_AUTO_FD int mem = open_memory(target->pid);

	if (fd < 0 || !buf)
		bench_die("cannot write the copy");
	unlink(path);
	start = hf_now_ns();
	kill(target->pid, SIGSTOP);
	wait_stopped(target->pid);
	bench_require(hf_read_file(maps_path, &text, &len));
	bench_require(hf_proc_maps_parse(text, len, &maps));
	for (size_t i = 0; i < maps.num; i++)
		if (!maps.data[i].is_shared &&
		    (maps.data[i].prot & (PROT_READ | PROT_WRITE)) ==
			    (PROT_READ | PROT_WRITE))
			copy_mapping(mem, &maps.data[i], fd, buf);
	kill(target->pid, SIGCONT);
	*stopped_ns_ret = hf_now_ns() - start;
}
