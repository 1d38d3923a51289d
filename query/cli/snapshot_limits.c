/* Snapshot limits: how long a snapshot may stop its process, and take.
 * SPDX-License-Identifier: MIT */
#include "query/cli/snapshot_limits.h"

#include <inttypes.h>

#include "fork-agent/predict.h"
#include "fork-agent/preflight.h"
#include "indexer/db/snapshot_row.h"

/* --timeout ends the work at the places where Ctrl-C does: the target runs on
 * and nothing is left behind, wherever it is. */

static struct hf_error *cannot_tell(struct hf_error *err, uint64_t limit_ns)
{
	/* It may have ended in between. */
	if (err->code == HF_ERROR_TARGET_GONE ||
	    err->code == HF_ERROR_PERMISSION ||
	    err->code == HF_ERROR_NO_MEMORY)
		return err;
	err->code = HF_ERROR_TOO_LONG;
	return hf_error_fix(err, "without --max-pause %.10g the "
			    "snapshot is taken all the same",
			    (double)limit_ns / 1e6);
}

static struct hf_error *too_long(const struct hf_prediction *prediction,
				 pid_t pid, const struct hf_snapshot_options *options)
{
	struct hf_error *err = hf_error_create(
		HF_ERROR_TOO_LONG, "process %d would be paused for about %.1f "
		"ms: longer than --max-pause %.10g", pid,
		(double)prediction->pause_ns / 1e6,
		(double)options->max_pause_ns / 1e6);

	err = hf_error_cause(err, "threads %.1f ms (%" PRIu32 "), fork %.1f "
			     "ms, as measured here with a process of our own",
			     (double)prediction->threads_ns / 1e6,
			     prediction->num_threads,
			     (double)prediction->fork_ns / 1e6);
	return hf_error_fix(err, "heapfork doctor %d tells more; allow more%s",
			    pid, options->prepare ?
				    "" : ", or shorten it with --prepare");
}

struct hf_error *
hf_snapshot_check_pause(const struct hf_snapshot_options *options, pid_t pid,
			uint64_t *pause_ns_ret)
{
	uint64_t limit_ns = options->max_pause_ns;
	struct hf_prediction prediction;
	struct hf_target target;
	struct hf_error *err;

	*pause_ns_ret = HF_UNKNOWN_U64;
	if (options->mode != HF_CAPTURE_FORK ||
	    (!limit_ns && !options->cli->verbose))
		return NULL;
	/* No process, or no right to it, is what it is. */
	err = hf_preflight_check(pid, &target);
	if (err) {
		/* ... which the capture itself would say, too. */
		if (limit_ns)
			return err;
		hf_error_ignore(err);
		return NULL;
	}
	err = hf_predict(pid, &prediction);
	if (err && limit_ns)
		return cannot_tell(err, limit_ns);
	if (err) {
		hf_error_ignore(err);
		return NULL;
	}
	*pause_ns_ret = prediction.pause_ns;
	if (limit_ns && prediction.pause_ns > limit_ns)
		return too_long(&prediction, pid, options);
	return NULL;
}

uint64_t hf_snapshot_timeout_begin(const struct hf_snapshot_options *options)
{
	if (!options->timeout_ns)
		return 0;
	hf_signals_arm(options->timeout_ns);
	return hf_now_ns() + options->timeout_ns;
}

struct hf_error *
hf_snapshot_timeout_end(const struct hf_snapshot_options *options, pid_t pid,
			struct hf_error *err)
{
	if (!options->timeout_ns || !hf_signals_disarm() || !err ||
	    err->code != HF_ERROR_INTERRUPTED)
		return err;
	hf_error_destroy(err);
	err = hf_error_create(HF_ERROR_TIMEOUT, "no snapshot of process %d "
			      "within --timeout %.10g: given up", pid,
			      (double)options->timeout_ns / 1e9);
	return hf_error_cause(err, "capture and index took longer; the "
			      "process runs on");
}
