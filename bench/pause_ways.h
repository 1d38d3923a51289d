/* The ways to get a process's memory that the bench of the pause compares.
 * SPDX-License-Identifier: MIT */
#ifndef HF_BENCH_PAUSE_WAYS_H
#define HF_BENCH_PAUSE_WAYS_H

#include "bench/pause_target.h"
#include "fork-agent/capture.h"

/** Capture and release at once. Exits with 77 if ptrace is forbidden here, with
 * 1 after any other error. @return the report. */
struct hf_capture_report bench_capture(struct bench_target *target);

/** What becomes of the child while the target serves requests. */
enum bench_child {
	BENCH_CHILD_KEPT,    /* read, then kept for `life_ns` */
	BENCH_CHILD_DROPPED, /* the same, each page given back once it is read */
	BENCH_CHILD_READ,    /* let go as soon as it was read */
	BENCH_CHILD_COPIED,  /* as `heapfork snapshot` does: copied out, at low
			      * priority, given back piece by piece, let go */
};

/** Capture, read the table from the child, wait, release. `life_ns` is for a
 * child that is kept. */
struct hf_capture_report bench_capture_read(struct bench_target *target,
					    enum bench_child child,
					    uint64_t life_ns);

/** gdb's gcore into folder `dir`; the file is removed. @return false if there
 * is no gdb, or it failed. */
bool bench_gcore(const struct bench_target *target, const char *dir);

/** SIGSTOP, copy the private writable memory to a file in `dir`, SIGCONT. The
 * file is removed. @param stopped_ns_ret SIGSTOP to SIGCONT. */
void bench_stop_and_copy(const struct bench_target *target, const char *dir,
			 uint64_t *stopped_ns_ret);

/** End the program with the words of an error, if it is one. */
void bench_require(struct hf_error *err);

#endif
