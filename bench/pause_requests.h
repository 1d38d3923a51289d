/* What a snapshot does to the requests a process serves meanwhile.
 * SPDX-License-Identifier: MIT */
#ifndef HF_BENCH_PAUSE_REQUESTS_H
#define HF_BENCH_PAUSE_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

struct bench_requests_options {
	uint64_t bytes;      /* of the table */
	uint64_t rate;       /* requests a second, of all threads */
	uint32_t rounds;
	uint64_t window_ns;  /* of the windows, and of a child that is kept */
	bool gcore;          /* and SIGSTOP with a copy */
	const char *dir;     /* for files */
};

/**
 * Four threads update 64 bytes each at random places of a table, at fixed
 * times; each way to get at the memory is taken `rounds` times, in turn. Prints
 * latencies in windows before, during and after, and what pages cost that were
 * copied.
 */
void bench_requests(const struct bench_requests_options *options, bool huge);

#endif
