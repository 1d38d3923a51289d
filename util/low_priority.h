/* Low priority: work that yields to everybody else on the machine.
 * SPDX-License-Identifier: MIT */
#ifndef HF_UTIL_LOW_PRIORITY_H
#define HF_UTIL_LOW_PRIORITY_H

#include "util/error.h"

/**
 * Do work in a thread of its own that disturbs others less (SCHED_BATCH: it
 * waits for its turn; idle I/O class), and wait for it. The thread of the caller
 * keeps its priority: a process without privilege could not get it back.
 *
 * Signals stay with the other threads. If no thread can be started, the caller
 * does the work itself.
 *
 * @return what `work` returned.
 */
struct hf_error *hf_run_low_priority(struct hf_error *(*work)(void *arg),
				     void *arg) HF_MUST_CHECK;

/** In that work: from now on there is no hurry, and everybody else comes first
 * (nice + 10). For the calling thread alone, and for good. */
void hf_low_priority_no_hurry(void);

#endif
