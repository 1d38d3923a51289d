/* What a snapshot does to the requests a process serves meanwhile.
 * SPDX-License-Identifier: MIT */
#include "bench/pause_requests.h"

#include <inttypes.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bench/pause_stats.h"
#include "bench/pause_ways.h"
#include "fork-agent/proc_task.h"
#include "util/progress.h"

/* A request is late by its own time and by all it had to wait for: it is due at
 * a fixed time, whether or not the ones before it are done. Windows:
 *
 *	before   so long
 *	pause    from the first step of the way, a quarter of that, or until
 *	         it is over
 *	child    as long as there is a child, or so long
 *	after    so long again
 */
#define SECOND UINT64_C(1000000000)

enum window { BEFORE, PAUSE, CHILD, AFTER, NUM_WINDOWS };

static const char *const window_names[] = { "before", "pause", "child",
					    "after" };

enum way {
	NOTHING, RAW_FORK, KEPT, DROPPED, READ, SNAPSHOT, GCORE, COPY,
	NUM_WAYS,
};

static const char *const way_names[] = {
	[NOTHING] = "nothing",
	[RAW_FORK] = "its own fork, child kept",
	[KEPT] = "heapfork, child kept",
	[DROPPED] = "heapfork, child kept, pages dropped once read",
	[READ] = "heapfork, child let go once read",
	[SNAPSHOT] = "heapfork as it is: copied, dropped, let go",
	[GCORE] = "gcore",
	[COPY] = "SIGSTOP and copy",
};

struct samples {
	uint64_t *ns; /* latencies */
	size_t num, capacity;
	uint64_t service_ns; /* sum */
};

struct outcome {
	struct samples windows[NUM_WINDOWS];
	struct bench_series pause;   /* as the way itself tells, if it does */
	uint64_t faults;             /* of the target, CHILD window's way */
	uint64_t cow_pages, dropped_bytes, life_ns;
	uint32_t rounds, failed;
};

static void sleep_ns(uint64_t ns)
{
	nanosleep(&(struct timespec){ .tv_sec = (time_t)(ns / SECOND),
				      .tv_nsec = (long)(ns % SECOND) }, NULL);
}

static void add_sample(struct samples *samples,
		       const struct bench_request *request)
{
	if (samples->num == samples->capacity) {
		samples->capacity = samples->capacity * 2 + 4096;
		samples->ns = realloc(samples->ns, samples->capacity *
						   sizeof(*samples->ns));
		if (!samples->ns)
			bench_die("out of memory");
	}
	samples->ns[samples->num++] = request->latency_ns;
	samples->service_ns += request->service_ns;
}

/* ---- the load ---- */

static void start_requests(struct bench_target *target, uint64_t rate)
{
	struct bench_shared *shared = target->shared;

	for (int i = 0; i < BENCH_REQUEST_THREADS; i++)
		atomic_store(&shared->num_requests[i], 0);
	shared->period_ns = SECOND * BENCH_REQUEST_THREADS / rate;
	shared->start_ns = hf_now_ns() + SECOND / 100;
	atomic_store(&shared->serve, 1);
	/* A thread may have looked just before, and sleep only now. */
	for (int i = 0; i < BENCH_REQUEST_THREADS;) {
		syscall(SYS_futex, &shared->spin, FUTEX_WAKE,
			BENCH_MAX_THREADS, NULL, NULL, 0);
		sleep_ns(SECOND / 1000);
		if (atomic_load(&shared->num_requests[i]))
			i++;
	}
}

static void stop_requests(struct bench_target *target)
{
	atomic_store(&target->shared->serve, 0);
	/* What is due already is served, then they see it. */
	sleep_ns(SECOND / 20);
}

static void collect(const struct bench_target *target,
		    const uint64_t start[NUM_WINDOWS + 1],
		    struct outcome *outcome)
{
	const struct bench_shared *shared = target->shared;

	for (int i = 0; i < BENCH_REQUEST_THREADS; i++) {
		uint64_t num = shared->num_requests[i];

		for (uint64_t k = 0; k < num && k < BENCH_MAX_REQUESTS; k++) {
			const struct bench_request *request =
				&shared->requests[i][k];

			for (int w = 0; w < NUM_WINDOWS; w++)
				if (start[w] <= request->due_ns &&
				    request->due_ns < start[w + 1])
					add_sample(&outcome->windows[w],
						   request);
		}
	}
}

/* ---- one way, once ---- */

static uint64_t faults_of(pid_t pid)
{
	struct hf_proc_stat stat;

	bench_require(hf_proc_stat_read(pid, 0, &stat));
	return stat.minor_faults;
}

static void take(struct bench_target *target, enum way way,
		 const struct bench_requests_options *options,
		 struct outcome *outcome)
{
	struct hf_capture_report report = { 0 };
	uint64_t ns = 0;

	switch (way) {
	case NOTHING:
		sleep_ns(options->window_ns);
		return;
	case RAW_FORK:
		bench_target_do(target, BENCH_FORK, options->window_ns);
		bench_series_add(&outcome->pause, target->shared->fork_ns);
		sleep_ns(options->window_ns);
		return;
	case KEPT:
	case DROPPED:
	case READ:
	case SNAPSHOT:
		report = bench_capture_read(
			target,
			way == KEPT    ? BENCH_CHILD_KEPT :
			way == DROPPED ? BENCH_CHILD_DROPPED :
			way == READ    ? BENCH_CHILD_READ :
					 BENCH_CHILD_COPIED,
			options->window_ns);
		bench_series_add(&outcome->pause, report.pause_ns);
		if (report.cow_pages != UINT64_MAX)
			outcome->cow_pages += report.cow_pages;
		outcome->dropped_bytes += report.dropped_bytes;
		outcome->life_ns += report.child_life_ns;
		return;
	case GCORE:
		if (!bench_gcore(target, options->dir))
			outcome->failed++;
		return;
	case COPY:
		bench_stop_and_copy(target, options->dir, &ns);
		bench_series_add(&outcome->pause, ns);
		return;
	case NUM_WAYS:
		return;
	}
}

static void run_round(struct bench_target *target, enum way way,
		      const struct bench_requests_options *options,
		      struct outcome *outcome)
{
	uint64_t start[NUM_WINDOWS + 1], faults;

	/* Each starts from the same pages, not from those of the last. */
	bench_target_do(target, BENCH_REFILL, 0);
	start_requests(target, options->rate);
	start[BEFORE] = hf_now_ns();
	sleep_ns(options->window_ns);
	faults = faults_of(target->pid);
	start[PAUSE] = hf_now_ns();
	take(target, way, options, outcome);
	start[AFTER] = hf_now_ns();
	outcome->faults += faults_of(target->pid) - faults;
	start[CHILD] = start[PAUSE] + options->window_ns / 4;
	/* These stop it all the time, or nearly. */
	if (start[CHILD] > start[AFTER] || way == GCORE || way == COPY)
		start[CHILD] = start[AFTER];
	sleep_ns(options->window_ns);
	start[NUM_WINDOWS] = hf_now_ns();
	stop_requests(target);
	collect(target, start, outcome);
	outcome->rounds++;
}

/* ---- tables ---- */

static void print_latencies(const char *name, struct outcome *outcome)
{
	for (int w = 0; w < NUM_WINDOWS; w++) {
		struct samples *samples = &outcome->windows[w];
		double us[4];

		if (!samples->num)
			continue;
		bench_sort(samples->ns, samples->num);
		us[0] = (double)bench_quantile(samples->ns, samples->num, 0.5);
		us[1] = (double)bench_quantile(samples->ns, samples->num, 0.99);
		us[2] = (double)bench_quantile(samples->ns, samples->num,
					       0.999);
		us[3] = (double)samples->ns[samples->num - 1];
		printf("| %s | %s | %zu | %.0f | %.0f | %.0f | %.0f | %.1f |\n",
		       w ? "" : name, window_names[w], samples->num,
		       us[0] / 1e3, us[1] / 1e3, us[2] / 1e3, us[3] / 1e3,
		       (double)samples->service_ns / 1e3 /
			       (double)samples->num);
	}
}

static void print_tax(const char *name, const struct outcome *outcome)
{
	double rounds = outcome->rounds;

	printf("| %s | %.1f | ", name, bench_median_ms(&outcome->pause));
	if (outcome->life_ns)
		printf("%.0f | %.0f | %.0f | %.0f |\n",
		       (double)outcome->life_ns / 1e6 / rounds,
		       (double)outcome->faults / rounds,
		       (double)outcome->cow_pages / rounds,
		       (double)outcome->dropped_bytes / (1 << 20) / rounds);
	else
		printf("– | %.0f | – | – |\n",
		       (double)outcome->faults / rounds);
}

void bench_requests(const struct bench_requests_options *options, bool huge)
{
	static struct outcome outcomes[NUM_WAYS];
	struct bench_target target;

	memset(outcomes, 0, sizeof(outcomes));
	bench_target_start(&target, options->bytes, huge);
	bench_target_threads(&target, 8);
	for (uint32_t round = 0; round < options->rounds; round++)
		for (enum way way = 0; way < NUM_WAYS; way++)
			if (options->gcore || (way != GCORE && way != COPY))
				run_round(&target, way, options,
					  &outcomes[way]);
	bench_target_end(&target);

	printf("\n### Requests: table of %" PRIu64 " MiB in %s pages, %" PRIu64
	       " a second in %d of 8 threads, %" PRIu32 " rounds; µs\n\n"
	       "| way | window | requests | p50 | p99 | p99.9 | max | mean "
	       "service |\n|---|---|---|---|---|---|---|---|\n",
	       options->bytes >> 20, huge ? "2 MiB" : "4 KiB", options->rate,
	       BENCH_REQUEST_THREADS, options->rounds);
	for (enum way way = 0; way < NUM_WAYS; way++)
		print_latencies(way_names[way], &outcomes[way]);
	printf("\n| way | pause ms | child ms | faults | pages copied | "
	       "dropped MiB |\n|---|---|---|---|---|---|\n");
	for (enum way way = RAW_FORK; way < GCORE; way++)
		if (outcomes[way].rounds)
			print_tax(way_names[way], &outcomes[way]);
	if (outcomes[GCORE].failed)
		printf("\ngcore failed %" PRIu32 " times.\n",
		       outcomes[GCORE].failed);
	fflush(stdout);
	for (enum way way = 0; way < NUM_WAYS; way++)
		for (int w = 0; w < NUM_WINDOWS; w++)
			free(outcomes[way].windows[w].ns);
}
