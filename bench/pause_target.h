/* The target of the bench of the pause: a process of our own.
 * SPDX-License-Identifier: MIT */
#ifndef HF_BENCH_PAUSE_TARGET_H
#define HF_BENCH_PAUSE_TARGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* It has a table of so many bytes, in pages of one kind, and threads. Its main
 * thread sleeps for 100 us, again and again, and keeps the longest time that it
 * did not come back: what a stop is to the program itself, whoever makes it. It
 * also does what it is told. All others sleep, spin, or serve requests. */

enum {
	BENCH_MAX_THREADS = 256,
	BENCH_REQUEST_THREADS = 4,
	BENCH_MAX_REQUESTS = 65536, /* kept for each thread */
};

struct bench_request {
	uint64_t due_ns;     /* monotonic: when it should have been served */
	uint64_t latency_ns; /* from then to its end */
	uint64_t service_ns; /* from its begin to its end */
};

/** Shared by tool and target. */
struct bench_shared {
	_Atomic uint32_t command;  /* a bench_command; 0 once it is done */
	uint64_t argument;
	uint64_t fork_ns;          /* of the last raw fork */
	_Atomic uint32_t failed;   /* a command was not carried out */
	_Atomic uint64_t longest_ns; /* see above; the tool resets it */
	_Atomic uint32_t spin;     /* 1: all threads but the main one spin */
	_Atomic uint32_t serve;    /* 1: the first four serve requests */
	uint64_t start_ns;         /* requests begin here ... */
	uint64_t period_ns;        /* ... each thread has one in this time */
	_Atomic uint64_t num_requests[BENCH_REQUEST_THREADS]; /* so far */
	struct bench_request requests[BENCH_REQUEST_THREADS]
				     [BENCH_MAX_REQUESTS];
};

enum bench_command {
	BENCH_FORK = 1, /* fork; the child lives for `argument` ns */
	BENCH_THREADS,  /* have `argument` threads; there are never less */
	BENCH_REFILL,   /* give the table back, and fill it anew */
	BENCH_END,
};

struct bench_target {
	pid_t pid;
	uint64_t bytes, table; /* of the table; its address there */
	bool huge;
	uint32_t num_threads;
	struct bench_shared *shared;
};

/** Start one with a single thread. Ends the program on failure. */
void bench_target_start(struct bench_target *target, uint64_t bytes,
			bool huge);

/** Wait until it is done. Ends the program on failure. */
void bench_target_do(struct bench_target *target, enum bench_command command,
		     uint64_t argument);

/** In the target: how long a raw fork took. */
uint64_t bench_target_fork(struct bench_target *target);

/** As asked for, or more, if it has more. */
void bench_target_threads(struct bench_target *target, uint32_t num);

/** Busy threads, or idle ones. */
void bench_target_spin(struct bench_target *target, bool spin);

/** Longest time since the last call that the target was not there. */
uint64_t bench_target_longest_ns(struct bench_target *target);

/** Of the table, in huge pages: 0 .. 1. */
double bench_target_huge_share(const struct bench_target *target);

void bench_target_end(struct bench_target *target);

/** Print and end the program. */
_Noreturn void bench_die(const char *what);

#endif
