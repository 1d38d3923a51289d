/* Goals of the pause: rows of the bench's table, and whether they are met.
 * SPDX-License-Identifier: MIT */
#include "bench/pause_goals.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void bench_cell_print_head(void)
{
	printf("| MiB | pages | threads | heapfork | own fork | ratio | stop | "
	       "registers | fork | resume | seen | gcore | × | SIGSTOP, copy | "
	       "× |\n"
	       "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
	       "\n");
}

/* What is slower, and how many times. */
static void print_slow(const struct bench_cell *cell,
		       const struct bench_series *series)
{
	if (series->num)
		printf(" %.0f | %.0f |", bench_median_ms(series),
		       bench_ratio(series, &cell->pause));
	else
		printf(" – | – |");
}

void bench_cell_print(const struct bench_cell *cell)
{
	char pages[32];

	if (cell->huge_share <= 0.02)
		snprintf(pages, sizeof(pages), "4 KiB");
	else if (cell->huge_share >= 0.98)
		snprintf(pages, sizeof(pages), "2 MiB");
	else
		snprintf(pages, sizeof(pages), "%.0f %% in 2 MiB",
			 cell->huge_share * 100);
	printf("| %" PRIu64 " | %s | %" PRIu32 "%s | %.2f (%.2f) | %.2f (%.2f) "
	       "| %.2f | %.2f | %.2f | %.2f | %.2f | %.2f |",
	       cell->mib, pages, cell->threads, cell->busy ? " busy" : "",
	       bench_median_ms(&cell->pause), bench_min_ms(&cell->pause),
	       bench_median_ms(&cell->raw), bench_min_ms(&cell->raw),
	       bench_ratio(&cell->pause, &cell->raw),
	       bench_median_ms(&cell->stop), bench_median_ms(&cell->regs),
	       bench_median_ms(&cell->fork), bench_median_ms(&cell->resume),
	       bench_median_ms(&cell->seen));
	print_slow(cell, &cell->gcore);
	print_slow(cell, &cell->copy);
	printf("\n");
	fflush(stdout);
}

__attribute__((format(printf, 6, 7))) static void
judge(struct bench_goals *goals, double goal, bool at_least, double measured,
      double least, const char *format, ...)
{
	struct bench_verdict *verdict;
	va_list args;

	if (goals->num == BENCH_MAX_VERDICTS || measured <= 0)
		return;
	verdict = &goals->verdicts[goals->num++];
	verdict->goal = goal;
	verdict->at_least = at_least;
	verdict->measured = measured;
	verdict->least = least;
	va_start(args, format);
	vsnprintf(verdict->what, sizeof(verdict->what), format, args);
	va_end(args);
}

void bench_goals_take(struct bench_goals *goals, const struct bench_cell *cell)
{
	const char *pages = cell->huge ? "2 MiB" : "4 KiB";
	double ns = bench_median_ms(&cell->threads_ns) * 1e6 / cell->threads;
	double least_ns = bench_min_ms(&cell->threads_ns) * 1e6 /
			  cell->threads;
	double calls[] = { goals->null_call_ns, goals->null_ptrace_ns };
	const char *names[] = { "null calls", "null calls of ptrace" };

	if (cell->busy)
		return;
	if (!cell->huge && cell->mib >= 1024 && cell->threads <= 8)
		judge(goals, 1.2, false, bench_ratio(&cell->pause, &cell->raw),
		      bench_least_ratio(&cell->pause, &cell->raw),
		      "pause : own fork, %" PRIu64 " MiB, %s, %" PRIu32
		      " threads", cell->mib, pages, cell->threads);
	/* With few threads what is done once in a pause is most of it. */
	for (int i = 0; i < 2 && cell->calls && !cell->huge &&
			cell->mib <= 64 && cell->threads >= 64; i++) {
		double own = cell->calls * calls[i] + goals->wake_ns;

		judge(goals, 1.5, false, ns / own,
		      least_ns / own,
		      "stop, registers, resume a thread (%.1f µs) : %" PRIu32
		      " %s and a wake (%.1f µs), %" PRIu32 " threads",
		      ns / 1e3, cell->calls, names[i], own / 1e3,
		      cell->threads);
	}
	if (cell->mib == 500)
		judge(goals, 20, true, bench_ratio(&cell->gcore, &cell->pause),
		      bench_least_ratio(&cell->gcore, &cell->pause),
		      "gcore : pause, 500 MiB, %s, %" PRIu32 " threads", pages,
		      cell->threads);
}

void bench_goals_take_prepare(struct bench_goals *goals,
			      const struct bench_cell *without,
			      const struct bench_cell *with)
{
	if (with->mib >= 1024)
		judge(goals, 10, true,
		      bench_ratio(&without->pause, &with->pause),
		      bench_least_ratio(&without->pause, &with->pause),
		      "pause without : with --prepare, %" PRIu64 " MiB",
		      with->mib);
}

void bench_goals_print(const struct bench_goals *goals)
{
	printf("\n### Goals\n\n");
	if (!goals->num) {
		printf("None was measured: they are about 500 MiB and more "
		       "(--full).\n");
		return;
	}
	printf("| what | goal | medians | least times | met |\n"
	       "|---|---|---|---|---|\n");
	for (uint32_t i = 0; i < goals->num; i++) {
		const struct bench_verdict *verdict = &goals->verdicts[i];
		bool met = verdict->at_least ?
				   verdict->measured >= verdict->goal :
				   verdict->measured <= verdict->goal;

		printf("| %s | %s %.1f | %.2f | %.2f | %s |\n", verdict->what,
		       verdict->at_least ? "≥" : "≤", verdict->goal,
		       verdict->measured, verdict->least, met ? "yes" : "no");
	}
}
