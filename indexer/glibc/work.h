/* Work: counts what is done in loops over the target's data, and stops them.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_GLIBC_WORK_H
#define HF_INDEXER_GLIBC_WORK_H

#include <stdint.h>

#include "util/progress.h"

/* Many of the loops are in functions that answer yes or no: they count each
 * turn, end early once the user wants to stop, and whoever called them asks
 * hf_work_check() before it believes the answer. */

enum { HF_WORK_POLL = 1024 }; /* turns, of some microseconds at most */

struct hf_work {
	const struct hf_progress *progress; /* borrowed; may be NULL */
	const char *phase;                  /* for progress; static */
	uint64_t num;                       /* turns so far, of all loops */
	bool stopped;                       /* by the user; stays */
};

/** Ask the user. @return false: stop. */
bool hf_work_poll(struct hf_work *work);

/** Count one turn of a loop. @return false: give up. */
static inline bool hf_work_step(struct hf_work *work)
{
	return !work->stopped &&
	       (++work->num % HF_WORK_POLL != 0 || hf_work_poll(work));
}

/** @return NULL, or INTERRUPTED if a loop gave up. */
struct hf_error *hf_work_check(const struct hf_work *work) HF_MUST_CHECK;

/** Both: for loops that return errors. */
static inline struct hf_error *hf_work_turn(struct hf_work *work)
{
	return hf_work_step(work) ? NULL : hf_work_check(work);
}

#endif
