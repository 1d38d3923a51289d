/* How far the work is, and whether the user wants it to stop.
 * SPDX-License-Identifier: MIT */
#ifndef HF_UTIL_PROGRESS_H
#define HF_UTIL_PROGRESS_H

#include <signal.h>

#include "util/error.h"

/**
 * Given by the command line to long work. Library code reports and polls; it
 * never prints. A NULL progress is fine everywhere.
 */
struct hf_progress {
	/** Show `done` of `total` (0: unknown) of `phase`. May be NULL. */
	void (*show)(void *arg, const char *phase, uint64_t done,
		     uint64_t total);
	void *arg;
	/** Nonzero once the user asked to stop (set by a signal handler). */
	const volatile sig_atomic_t *cancelled;
	/** Called when a phase ends: items done, elapsed, peak bytes of its own
	 * arrays (0: not counted). May be NULL. */
	void (*phase_done)(void *arg, const char *phase, uint64_t items,
			   uint64_t elapsed_ns, uint64_t peak_bytes);
};

/** Report and poll. @return NULL, or INTERRUPTED once cancelled. Call it every
 * few milliseconds of work. */
struct hf_error *hf_progress_update(const struct hf_progress *progress,
				    const char *phase, uint64_t done,
				    uint64_t total) HF_MUST_CHECK;

/** Monotonic clock in nanoseconds. */
uint64_t hf_now_ns(void);

/** Tell phase_done that `phase`, begun at `start_ns`, is over. */
void hf_progress_phase_done(const struct hf_progress *progress,
			    const char *phase, uint64_t items,
			    uint64_t start_ns, uint64_t peak_bytes);

#endif
