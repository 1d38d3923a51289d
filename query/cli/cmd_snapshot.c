/* heapfork snapshot: stop, fork, let go; then index the frozen child.
 * SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "fork-agent/capture.h"
#include "indexer/index.h"
#include "query/cli/progress.h"
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
	  "Give up when its threads have not stopped after this time "
	  "(default 2)",
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
	       "    heapfork snapshot -p $(pidof nginx) -o web.heap --force\n",
	.children = children,
};

/* What outlives single steps. */
struct work {
	struct hf_cli *cli;
	struct hf_frozen *frozen;
	struct hf_snapshot_row row;
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

/* The image was read for the last time: from here on the process is alone. */
static struct hf_error *image_done(void *arg)
{
	struct work *work = arg;
	const struct hf_capture_report *report;
	struct hf_error *err = hf_frozen_release(work->frozen);

	if (err) {
		hf_cli_note(work->cli, "warning: %s", err->message);
		hf_error_ignore(err);
	}
	report = hf_frozen_report(work->frozen);
	work->row.reap_ns = report->reap_ns;
	work->row.child_life_ns = report->child_life_ns;
	work->row.cow_pages = report->cow_pages;
	return NULL;
}

static void print_pause(const struct hf_cli *cli,
			const struct hf_capture_report *report)
{
	hf_cli_note(cli,
		    "paused %.1f ms (stop %.1f, registers %.1f, fork %.1f, "
		    "resume %.1f), %" PRIu32 " thread%s",
		    (double)report->pause_ns / 1e6,
		    (double)report->stop_ns / 1e6,
		    (double)report->regs_ns / 1e6,
		    (double)report->fork_ns / 1e6,
		    (double)report->resume_ns / 1e6, report->num_threads,
		    hf_cli_plural(report->num_threads));
	if (report->num_partial)
		hf_cli_note(cli,
			    "warning: %" PRIu32 " thread%s could not be "
			    "stopped: the snapshot is partial",
			    report->num_partial,
			    hf_cli_plural(report->num_partial));
}

static void print_summary(const struct hf_cli *cli,
			  const struct snapshot_args *args,
			  const struct hf_index_summary *summary,
			  uint64_t elapsed_ns)
{
	char live[40], unreachable[40], unknown[40], anon[40];

	hf_format_bytes((int64_t)summary->live_bytes, live, sizeof(live));
	hf_format_bytes((int64_t)summary->unreachable_bytes, unreachable,
			sizeof(unreachable));
	hf_format_bytes((int64_t)summary->unknown_bytes, unknown,
			sizeof(unknown));
	hf_format_bytes((int64_t)summary->private_anon_bytes, anon,
			sizeof(anon));
	hf_cli_note(cli,
		    "%s: %" PRIu64 " object%s, %s, %" PRIu64
		    " references, in %.1f s",
		    args->output, summary->num_objects,
		    hf_cli_plural((int64_t)summary->num_objects), live,
		    summary->num_refs, (double)elapsed_ns / 1e9);
	hf_cli_note(cli,
		    "unreachable: %" PRIu64 " object%s, %s; unexplained: %s of "
		    "%s private memory",
		    summary->num_unreachable,
		    hf_cli_plural((int64_t)summary->num_unreachable),
		    unreachable, unknown, anon);
	if (summary->num_anomalies)
		hf_cli_note(cli,
			    "anomalies: %" PRIu64 " (heapfork info shows "
			    "them)",
			    summary->num_anomalies);
	if (summary->partial)
		hf_cli_note(cli, "warning: some of the memory could not be "
				 "read: the snapshot is partial");
	hf_cli_note(cli, "next: heapfork census %s", args->output);
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
		.progress = progress,
	};
	/* Destroyed before the frozen child it reads, in run(). */
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	struct hf_error *err = hf_capture(&capture, &work->frozen);

	if (err)
		return err;
	fill_row(&work->row, hf_frozen_report(work->frozen));
	print_pause(work->cli, hf_frozen_report(work->frozen));
	err = hf_frozen_open_image(work->frozen, &image);
	return err ? err : hf_index(image, path, &index, summary);
}

static struct hf_error *run(struct hf_cli *cli, int argc, char **argv)
{
	struct snapshot_args args = { .cli = cli };
	struct work work = { .cli = cli };
	struct hf_index_summary summary = { 0 };
	struct hf_cli_progress progress;
	HF_AUTO_FREE char *boot_id = NULL, *command = NULL;
	HF_AUTO(hf_output) struct hf_output *output = NULL;
	uint64_t start_ns = hf_now_ns();
	struct hf_error *err;
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
		   &summary);
	hf_frozen_destroy(work.frozen);
	hf_cli_progress_clear(&progress);
	if (!err)
		err = hf_output_commit(output);
	if (err)
		return err;
	print_summary(cli, &args, &summary, hf_now_ns() - start_ns);
	if (summary.partial || work.row.partial)
		cli->exit_code = HF_EXIT_PARTIAL;
	return NULL;
}

const struct hf_verb hf_verb_snapshot = {
	.name = "snapshot",
	.summary = "stop a process for milliseconds, fork and index it",
	.argp = &argp,
	.run = run,
};
