/* Goals of the pause: rows of the bench's table, and whether they are met.
 * SPDX-License-Identifier: MIT */
#ifndef HF_BENCH_PAUSE_GOALS_H
#define HF_BENCH_PAUSE_GOALS_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/pause_stats.h"

/** One row: so much memory, in such pages, so many threads. */
struct bench_cell {
	uint64_t mib;
	bool huge, busy;
	uint32_t threads;
	double huge_share;         /* of the table, in the end */
	struct bench_series raw;   /* fork, by the target itself */
	struct bench_series pause, stop, regs, fork, resume; /* heapfork */
	struct bench_series threads_ns; /* pause without the fork */
	struct bench_series seen;  /* heapfork: as the target saw it */
	struct bench_series gcore; /* as the target saw it */
	struct bench_series copy;  /* SIGSTOP to SIGCONT */
	uint32_t calls;            /* most for one thread */
};

void bench_cell_print_head(void);
void bench_cell_print(const struct bench_cell *cell);

enum { BENCH_MAX_VERDICTS = 64 };

struct bench_verdict {
	char what[160];
	double goal, measured; /* of medians */
	double least;          /* of the least times; 0: not told */
	bool at_least; /* or at most */
};

struct bench_goals {
	double null_call_ns, null_ptrace_ns, wake_ns; /* of this machine */
	struct bench_verdict verdicts[BENCH_MAX_VERDICTS];
	uint32_t num;
};

/** Judge the goals that this cell is for. */
void bench_goals_take(struct bench_goals *goals,
		      const struct bench_cell *cell);

void bench_goals_take_prepare(struct bench_goals *goals,
			      const struct bench_cell *without,
			      const struct bench_cell *with);

void bench_goals_print(const struct bench_goals *goals);

#endif
