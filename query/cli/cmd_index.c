/* heapfork index: a core becomes a snapshot.
 * SPDX-License-Identifier: MIT */
#include <signal.h>

#include "coredump/core/core_image.h"
#include "indexer/index.h"
#include "query/cli/capture_text.h"
#include "query/cli/progress.h"
#include "query/cli/snapshot_report.h"
#include "util/array.h"
#include "util/output.h"

enum {
	KEY_FORCE = HF_KEY_VERB,
	KEY_EXE,
	KEY_SYSROOT,
	KEY_DEBUG_DIR,
	KEY_PARTIAL,
	KEY_SCRATCH,
};

struct index_args {
	struct hf_cli *cli; /* first: it is an input of hf_cli_parse */
	const char *core, *output;
	bool force;
	HF_ARRAY(const char *) debug_dirs; /* the last is NULL, if any */
	struct hf_core_open_options open;
};

static const struct argp_option options[] = {
	{ "output", 'o', "FILE", 0, "The snapshot to write", 0 },
	{ "force", KEY_FORCE, 0, 0, "Replace FILE if it exists", 0 },
	{ "exe", KEY_EXE, "FILE", 0,
	  "The program, if it is not where it was", 0 },
	{ "sysroot", KEY_SYSROOT, "DIR", 0,
	  "Look for the program and its libraries under DIR", 0 },
	{ "debug-dir", KEY_DEBUG_DIR, "DIR", 0,
	  "Look for debug files there first; may be repeated", 0 },
	{ "partial", KEY_PARTIAL, 0, 0,
	  "Take a truncated core for what is there", 0 },
	{ "scratch-dir", KEY_SCRATCH, "DIR", 0,
	  "Where a compressed core is unpacked (default: $TMPDIR, /var/tmp)",
	  0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct index_args *args = state->input;
	struct hf_error *err;

	switch (key) {
	case ARGP_KEY_INIT:
		hf_cli_parse_init(state, 1);
		return 0;
	case 'o':
		args->output = arg;
		return 0;
	case KEY_FORCE:
		args->force = true;
		return 0;
	case KEY_EXE:
		args->open.exe = arg;
		return 0;
	case KEY_SYSROOT:
		args->open.sysroot = arg;
		return 0;
	case KEY_DEBUG_DIR:
		err = hf_array_append(&args->debug_dirs, arg);
		if (err)
			argp_error(state, "%s", err->message);
		return 0;
	case KEY_PARTIAL:
		args->open.partial = true;
		return 0;
	case KEY_SCRATCH:
		args->open.scratch_dir = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (args->core)
			argp_error(state, "one core at a time: '%s', '%s'",
				   args->core, arg);
		args->core = arg;
		return 0;
	case ARGP_KEY_END:
		if (!args->core)
			argp_error(state, "which core?");
		if (!args->output)
			argp_error(state, "where to? -o FILE");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = {
	{ &hf_message_options, 0, NULL, 0 },
	{ 0 },
};

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "CORE",
	.doc = "Make a snapshot of a core: of the kernel, of gdb's gcore, of "
	       "'heapfork snapshot --core', plain or compressed with zstd. "
	       "Text and constants that are not in the core come from the "
	       "program and its libraries, if they are still the same.\n"
	       "\n"
	       "    heapfork index core.4711 -o app.heap\n"
	       "    heapfork index app.core.zst --sysroot rootfs -o app.heap\n",
	.children = children,
};

static struct hf_error *index_core(const struct index_args *args,
				   const struct hf_progress *progress,
				   const char *path,
				   struct hf_core_info *info,
				   struct hf_index_summary *summary)
{
	struct hf_snapshot_row row = {
		.taken_ns = HF_UNKNOWN_U64,
		.start_time = HF_UNKNOWN_U64,
		.source = "core",
		.pause_ns = HF_UNKNOWN_U64,
		.stop_ns = HF_UNKNOWN_U64,
		.regs_ns = HF_UNKNOWN_U64,
		.fork_ns = HF_UNKNOWN_U64,
		.resume_ns = HF_UNKNOWN_U64,
		.reap_ns = HF_UNKNOWN_U64,
		.child_life_ns = HF_UNKNOWN_U64,
		.cow_pages = HF_UNKNOWN_U64,
		.parent_faults = HF_UNKNOWN_U64,
		.dropped_bytes = HF_UNKNOWN_U64,
		.peak_private_bytes = HF_UNKNOWN_U64,
		.attempts = HF_UNKNOWN_U64,
		.missed_pause_ns = HF_UNKNOWN_U64,
		.safe_point_tries = HF_UNKNOWN_U64,
		.pause_calls = HF_UNKNOWN_U64,
		.max_thread_calls = HF_UNKNOWN_U64,
		.partial_threads = HF_UNKNOWN_U64,
	};
	struct hf_index_options index = {
		.snapshot = &row,
		.progress = progress,
	};
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	struct hf_core_open_options open = args->open;
	struct hf_error *err;
	size_t num_threads;

	open.progress = progress;
	err = hf_core_image_open(args->core, &open, info, &image);
	if (err)
		return err;
	hf_image_threads(image, &num_threads);
	row.pid = info->process.pid ? (uint64_t)info->process.pid :
				      HF_UNKNOWN_U64;
	row.command = info->process.name[0] ? info->process.name : NULL;
	if (info->capture)
		hf_capture_text_read(info->capture, &row);
	row.threads = num_threads;
	row.partial = info->truncated;
	return hf_index(image, path, &index, summary);
}

static struct hf_error *run(struct hf_cli *cli, int argc, char **argv)
{
	struct index_args args = { .cli = cli };
	HF_AUTO(hf_index_summary) struct hf_index_summary *summary =
		&(struct hf_index_summary){ 0 };
	HF_AUTO(hf_output) struct hf_output *output = NULL;
	uint64_t start_ns = hf_now_ns();
	struct hf_cli_progress progress;
	struct hf_core_info info = { 0 };
	struct hf_error *err;

	err = hf_cli_parse(&argp, argc, argv, &args);
	if (!err && args.debug_dirs.num) {
		err = hf_array_append(&args.debug_dirs, NULL);
		args.open.debug_dirs = args.debug_dirs.data;
	}
	if (!err)
		err = hf_output_begin(args.output, args.force, &output);
	if (err)
		goto out;
	hf_cli_progress_init(&progress, cli);
	err = index_core(&args, &progress.hooks, hf_output_path(output), &info,
			 summary);
	hf_cli_progress_clear(&progress);
	if (!err && *cli->cancelled)
		err = hf_error_create(HF_ERROR_INTERRUPTED, "interrupted");
	if (!err)
		err = hf_output_commit(output);
	if (err) {
		err = hf_output_blame(output, err);
		goto out;
	}
	hf_snapshot_report_result(cli, args.output, summary,
				  hf_now_ns() - start_ns);
	if (summary->partial || info.truncated)
		cli->exit_code = HF_EXIT_PARTIAL;
out:
	hf_core_info_deinit(&info);
	hf_array_deinit(&args.debug_dirs);
	return err;
}

const struct hf_verb hf_verb_index = {
	.name = "index",
	.summary = "make a snapshot of a core",
	.argp = &argp,
	.run = run,
};
