/* Snapshot take: one snapshot of one process into one file.
 * SPDX-License-Identifier: MIT */
#include "query/cli/snapshot_take.h"

#include "indexer/safe_point.h"
#include "query/cli/progress.h"
#include "query/cli/snapshot_core.h"
#include "query/cli/snapshot_limits.h"
#include "query/cli/snapshot_prepare.h"
#include "query/cli/snapshot_record.h"
#include "query/cli/snapshot_report.h"
#include "util/low_priority.h"
#include "util/output.h"
#include "util/parse.h"

/* What outlives single steps. */
struct work {
	struct hf_cli *cli;
	const struct hf_snapshot_options *options;
	const struct hf_progress *progress;
	const char *path;                 /* of the file that is written; NULL:
					   * only a core is */
	struct hf_snapshot_core core;
	struct hf_frozen *frozen;
	bool released;
	struct hf_image *image;           /* of the frozen, goes before it */
	struct hf_snapshot_record record;
	struct hf_index_summary *summary;
	struct hf_error *zombie; /* the child left one */
};

/* @return why what was read is worth nothing, if it is. */
static struct hf_error *let_go(struct work *work)
{
	const struct hf_capture_report *report;
	struct hf_error *err;

	if (!work->frozen || work->released)
		return NULL;
	work->released = true;
	err = hf_frozen_check(work->frozen);
	if (err)
		return err;
	err = hf_frozen_release(work->frozen);
	report = hf_frozen_report(work->frozen);
	if (report->mode == HF_CAPTURE_STOP) {
		hf_snapshot_report_pause(work->cli, report);
		return err;
	}
	if (err && err->code == HF_ERROR_NO_SPACE)
		return err;
	work->zombie = err;
	return NULL;
}

/* As long as the child lives a slow reader costs the process more than a fast
 * one does: it copies what it writes. From then on there is time. */
static void no_hurry(const struct work *work)
{
	if (work->options->mode == HF_CAPTURE_FORK)
		hf_low_priority_no_hurry();
}

/* The image was read for the last time: from here on the process is alone. */
static struct hf_error *image_done(void *arg)
{
	struct work *work = arg;
	bool was_released = work->released;
	struct hf_error *err = let_go(work);

	if (!was_released)
		no_hurry(work);
	hf_spool_discard(work->image);
	hf_snapshot_record_end(&work->record, hf_frozen_report(work->frozen));
	return err;
}

static struct hf_capture_options
capture_options(const struct hf_snapshot_options *options, pid_t pid,
		const struct hf_safe_point_finder *finder)
{
	return (struct hf_capture_options){
		.pid = pid,
		.mode = options->mode,
		.keep_free_bytes = options->keep_memory_free,
		.safe_point = options->no_safe_point ?
				      NULL : hf_safe_point_finder_ops(finder),
		.safe_point_tries = (uint32_t)options->safe_point_tries,
		.exact = options->exact,
		.stop_timeout_ms = (uint32_t)((options->stop_timeout_ns +
					       HF_PARSE_MS - 1) / HF_PARSE_MS),
		.cancelled = options->cli->cancelled,
	};
}

/* A copy is soon made, and then the child may go: before the index, which
 * takes longer. */
static struct hf_error *copy(struct work *work)
{
	const struct hf_copy_options options = {
		.way = work->options->spool_none ? HF_COPY_NEVER :
						   HF_COPY_AUTO,
		.dir = work->options->spool_dir,
		.progress = work->progress,
	};
	struct hf_copy_report *report = &work->record.copy;
	struct hf_error *err = hf_copy_out(work->frozen, work->image, &options,
					   report);

	if (!err && report->spool.is_whole) {
		err = let_go(work);
		no_hurry(work);
	}
	return err;
}

static struct hf_error *copy_and_index(void *arg)
{
	struct work *work = arg;
	struct hf_error *err;
	struct hf_index_options index = {
		.snapshot = &work->record.row,
		.image_done = image_done,
		.arg = work,
		.facts = work->record.facts,
		.num_facts = HF_SNAPSHOT_NUM_FACTS,
		.progress = work->progress,
	};
	const struct hf_copy_report *copied = &work->record.copy;

	err = copy(work);
	if (!err && work->options->mode == HF_CAPTURE_FORK &&
	    !work->options->spool_none)
		hf_snapshot_report_copy(work->cli, &copied->spool);
	if (!err)
		err = hf_snapshot_core_write(&work->core, work->image,
					     &work->record.row,
					     work->progress);
	if (!err && !work->path)
		return image_done(work);
	if (err)
		return err;
	if (copied->spool.place != HF_SPOOL_NOWHERE)
		index.before = (struct hf_index_phase){
			"copy", copied->elapsed_ns, copied->spool.copied_bytes,
			copied->spool.stored_bytes + copied->spool.table_bytes,
		};
	return hf_index(work->image, work->path, &index, work->summary);
}

static struct hf_error *take(struct work *work,
			     const struct hf_capture_options *capture)
{
	const struct hf_capture_report *report;
	struct hf_exit_hold *hold = work->options->at_exit;
	struct hf_error *err;

	err = hold ? hf_capture_at_exit(hold, capture->pid, &work->frozen) :
		     hf_capture(capture, &work->frozen);

	if (err)
		return err;
	report = hf_frozen_report(work->frozen);
	if (work->options->start_time &&
	    report->start_time != work->options->start_time)
		return hf_error_create(HF_ERROR_TARGET_GONE,
				       "process %d has ended, and its pid "
				       "belongs to another one now",
				       capture->pid);
	hf_snapshot_record_pause(&work->record, report);
	if (report->mode == HF_CAPTURE_FORK) {
		hf_snapshot_report_pause(work->cli, report);
		hf_snapshot_report_prediction(
			work->cli, report, work->record.predicted_pause_ns);
	}
	err = hf_frozen_open_image(work->frozen, &work->image);
	/* If the process runs again it comes before us; if it waits, it waits
	 * for us. */
	if (!err)
		err = report->mode == HF_CAPTURE_FORK ?
		      hf_run_low_priority(copy_and_index, work) :
		      copy_and_index(work);
	hf_image_destroy(HF_TAKE(work->image));
	/* The reason for what failed, if it is that. */
	if (err && !work->released) {
		struct hf_error *why = hf_frozen_check(work->frozen);

		if (why) {
			hf_error_destroy(err);
			err = why;
		}
	}
	/* It may have come after the last look of the index. */
	if (!err && *work->cli->cancelled)
		err = hf_error_create(HF_ERROR_INTERRUPTED, "interrupted");
	return err;
}

struct hf_error *hf_snapshot_take(const struct hf_snapshot_options *options,
				  pid_t pid, const char *output_path,
				  struct hf_snapshot_result *result_ret)
{
	struct hf_cli *cli = options->cli;
	HF_AUTO(hf_safe_point_finder)
	struct hf_safe_point_finder *finder = NULL;
	struct hf_capture_options capture;
	struct hf_cli_progress progress;
	struct work work = {
		.cli = cli,
		.options = options,
		.progress = &progress.hooks,
		.summary = &result_ret->summary,
	};
	HF_AUTO(hf_snapshot_record) struct hf_snapshot_record *record =
		&work.record;
	HF_AUTO(hf_snapshot_core) struct hf_snapshot_core *core = &work.core;
	HF_AUTO(hf_output) struct hf_output *output = NULL;
	uint64_t start_ns = hf_now_ns();
	struct hf_error *err;
	struct hf_error *lapse;
	bool has_zombie;

	*result_ret = (struct hf_snapshot_result){ 0 };
	err = hf_safe_point_finder_create(&finder);
	if (err)
		return err;
	capture = capture_options(options, pid, finder);
	if (options->spool_dir)
		err = hf_spool_probe(options->spool_dir);
	if (!err && output_path)
		err = hf_output_begin(output_path, options->force, &output);
	if (!err)
		err = hf_snapshot_core_begin(core, &options->core, pid,
					     options->force);
	if (err)
		return err;
	capture.deadline_ns = hf_snapshot_timeout_begin(options);
	hf_snapshot_record_init(record, pid);
	hf_cli_progress_init(&progress, cli);
	if (options->prepare) {
		struct hf_prepare_report prepared;

		err = hf_snapshot_prepare(options, pid, capture.deadline_ns,
					  &progress.hooks, &prepared);
		record->prepared_bytes = hf_prepare_bytes(&prepared);
	}
	work.path = output ? hf_output_path(output) : NULL;
	if (!err)
		err = hf_snapshot_check_pause(options, pid,
					      &record->predicted_pause_ns);
	if (!err)
		err = take(&work, &capture);
	/* A process that was not there to the end has bytes that make no
	 * sense: that is why, and not what the reader says of them. */
	lapse = let_go(&work);
	if (lapse) {
		hf_error_destroy(err);
		err = lapse;
	}
	has_zombie = work.zombie;
	if (work.frozen)
		result_ret->report = *hf_frozen_report(work.frozen);
	hf_frozen_destroy(work.frozen);
	err = hf_snapshot_timeout_end(options, pid, err);
	hf_cli_progress_clear(&progress);
	if (!err && output)
		err = hf_output_commit(output);
	if (!err)
		err = hf_snapshot_core_commit(core);
	if (has_zombie)
		hf_cli_warn(cli, HF_TAKE(work.zombie));
	if (err)
		return output ? hf_output_blame(output, err) : err;
	hf_snapshot_report_cost(cli, &result_ret->report);
	result_ret->partial = hf_snapshot_core_report(core, cli);
	if (output)
		hf_snapshot_report_result(cli, output_path,
					  &result_ret->summary,
					  hf_now_ns() - start_ns);
	result_ret->partial |= result_ret->summary.partial ||
			      record->row.partial || has_zombie;
	return NULL;
}

void hf_snapshot_result_deinit(struct hf_snapshot_result *result)
{
	hf_index_summary_deinit(&result->summary);
}
