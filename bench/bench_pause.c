/* Bench of the pause: what a capture costs its target, next to what a fork
 * costs that target when it makes it itself, to gcore, and to a plain copy.
 * SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/pause_calls.h"
#include "bench/pause_goals.h"
#include "bench/pause_requests.h"
#include "bench/pause_stats.h"
#include "bench/pause_ways.h"
#include "fork-agent/prepare.h"

#define MIB (UINT64_C(1) << 20)

static const char usage[] =
	"usage: bench_pause [OPTION…]\n"
	"\n"
	"  --quick           64 MiB, 1 and 8 threads, few rounds: half a "
	"minute (default)\n"
	"  --full            all sizes, pages, threads and ways: a quarter "
	"of an hour,\n"
	"                    and 12 GiB of memory and of space in the folder\n"
	"  --sizes M[,M…]    tables of so many MiB\n"
	"  --threads N[,N…]  threads, at most 256\n"
	"  --pages 4k|huge   only these\n"
	"  --rounds N        of each way, in turn; at most 64\n"
	"  --only pause|requests|prepare\n"
	"  --rate N          requests a second (4000)\n"
	"  --window MS       of latencies before and after (1000)\n"
	"  --no-gcore        neither gcore nor SIGSTOP and copy\n"
	"  --dir FOLDER      for the files of these (default: TMPDIR, /tmp)\n"
	"\n"
	"Prints tables in Markdown, times in ms: medians, in brackets the least. "
	"Compare\nratios, and only those of one run. Must be root for "
	"--prepare.\n";

enum { MAX_LIST = 8 };

struct options {
	uint64_t sizes[MAX_LIST], threads[MAX_LIST];
	size_t num_sizes, num_threads;
	bool no_small, no_huge;
	bool full;
	uint32_t rounds;
	const char *only;
	uint64_t rate, window_ms;
	bool no_gcore;
	const char *dir;
};

/* ---- a cell: one size, one kind of pages, so many threads ---- */

static void raw_fork(struct bench_target *target, struct bench_cell *cell)
{
	bench_series_add(&cell->raw, bench_target_fork(target));
}

static void capture(struct bench_target *target, struct bench_cell *cell)
{
	struct hf_capture_report report;

	bench_target_longest_ns(target);
	report = bench_capture(target);
	bench_series_add(&cell->seen, bench_target_longest_ns(target));
	bench_series_add(&cell->pause, report.pause_ns);
	bench_series_add(&cell->stop, report.stop_ns);
	bench_series_add(&cell->regs, report.regs_ns);
	bench_series_add(&cell->fork, report.fork_ns);
	bench_series_add(&cell->resume, report.resume_ns);
	bench_series_add(&cell->threads_ns,
			 report.pause_ns - report.fork_ns);
	if (report.max_thread_calls > cell->calls)
		cell->calls = report.max_thread_calls;
}

static void slow_ways(struct bench_target *target, struct bench_cell *cell,
		      const char *dir)
{
	uint64_t ns;

	bench_target_longest_ns(target);
	if (bench_gcore(target, dir))
		bench_series_add(&cell->gcore, bench_target_longest_ns(target));
	bench_stop_and_copy(target, dir, &ns);
	bench_series_add(&cell->copy, ns);
}

static void measure(struct bench_target *target, struct bench_cell *cell,
		    const struct options *options, bool slow)
{
	for (uint32_t i = 0; i < options->rounds; i++) {
		/* Neither is always the first after the slow ones. */
		if (i % 2) {
			raw_fork(target, cell);
			capture(target, cell);
		} else {
			capture(target, cell);
			raw_fork(target, cell);
		}
		if (slow)
			slow_ways(target, cell, options->dir);
	}
	cell->huge_share = bench_target_huge_share(target);
	bench_cell_print(cell);
}

/* 4 GiB of small pages take minutes to write: a few rounds of that. */
static bool is_slow_cell(const struct options *options, uint64_t mib,
			 uint32_t threads)
{
	if (options->no_gcore)
		return false;
	return !options->full || mib <= 1024 || threads == 8;
}

static void cells_of(const struct options *options, uint64_t mib, bool huge,
		     struct bench_goals *goals)
{
	struct bench_target target;

	if (bench_available_bytes() < 3 * mib * MIB + 512 * MIB) {
		printf("| %" PRIu64 " | | | left out: not enough memory |\n",
		       mib);
		return;
	}
	bench_target_start(&target, mib * MIB, huge);
	for (size_t i = 0; i < options->num_threads; i++) {
		struct bench_cell cell = {
			.mib = mib, .huge = huge,
			.threads = (uint32_t)options->threads[i],
		};

		/* Between the sizes, for one goal only. */
		if (options->full && mib == 500 && cell.threads != 8)
			continue;
		bench_target_threads(&target, cell.threads);
		measure(&target, &cell, options,
			is_slow_cell(options, mib, cell.threads));
		bench_goals_take(goals, &cell);
		if (cell.threads == 1 || cell.threads > 64 || mib > 1024 ||
		    mib == 500)
			continue;

		struct bench_cell busy = {
			.mib = mib, .huge = huge, .threads = cell.threads,
			.busy = true,
		};

		bench_target_spin(&target, true);
		measure(&target, &busy, options, false);
		bench_target_spin(&target, false);
	}
	bench_target_end(&target);
}

static void bench_cells(const struct options *options,
			struct bench_goals *goals)
{
	printf("\n### Pause, %" PRIu32 " rounds in turn; ms\n\n",
	       options->rounds);
	bench_cell_print_head();
	for (size_t i = 0; i < options->num_sizes; i++)
		for (int huge = 0; huge < 2; huge++)
			if (huge ? !options->no_huge : !options->no_small)
				cells_of(options, options->sizes[i], huge,
					 goals);
}

/* ---- with and without --prepare ---- */

static void bench_prepare(const struct options *options, uint64_t mib,
			  struct bench_goals *goals)
{
	struct bench_cell without = { .mib = mib, .threads = 8 };
	struct bench_cell with = without;
	struct bench_series elapsed = { .num = 0 }, longest = { .num = 0 };
	struct hf_prepare_report report = { 0 };
	struct bench_target target;
	bool done = true;

	bench_target_start(&target, mib * MIB, false);
	bench_target_threads(&target, 8);
	for (uint32_t i = 0; i < options->rounds && done; i++) {
		struct hf_error *err;

		bench_target_do(&target, BENCH_REFILL, 0);
		for (int k = 0; k < 2; k++) {
			capture(&target, &without);
			raw_fork(&target, &without);
		}
		without.huge_share = bench_target_huge_share(&target);
		err = hf_prepare(&(struct hf_prepare_options){
					 .pid = target.pid }, &report);
		if (err) {
			printf("\n--prepare: %s%s%s\n", err->message,
			       err->cause ? ": " : "",
			       err->cause ? err->cause : "");
			hf_error_destroy(err);
			done = false;
			break;
		}
		bench_series_add(&elapsed, report.elapsed_ns);
		bench_series_add(&longest, report.longest_ns);
		for (int k = 0; k < 2; k++) {
			capture(&target, &with);
			raw_fork(&target, &with);
		}
		with.huge_share = bench_target_huge_share(&target);
	}
	bench_target_end(&target);
	if (!done)
		return;
	printf("\n### --prepare, %" PRIu64 " MiB, 8 threads, %" PRIu32
	       " rounds of 2; ms\n\n", mib, options->rounds);
	bench_cell_print_head();
	bench_cell_print(&without);
	bench_cell_print(&with);
	printf("\nPause without : with = %.1f : 1. Prepared %" PRIu64
	       " blocks of 2 MiB in %.0f ms (longest step %.1f ms; medians), "
	       "refused %" PRIu64 ".\n",
	       bench_ratio(&without.pause, &with.pause), report.num_blocks,
	       bench_median_ms(&elapsed), bench_median_ms(&longest),
	       report.num_refused);
	fflush(stdout);
	bench_goals_take_prepare(goals, &without, &with);
}

/* ---- the command line ---- */

static _Noreturn void die_usage(const char *what)
{
	fprintf(stderr, "bench_pause: %s\n%s", what, usage);
	exit(2);
}

static uint64_t number(const char *text, char **end, uint64_t min,
		       uint64_t max)
{
	uint64_t value = strtoull(text, end, 10);

	if (*end == text || value < min || value > max)
		die_usage("not a number that makes sense");
	return value;
}

static uint64_t whole_number(const char *text, uint64_t min, uint64_t max)
{
	char *end;
	uint64_t value = number(text, &end, min, max);

	if (*end)
		die_usage("not a number");
	return value;
}

static size_t list(char *text, uint64_t values[MAX_LIST], uint64_t min,
		   uint64_t max)
{
	size_t num = 0;

	while (num < MAX_LIST) {
		values[num++] = number(text, &text, min, max);
		if (!*text)
			return num;
		if (*text++ != ',')
			break;
	}
	die_usage("a list of up to eight numbers, with commas");
}

static void set_full(struct options *options)
{
	static const uint64_t sizes[] = { 64, 500, 1024, 4096 };
	static const uint64_t threads[] = { 1, 8, 64, 256 };

	options->full = true;
	memcpy(options->sizes, sizes, sizeof(sizes));
	options->num_sizes = 4;
	memcpy(options->threads, threads, sizeof(threads));
	options->num_threads = 4;
	options->rounds = 7;
}

static void parse(int argc, char **argv, struct options *options)
{
	enum { QUICK, FULL, SIZES, THREADS, PAGES, ROUNDS, ONLY, RATE,
	       WINDOW, NO_GCORE, DIR };
	static const struct option table[] = {
		{ "quick", no_argument, NULL, QUICK },
		{ "full", no_argument, NULL, FULL },
		{ "sizes", required_argument, NULL, SIZES },
		{ "threads", required_argument, NULL, THREADS },
		{ "pages", required_argument, NULL, PAGES },
		{ "rounds", required_argument, NULL, ROUNDS },
		{ "only", required_argument, NULL, ONLY },
		{ "rate", required_argument, NULL, RATE },
		{ "window", required_argument, NULL, WINDOW },
		{ "no-gcore", no_argument, NULL, NO_GCORE },
		{ "dir", required_argument, NULL, DIR },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int key;

	while ((key = getopt_long(argc, argv, "h", table, NULL)) != -1) {
		switch (key) {
		case QUICK:
			break;
		case FULL:
			set_full(options);
			break;
		case SIZES:
			options->num_sizes = list(optarg, options->sizes, 1,
						  1 << 20);
			break;
		case THREADS:
			options->num_threads = list(optarg, options->threads,
						    1, BENCH_MAX_THREADS);
			break;
		case PAGES:
			options->no_huge = !strcmp(optarg, "4k");
			options->no_small = !strcmp(optarg, "huge");
			if (options->no_huge == options->no_small)
				die_usage("--pages 4k or --pages huge");
			break;
		case ROUNDS:
			options->rounds = (uint32_t)whole_number(
				optarg, 1, BENCH_MAX_ROUNDS);
			break;
		case ONLY:
			options->only = optarg;
			if (strcmp(optarg, "pause") &&
			    strcmp(optarg, "requests") &&
			    strcmp(optarg, "prepare"))
				die_usage("--only pause, requests or prepare");
			break;
		case RATE:
			options->rate = whole_number(optarg, 4, 20000);
			break;
		case WINDOW:
			options->window_ms = whole_number(optarg, 20, 60000);
			break;
		case NO_GCORE:
			options->no_gcore = true;
			break;
		case DIR:
			options->dir = optarg;
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			die_usage("unknown option");
		}
	}
	if (optind < argc)
		die_usage("no arguments are expected");
}

static bool wanted(const struct options *options, const char *part)
{
	return !options->only || !strcmp(options->only, part);
}

int main(int argc, char **argv)
{
	struct options options = {
		.sizes = { 64 }, .num_sizes = 1,
		.threads = { 1, 8 }, .num_threads = 2,
		.rounds = 5, .rate = 4000, .window_ms = 1000,
		.dir = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp",
	};
	struct bench_goals goals = { 0 };

	parse(argc, argv, &options);
	bench_print_machine();
	goals.null_call_ns = bench_null_call_ns();
	goals.null_ptrace_ns = bench_null_ptrace_ns();
	goals.wake_ns = bench_wake_ns();
	printf("Null call %.2f µs, of ptrace %.2f µs; wake %.2f µs.\n",
	       goals.null_call_ns / 1e3, goals.null_ptrace_ns / 1e3,
	       goals.wake_ns / 1e3);
	if (wanted(&options, "pause"))
		bench_cells(&options, &goals);
	if (wanted(&options, "prepare"))
		bench_prepare(&options, options.full ? 1024 : options.sizes[0],
			      &goals);
	for (int huge = 0; wanted(&options, "requests") && huge < 2; huge++) {
		const struct bench_requests_options requests = {
			.bytes = (options.full ? 256 : 64) * MIB,
			.rate = options.rate,
			.rounds = options.full ? 5 : 1,
			.window_ns = options.window_ms * 1000000,
			.gcore = !options.no_gcore,
			.dir = options.dir,
		};

		if (huge ? !options.no_huge : !options.no_small)
			bench_requests(&requests, huge);
	}
	bench_goals_print(&goals);
	return 0;
}
