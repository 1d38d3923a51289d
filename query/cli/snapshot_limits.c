/* Snapshot limits: how long a snapshot may stop its process, and take.
 * SPDX-License-Identifier: MIT */
#include "query/cli/snapshot_limits.h"

#include <inttypes.h>

#include "fork-agent/predict.h"
#include "indexer/db/snapshot_row.h"

/* --timeout ends the work at the places where Ctrl-C does: the target runs on
 * and nothing is left behind, wherever it is. */

enum { NS_PER_MS = 1000 * 1000 };

static struct hf_error *cannot_tell(struct hf_error *err, uint64_t limit_ms)
{
	/* No process, or no right to it, is what it is. */
	if (err->code == HF_ERROR_TARGET_GONE ||
	    err->code == HF_ERROR_PERMISSION ||
	    err->code == HF_ERROR_NO_MEMORY)
		return err;
	err->code = HF_ERROR_TOO_LONG;
	return hf_error_fix(err, "without --max-pause %" PRIu64 " the "
			    "snapshot is taken all the same", limit_ms);
}

static struct hf_error *too_long(const struct hf_prediction *prediction,
				 pid_t pid, uint64_t limit_ms)
{
	struct hf_error *err = hf_error_create(
		HF_ERROR_TOO_LONG, "process %d would be paused for about %.1f "
		"ms: longer than --max-pause %" PRIu64, pid,
		(double)prediction->pause_ns / 1e6, limit_ms);

	err = hf_error_cause(err, "threads %.1f ms (%" PRIu32 "), fork %.1f "
			     "ms, as measured here with a process of our own",
			     (double)prediction->threads_ns / 1e6,
			     prediction->num_threads,
			     (double)prediction->fork_ns / 1e6);
	return hf_error_fix(err, "heapfork doctor %d tells more; allow more, "
			    "or shorten it with --prepare", pid);
}

struct hf_error *
hf_snapshot_check_pause(const struct hf_snapshot_options *options, pid_t pid,
			uint64_t *pause_ns_ret)
{
	uint64_t limit_ms = options->max_pause_ms;
	struct hf_prediction prediction;
	struct hf_error *err;

	*pause_ns_ret = HF_UNKNOWN_U64;
	if (options->mode != HF_CAPTURE_FORK ||
	    (!limit_ms && !options->cli->verbose))
		return NULL;
	err = hf_predict(pid, &prediction);
	if (err && limit_ms)
		return cannot_tell(err, limit_ms);
	if (err) {
		hf_error_ignore(err);
		return NULL;
	}
	*pause_ns_ret = prediction.pause_ns;
	if (limit_ms && prediction.pause_ns > limit_ms * NS_PER_MS)
		return too_long(&prediction, pid, limit_ms);
	return NULL;
}

uint64_t hf_snapshot_timeout_begin(const struct hf_snapshot_options *options)
{
	if (!options->timeout_s)
		return 0;
	hf_signals_arm(options->timeout_s);
	return hf_now_ns() + options->timeout_s * 1000 * NS_PER_MS;
}

struct hf_error *
hf_snapshot_timeout_end(const struct hf_snapshot_options *options, pid_t pid,
			struct hf_error *err)
{
	if (!options->timeout_s || !hf_signals_disarm() || !err ||
	    err->code != HF_ERROR_INTERRUPTED)
		return err;
	hf_error_destroy(err);
	err = hf_error_create(HF_ERROR_TIMEOUT, "no snapshot of process %d "
			      "within --timeout %" PRIu64 ": given up", pid,
			      options->timeout_s);
	return hf_error_cause(err, "capture and index took longer; the "
			      "process runs on");
}
