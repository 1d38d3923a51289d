/* The target of the bench of the pause: a process of our own.
 * SPDX-License-Identifier: MIT */
#include "bench/pause_target.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "coredump/proc_maps.h"
#include "util/file.h"
#include "util/progress.h"

/* Linux 5.14 */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum {
	PAGE = 4096,
	HUGE = 2 << 20,
	LINE = 64,
	STACK = 128 * 1024,
	TICK_NS = 100 * 1000,
};

struct table {
	char *start;
	uint64_t bytes;
	bool huge;
};

/* What a thread of the target knows. */
struct worker {
	struct bench_shared *shared;
	struct table table;
	uint32_t number; /* from 0 */
};

_Noreturn void bench_die(const char *what)
{
	fprintf(stderr, "bench_pause: %s\n", what);
	exit(1);
}

static long futex(_Atomic uint32_t *word, int op, uint32_t value)
{
	return syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

/* ---- in the target: the table ---- */

static bool fill(const struct table *table)
{
	/* Whatever this machine does by itself: pages as asked for. */
	if (table->huge)
		madvise(table->start, table->bytes, MADV_HUGEPAGE);
	else
		prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	/* Where there is no such advice the writes do it. */
	madvise(table->start, table->bytes, MADV_POPULATE_WRITE);
	for (uint64_t i = 0; i < table->bytes; i += PAGE)
		table->start[i] = (char)(i / PAGE + 1);
	return table->huge || !prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
}

static bool make_table(struct table *table)
{
	char *ptr = mmap(NULL, table->bytes + 2 * HUGE, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (ptr == MAP_FAILED)
		return false;
	table->start = (char *)(((uintptr_t)ptr + HUGE) &
				~(uintptr_t)(HUGE - 1));
	return !mprotect(table->start, table->bytes, PROT_READ | PROT_WRITE) &&
	       fill(table);
}

/* ---- in the target: threads ---- */

static void serve(struct worker *worker)
{
	struct bench_shared *shared = worker->shared;
	uint32_t number = worker->number;
	uint64_t random = (uint64_t)(number + 1) * 0x9e3779b97f4a7c15u;
	uint64_t due = shared->start_ns + shared->period_ns * number /
						  BENCH_REQUEST_THREADS;

	while (atomic_load(&shared->serve)) {
		const struct timespec until = {
			.tv_sec = (time_t)(due / 1000000000),
			.tv_nsec = (long)(due % 1000000000),
		};
		uint64_t begin, end, num = shared->num_requests[number];
		char *line;

		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until,
				       NULL) == EINTR)
			;
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		line = worker->table.start +
		       random % (worker->table.bytes / LINE) * LINE;
		begin = hf_now_ns();
		for (int i = 0; i < LINE / 8; i++)
			((volatile uint64_t *)line)[i] += random;
		end = hf_now_ns();
		if (num < BENCH_MAX_REQUESTS)
			shared->requests[number][num] = (struct bench_request){
				.due_ns = due,
				.latency_ns = end - due,
				.service_ns = end - begin,
			};
		atomic_store(&shared->num_requests[number], num + 1);
		due += shared->period_ns;
	}
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	struct bench_shared *shared = worker->shared;

	for (;;) {
		if (worker->number < BENCH_REQUEST_THREADS &&
		    atomic_load(&shared->serve)) {
			serve(worker);
			continue;
		}
		while (atomic_load(&shared->spin))
			for (volatile int i = 0; i < 10000; i++)
				;
		/* Both are woken through this word. */
		if (!atomic_load(&shared->serve) ||
		    worker->number >= BENCH_REQUEST_THREADS)
			futex(&shared->spin, FUTEX_WAIT, 0);
	}
	return NULL;
}

static bool add_thread(struct worker *worker)
{
	pthread_attr_t attr;
	pthread_t id;
	bool ok;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	ok = !pthread_create(&id, &attr, work, worker);
	pthread_attr_destroy(&attr);
	return ok;
}

/* ---- in the target: its main thread ---- */

static bool raw_fork(struct bench_shared *shared)
{
	uint64_t start = hf_now_ns();
	/* As fork(), but for the handlers of libc. */
	long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (pid == 0) {
		const struct timespec life = {
			.tv_sec = (time_t)(shared->argument / 1000000000),
			.tv_nsec = (long)(shared->argument % 1000000000),
		};

		if (shared->argument)
			syscall(SYS_nanosleep, &life, NULL);
		syscall(SYS_exit, 0);
	}
	shared->fork_ns = hf_now_ns() - start;
	return pid > 0;
}

static _Noreturn void be_target(struct bench_shared *shared,
				struct table table)
{
	static struct worker workers[BENCH_MAX_THREADS];
	const struct timespec tick = { .tv_nsec = TICK_NS };
	uint64_t num_threads = 1, last = hf_now_ns();

	for (;;) {
		uint64_t now = hf_now_ns();
		bool ok = true;

		if (now - last > atomic_load(&shared->longest_ns))
			atomic_store(&shared->longest_ns, now - last);
		last = now;
		switch (atomic_load(&shared->command)) {
		case 0:
			nanosleep(&tick, NULL);
			/* Its children. */
			while (waitpid(-1, NULL, WNOHANG) > 0)
				;
			continue;
		case BENCH_FORK:
			ok = raw_fork(shared);
			if (ok && !shared->argument)
				waitpid(-1, NULL, 0);
			break;
		case BENCH_THREADS:
			for (; ok && num_threads < shared->argument;
			     num_threads++) {
				struct worker *worker =
					&workers[num_threads - 1];

				*worker = (struct worker){
					shared, table,
					(uint32_t)num_threads - 1
				};
				ok = add_thread(worker);
			}
			break;
		case BENCH_REFILL:
			ok = !madvise(table.start, table.bytes,
				      MADV_DONTNEED) && fill(&table);
			break;
		case BENCH_END:
			_exit(0);
		}
		atomic_store(&shared->failed, !ok);
		atomic_store(&shared->command, 0);
		last = hf_now_ns();
	}
}

/* ---- in the tool ---- */

static void pause_us(long us)
{
	nanosleep(&(struct timespec){ .tv_nsec = us * 1000 }, NULL);
}

/* It may not end before it is told to. */
static void check_alive(const struct bench_target *target)
{
	siginfo_t info = { .si_pid = 0 };

	if (waitid(P_PID, (id_t)target->pid, &info,
		   WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid)
		bench_die("the target ended");
}

void bench_target_do(struct bench_target *target, enum bench_command command,
		     uint64_t argument)
{
	struct bench_shared *shared = target->shared;

	shared->argument = argument;
	atomic_store(&shared->command, command);
	while (atomic_load(&shared->command)) {
		pause_us(200);
		check_alive(target);
	}
	if (atomic_load(&shared->failed))
		bench_die("the target could not do what it was told (memory, "
			  "or a limit on processes?)");
}

void bench_target_start(struct bench_target *target, uint64_t bytes, bool huge)
{
	struct table table = { .bytes = bytes, .huge = huge };
	struct bench_shared *shared = mmap(NULL, sizeof(*shared),
					   PROT_READ | PROT_WRITE,
					   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int to_tool[2];

	if (shared == MAP_FAILED || pipe(to_tool) < 0)
		bench_die(strerror(errno));
	*target = (struct bench_target){
		.bytes = bytes, .huge = huge, .num_threads = 1,
		.shared = shared,
	};
	fflush(stdout);
	target->pid = fork();
	if (target->pid < 0)
		bench_die(strerror(errno));
	if (target->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
		prctl(PR_SET_TIMERSLACK, 1);
		if (!make_table(&table) ||
		    write(to_tool[1], &table, sizeof(table)) < 0)
			_exit(1);
		close(to_tool[0]);
		close(to_tool[1]);
		be_target(shared, table);
	}
	close(to_tool[1]);
	if (read(to_tool[0], &table, sizeof(table)) != sizeof(table))
		bench_die("the target could not get its memory");
	close(to_tool[0]);
	target->table = (uintptr_t)table.start;
}

uint64_t bench_target_fork(struct bench_target *target)
{
	bench_target_do(target, BENCH_FORK, 0);
	return target->shared->fork_ns;
}

void bench_target_threads(struct bench_target *target, uint32_t num)
{
	if (num > BENCH_MAX_THREADS)
		num = BENCH_MAX_THREADS;
	if (num <= target->num_threads)
		return;
	bench_target_do(target, BENCH_THREADS, num);
	target->num_threads = num;
	/* Each goes to sleep once before it is measured. */
	pause_us(20000);
}

void bench_target_spin(struct bench_target *target, bool spin)
{
	atomic_store(&target->shared->spin, spin);
	futex(&target->shared->spin, FUTEX_WAKE, BENCH_MAX_THREADS);
	pause_us(50000);
}

uint64_t bench_target_longest_ns(struct bench_target *target)
{
	return atomic_exchange(&target->shared->longest_ns, 0);
}

double bench_target_huge_share(const struct bench_target *target)
{
	HF_AUTO(hf_proc_maps) struct hf_proc_maps maps = { 0 };
	HF_AUTO_FREE char *text = NULL;
	char path[64];
	struct hf_error *err;
	size_t len;

	snprintf(path, sizeof(path), "/proc/%d/smaps", target->pid);
	err = hf_read_file(path, &text, &len);
	if (!err)
		err = hf_proc_maps_parse(text, len, &maps);
	if (err)
		bench_die(err->message);
	for (size_t i = 0; i < maps.num; i++)
		if (maps.data[i].start <= target->table &&
		    target->table < maps.data[i].end)
			return (double)maps.data[i].huge_bytes /
			       (double)target->bytes;
	return 0;
}

void bench_target_end(struct bench_target *target)
{
	atomic_store(&target->shared->command, BENCH_END);
	waitpid(target->pid, NULL, 0);
	munmap(target->shared, sizeof(*target->shared));
	target->shared = NULL;
}
