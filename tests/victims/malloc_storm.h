/* Malloc storm: what its threads hold, in memory of the victim itself.
 * SPDX-License-Identifier: MIT */
#ifndef HF_TESTS_VICTIMS_MALLOC_STORM_H
#define HF_TESTS_VICTIMS_MALLOC_STORM_H

#include <stdint.h>

/* The log is private memory: a frozen child has it as it was at the instant,
 * together with the heap. A thread writes its operation down, and the block it
 * gives away, before it calls malloc.c, and the block it got afterwards:
 *
 *	malloc    op = 1; slot = malloc(); op = 0
 *	free      op_ptr = slot; op = 1; slot = 0; free(op_ptr); op = 0
 *	realloc   op_ptr = slot; op = 1; slot = 0; slot = realloc(op_ptr); ...
 *
 * So what is in a slot is live, unless it is op_ptr of a thread with op set;
 * and each such thread may have one block that is in no slot yet. */

enum {
	STORM_THREADS = 64,
	STORM_SLOTS = 128,
};

struct storm_thread {
	uint64_t op;      /* 1: a call is under way */
	uint64_t op_ptr;  /* block that it gives away; 0: none */
	uint64_t num_ops; /* calls so far */
	uint64_t slots[STORM_SLOTS];
};

struct storm_log {
	uint64_t num_threads;
	struct storm_thread threads[STORM_THREADS];
};

#endif
