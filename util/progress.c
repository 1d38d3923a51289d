/* How far the work is, and whether the user wants it to stop.
 * SPDX-License-Identifier: MIT */
#include "util/progress.h"

#include <time.h>

struct hf_error *hf_progress_update(const struct hf_progress *progress,
				    const char *phase, uint64_t done,
				    uint64_t total)
{
	if (!progress)
		return NULL;
	if (progress->cancelled && *progress->cancelled)
		return hf_error_create(HF_ERROR_INTERRUPTED,
				       "stopped by the user");
	if (progress->show)
		progress->show(progress->arg, phase, done, total);
	return NULL;
}

uint64_t hf_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void hf_progress_phase_done(const struct hf_progress *progress,
			    const char *phase, uint64_t items,
			    uint64_t start_ns, uint64_t peak_bytes)
{
	if (progress && progress->phase_done)
		progress->phase_done(progress->arg, phase, items,
				     hf_now_ns() - start_ns, peak_bytes);
}
