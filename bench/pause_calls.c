/* What the kernel charges on this machine for next to nothing.
 * SPDX-License-Identifier: MIT */
#include "bench/pause_calls.h"

#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/pause_stats.h"
#include "bench/pause_target.h"
#include "util/progress.h"

enum {
	BATCHES = 31,
	CALLS = 1000,
	TURNS = 200,
};

double bench_null_call_ns(void)
{
	struct bench_series batches = { .num = 0 };

	for (int i = 0; i < BATCHES; i++) {
		uint64_t start = hf_now_ns();

		for (int k = 0; k < CALLS; k++)
			syscall(SYS_getppid);
		bench_series_add(&batches, hf_now_ns() - start);
	}
	return bench_median_ms(&batches) * 1e6 / CALLS;
}

double bench_null_ptrace_ns(void)
{
	struct bench_series batches = { .num = 0 };
	unsigned long message;
	pid_t pid = fork();

	if (pid < 0)
		bench_die("cannot fork");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0)
		exit(77);
	ptrace(PTRACE_INTERRUPT, pid, NULL, NULL);
	waitpid(pid, NULL, __WALL);
	for (int i = 0; i < BATCHES; i++) {
		uint64_t start = hf_now_ns();

		for (int k = 0; k < CALLS; k++)
			ptrace(PTRACE_GETEVENTMSG, pid, NULL, &message);
		bench_series_add(&batches, hf_now_ns() - start);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, __WALL);
	return bench_median_ms(&batches) * 1e6 / CALLS;
}

static void futex(_Atomic uint32_t *word, int op, uint32_t value)
{
	syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

/* Whose turn it is: `turn` is even for the tool, odd for the other. */
static void take_turns(_Atomic uint32_t *turn, uint32_t parity, uint32_t end)
{
	for (;;) {
		uint32_t now = atomic_load(turn);

		if (now >= end)
			return;
		if (now % 2 != parity) {
			futex(turn, FUTEX_WAIT, now);
			continue;
		}
		atomic_store(turn, now + 1);
		futex(turn, FUTEX_WAKE, 1);
	}
}

double bench_wake_ns(void)
{
	_Atomic uint32_t *turn = mmap(NULL, sizeof(*turn),
				      PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const uint32_t all = 2 * TURNS * BATCHES;
	struct bench_series batches = { .num = 0 };
	pid_t pid;

	if (turn == MAP_FAILED)
		bench_die("out of memory");
	atomic_store(turn, 0);
	pid = fork();
	if (pid < 0)
		bench_die("cannot fork");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		take_turns(turn, 1, all);
		_exit(0);
	}
	for (uint32_t i = 1; i <= BATCHES; i++) {
		uint64_t start = hf_now_ns();

		take_turns(turn, 0, i * 2 * TURNS);
		bench_series_add(&batches, hf_now_ns() - start);
	}
	waitpid(pid, NULL, 0);
	munmap(turn, sizeof(*turn));
	return bench_median_ms(&batches) * 1e6 / (2 * TURNS);
}
