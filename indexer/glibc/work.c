/* Work: poll for the user's wish to stop.
 * SPDX-License-Identifier: MIT */
#include "indexer/glibc/work.h"

bool hf_work_poll(struct hf_work *work)
{
	struct hf_error *err;

	if (work->stopped)
		return false;
	err = hf_progress_update(work->progress, work->phase, work->num, 0);
	work->stopped = err != NULL;
	hf_error_ignore(err); /* hf_work_check makes it again */
	return !work->stopped;
}

struct hf_error *hf_work_check(const struct hf_work *work)
{
	if (!work->stopped)
		return NULL;
	return hf_error_create(HF_ERROR_INTERRUPTED, "stopped by the user");
}
