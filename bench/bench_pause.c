/* Bench of the pause: what a capture costs its target, next to what a fork
 * costs that target when it makes it itself.
 * SPDX-License-Identifier: MIT
 *
 * usage: bench_pause [THREADS [MIB [ROUNDS]]]
 *
 * The target is a process of our own with idle threads and a touched heap of
 * 4 KiB pages. Pauses are for ratios: compare them only on one machine. */
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fork-agent/capture.h"
#include "util/progress.h"

enum { MAX_ROUNDS = 1000, MIB = 1024 * 1024, PAGE = 4096 };

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static double median_ms(const uint64_t *values, int num)
{
	uint64_t sorted[MAX_ROUNDS];

	memcpy(sorted, values, (size_t)num * sizeof(*values));
	qsort(sorted, (size_t)num, sizeof(*sorted), by_value);
	return (double)sorted[num / 2] / 1e6;
}

static void require(struct hf_error *err)
{
	if (!err)
		return;
	fprintf(stderr, "bench_pause: %s\n", err->message);
	exit(1);
}

static void *idle(void *arg)
{
	(void)arg;
	for (;;)
		poll(NULL, 0, -1);
	return NULL;
}

/* ---- the target ---- */

static void be_target(int num_threads, size_t bytes, int rounds, int in,
		      int out)
{
	uint64_t raw[MAX_ROUNDS];
	char byte = 0;
	char *heap = mmap(NULL, bytes + PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	madvise(heap, bytes, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < bytes; i += PAGE)
		heap[i] = (char)(i / PAGE + 1);
	for (int i = 1; i < num_threads; i++) {
		pthread_attr_t attr;
		pthread_t id;

		pthread_attr_init(&attr);
		pthread_attr_setstacksize(&attr, 128 * 1024);
		if (pthread_create(&id, &attr, idle, NULL))
			_exit(1);
	}
	for (int i = 0; i < rounds; i++) {
		uint64_t start = hf_now_ns();
		pid_t pid = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0,
					   0, 0, 0);

		raw[i] = hf_now_ns() - start;
		if (pid == 0)
			syscall(SYS_exit, 0);
		waitpid(pid, NULL, 0);
	}
	if (write(out, raw, (size_t)rounds * sizeof(raw[0])) < 0)
		_exit(1);
	while (read(in, &byte, 1) == 1)
		;
	_exit(0);
}

/* ---- the tool ---- */

static void take(pid_t pid, int rounds, double raw_ms)
{
	static uint64_t pause_ns[MAX_ROUNDS], stop_ns[MAX_ROUNDS],
		regs_ns[MAX_ROUNDS], fork_ns[MAX_ROUNDS],
		resume_ns[MAX_ROUNDS], reap_ns[MAX_ROUNDS];

	for (int i = 0; i < rounds; i++) {
		const struct hf_capture_options options = { .pid = pid };
		const struct hf_capture_report *report;
		struct hf_frozen *frozen;

		require(hf_capture(&options, &frozen));
		require(hf_frozen_release(frozen));
		report = hf_frozen_report(frozen);
		pause_ns[i] = report->pause_ns;
		stop_ns[i] = report->stop_ns;
		regs_ns[i] = report->regs_ns;
		fork_ns[i] = report->fork_ns;
		resume_ns[i] = report->resume_ns;
		reap_ns[i] = report->reap_ns;
		hf_frozen_destroy(frozen);
	}

	double pause_ms = median_ms(pause_ns, rounds);

	printf("pause %.2f ms = %.2f x raw fork %.2f ms (stop %.2f, registers "
	       "%.2f, fork %.2f, resume %.2f); reap %.2f ms\n",
	       pause_ms, raw_ms > 0 ? pause_ms / raw_ms : 0, raw_ms,
	       median_ms(stop_ns, rounds), median_ms(regs_ns, rounds),
	       median_ms(fork_ns, rounds), median_ms(resume_ns, rounds),
	       median_ms(reap_ns, rounds));
}

int main(int argc, char **argv)
{
	int num_threads = argc > 1 ? atoi(argv[1]) : 1;
	size_t bytes = (argc > 2 ? strtoull(argv[2], NULL, 10) : 64) * MIB;
	int rounds = argc > 3 ? atoi(argv[3]) : 15;
	uint64_t raw[MAX_ROUNDS];
	int in[2], out[2];
	size_t got = 0;
	pid_t pid;

	if (num_threads < 1 || rounds < 1 || rounds > MAX_ROUNDS) {
		fprintf(stderr, "usage: bench_pause [THREADS [MIB "
			"[ROUNDS]]]\n");
		return 2;
	}
	if (pipe(in) < 0 || pipe(out) < 0 || (pid = fork()) < 0) {
		perror("bench_pause");
		return 1;
	}
	if (pid == 0) {
		close(in[1]);
		be_target(num_threads, bytes, rounds, in[0], out[1]);
	}
	close(out[1]);
	while (got < (size_t)rounds * sizeof(raw[0])) {
		ssize_t n = read(out[0], (char *)raw + got,
				 (size_t)rounds * sizeof(raw[0]) - got);

		if (n <= 0) {
			fprintf(stderr, "bench_pause: the target failed\n");
			return 1;
		}
		got += (size_t)n;
	}
	printf("%d thread(s), %zu MiB: ", num_threads, bytes / MIB);
	fflush(stdout);
	take(pid, rounds, median_ms(raw, rounds));
	close(in[1]);
	waitpid(pid, NULL, 0);
	return 0;
}
