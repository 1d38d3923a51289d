/* heapfork snapshot: stop, fork, let go; then index the frozen child.
 * SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "fork-agent/capture.h"
#include "indexer/index.h"
#include "query/cli/progress.h"
#include "query/cli/snapshot_report.h"
#include "util/file.h"
#include "util/output.h"
#include "util/parse.h"

enum { KEY_FORCE = HF_KEY_VERB, KEY_TIMEOUT };

struct snapshot_args {
	struct hf_cli *cli;
	uint64_t pid; /* 0: not given */
	const char *output;
	bool force;
	uint64_t timeout_s; /* 0: the capture's own */
};

static const struct argp_option options[] = {
	{ "pid", 'p', "PID", 0, "The process", 0 },
	{ "output", 'o', "FILE", 0, "The snapshot to write", 0 },
	{ "force", KEY_FORCE, 0, 0, "Replace FILE if it exists", 0 },
	{ "timeout", KEY_TIMEOUT, "SECONDS", 0,
	  "Give up when its threads have not stopped after this time, "
	  "in each of three attempts (default 2)",
	  0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct snapshot_args *args = state->input;
	struct hf_error *err = NULL;

	switch (key) {
	case ARGP_KEY_INIT:
		hf_cli_parse_init(state, 1);
		return 0;
	case 'p':
		err = hf_parse_range(arg, "--pid", 1, INT32_MAX, &args->pid);
		break;
	case 'o':
		args->output = arg;
		return 0;
	case KEY_FORCE:
		args->force = true;
		return 0;
	case KEY_TIMEOUT:
		err = hf_parse_range(arg, "--timeout", 1, 3600,
				     &args->timeout_s);
		break;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is not expected: -p PID -o FILE", arg);
		return 0;
	case ARGP_KEY_END:
		if (!args->pid)
			argp_error(state, "which process? -p PID");
		if (!args->output)
			argp_error(state, "where to? -o FILE");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	if (err)
		argp_error(state, "%s", err->message);
	hf_error_destroy(err);
	return 0;
}

static const struct argp_child children[] = {
	{ &hf_message_options, 0, NULL, 0 },
	{ 0 },
};

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.doc = "Take a snapshot of a running process: stop it for "
	       "milliseconds, fork it, let it run on; then index the frozen "
	       "copy. The file appears whole or not at all; it holds the shape "
	       "of the heap, no contents. Ctrl-C is safe at any time.\n"
	       "\n"
	       "    heapfork snapshot -p 4711 -o app.heap\n"
	       "    heapfork snapshot -p $(pidof -s nginx) -o web.heap --force\n",
	.children = children,
};

/* What outlives single steps. */
struct work {
	struct hf_cli *cli;
	struct hf_frozen *frozen;
	struct hf_snapshot_row row;
	struct hf_index_fact facts[5]; /* what table `snapshot` has not */
	char values[5][24];
	struct hf_error *zombie; /* the child left one */
};

/* One line of a file of /proc, without its end. */
static struct hf_error *read_line(const char *path, char **ret)
{
	struct hf_error *err = hf_read_file(path, ret, NULL);

	if (!err)
		(*ret)[strcspn(*ret, "\n")] = '\0';
	return err;
}

static void fill_row(struct hf_snapshot_row *row,
		     const struct hf_capture_report *report)
{
	row->taken_ns = report->taken_ns;
	row->start_time = report->start_time;
	row->pause_ns = report->pause_ns;
	row->stop_ns = report->stop_ns;
	row->regs_ns = report->regs_ns;
	row->fork_ns = report->fork_ns;
	row->resume_ns = report->resume_ns;
	row->threads = report->num_threads;
	row->consistency = report->num_partial ? "partial_threads" : "exact";
	row->partial = report->num_partial > 0;
}

static void fill_facts(struct work *work,
		       const struct hf_capture_report *report)
{
	const struct {
		const char *key;
		uint32_t value;
	} facts[] = {
		{ "capture.attempts", report->num_attempts },
		{ "capture.restarted_calls", report->num_restarted },
		{ "capture.vfork_children", report->num_vfork_children },
		{ "capture.descriptors_closed", report->descriptors_closed },
		{ "capture.reaped", report->reaped },
	};

	_Static_assert(sizeof(facts) / sizeof(*facts) ==
			       sizeof(work->facts) / sizeof(*work->facts),
		       "room for each fact");
	for (size_t i = 0; i < sizeof(facts) / sizeof(*facts); i++) {
		snprintf(work->values[i], sizeof(work->values[i]), "%" PRIu32,
			 facts[i].value);
		work->facts[i] = (struct hf_index_fact){ facts[i].key,
							 work->values[i] };
	}
}

/* The image was read for the last time: from here on the process is alone. */
static struct hf_error *image_done(void *arg)
{
	struct work *work = arg;
	const struct hf_capture_report *report;

	work->zombie = hf_frozen_release(work->frozen);
	report = hf_frozen_report(work->frozen);
	work->row.reap_ns = report->reap_ns;
	work->row.child_life_ns = report->child_life_ns;
	work->row.cow_pages = report->cow_pages;
	fill_facts(work, report);
	return NULL;
}

static struct hf_error *take(struct work *work,
			     const struct snapshot_args *args,
			     const struct hf_progress *progress,
			     const char *path,
			     struct hf_index_summary *summary)
{
	struct hf_capture_options capture = {
		.pid = (pid_t)args->pid,
		.stop_timeout_ms = (uint32_t)args->timeout_s * 1000,
		.cancelled = work->cli->cancelled,
	};
	struct hf_index_options index = {
		.snapshot = &work->row,
		.image_done = image_done,
		.arg = work,
		.facts = work->facts,
		.num_facts = sizeof(work->facts) / sizeof(*work->facts),
		.progress = progress,
	};
	/* Destroyed before the frozen child it reads, in run(). */
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	struct hf_error *err = hf_capture(&capture, &work->frozen);

	if (err)
		return err;
	fill_row(&work->row, hf_frozen_report(work->frozen));
	hf_snapshot_report_pause(work->cli, hf_frozen_report(work->frozen));
	err = hf_frozen_open_image(work->frozen, &image);
	if (!err)
		err = hf_index(image, path, &index, summary);
	/* It may have come after the last look of the index. */
	if (!err && *work->cli->cancelled)
		err = hf_error_create(HF_ERROR_INTERRUPTED, "interrupted");
	return err;
}

static struct hf_error *run(struct hf_cli *cli, int argc, char **argv)
{
	struct snapshot_args args = { .cli = cli };
	struct work work = { .cli = cli };
	HF_AUTO(hf_index_summary) struct hf_index_summary *summary =
		&(struct hf_index_summary){ 0 };
	struct hf_cli_progress progress;
	HF_AUTO_FREE char *boot_id = NULL, *command = NULL;
	HF_AUTO(hf_output) struct hf_output *output = NULL;
	uint64_t start_ns = hf_now_ns();
	struct hf_error *err;
	bool has_zombie;
	char comm[64];

	err = hf_cli_parse(&argp, argc, argv, &args);
	if (err)
		return err;
	/* A reader of our messages that goes away must not kill us while we
	 * hold a process. */
	signal(SIGPIPE, SIG_IGN);
	err = hf_output_begin(args.output, args.force, &output);
	if (err)
		return err;
	snprintf(comm, sizeof(comm), "/proc/%" PRIu64 "/comm", args.pid);
	/* Nice to have: why there is no process is for the capture to say. */
	hf_error_ignore(read_line(comm, &command));
	hf_error_ignore(
		read_line("/proc/sys/kernel/random/boot_id", &boot_id));
	work.row = (struct hf_snapshot_row){
		.pid = args.pid,
		.boot_id = boot_id,
		.command = command,
		.source = "live",
		.safe_point = "none",
		.reap_ns = HF_UNKNOWN_U64,
		.child_life_ns = HF_UNKNOWN_U64,
		.cow_pages = HF_UNKNOWN_U64,
	};
	hf_cli_progress_init(&progress, cli);
	err = take(&work, &args, &progress.hooks, hf_output_path(output),
		   summary);
	if (work.frozen && !work.zombie)
		work.zombie = hf_frozen_release(work.frozen);
	has_zombie = work.zombie;
	hf_frozen_destroy(work.frozen);
	hf_cli_progress_clear(&progress);
	if (!err)
		err = hf_output_commit(output);
	if (has_zombie)
		hf_cli_warn(cli, HF_TAKE(work.zombie));
	if (err)
		return hf_output_blame(output, err);
	hf_snapshot_report_result(cli, args.output, summary,
				  hf_now_ns() - start_ns);
	if (summary->partial || work.row.partial || has_zombie)
		cli->exit_code = HF_EXIT_PARTIAL;
	return NULL;
}

const struct hf_verb hf_verb_snapshot = {
	.name = "snapshot",
	.summary = "stop a process for milliseconds, fork and index it",
	.argp = &argp,
	.run = run,
};
