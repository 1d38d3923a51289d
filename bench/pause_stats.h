/* Statistics of the bench of the pause: series of times, and the machine.
 * SPDX-License-Identifier: MIT */
#ifndef HF_BENCH_PAUSE_STATS_H
#define HF_BENCH_PAUSE_STATS_H

#include <stddef.h>
#include <stdint.h>

enum { BENCH_MAX_ROUNDS = 64 };

/** Times of one thing, one a round. All zero: none yet. */
struct bench_series {
	uint64_t ns[BENCH_MAX_ROUNDS];
	size_t num;
};

/** What comes after BENCH_MAX_ROUNDS is dropped. */
void bench_series_add(struct bench_series *series, uint64_t ns);

/** In ms; 0 if there are none. */
double bench_median_ms(const struct bench_series *series);
double bench_min_ms(const struct bench_series *series);

/** a : b of the medians, and of the least; 0 if either is not there. On a busy
 * machine the least says more of the work, the medians of the waiting. */
double bench_ratio(const struct bench_series *a, const struct bench_series *b);
double bench_least_ratio(const struct bench_series *a,
			 const struct bench_series *b);

/** Sort, for bench_quantile. */
void bench_sort(uint64_t *values, size_t num);

/** Of sorted values: the smallest that `share` (0 .. 1) of them do not exceed;
 * 0 if there are none. */
uint64_t bench_quantile(const uint64_t *sorted, size_t num, double share);

/** Print what decides the numbers: processor, kernel, huge pages, load. */
void bench_print_machine(void);

/** Bytes that processes could still get, or 0 if not known. */
uint64_t bench_available_bytes(void);

#endif
