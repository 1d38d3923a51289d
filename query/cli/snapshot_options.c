/* Snapshot options: what the verbs that take snapshots are told.
 * SPDX-License-Identifier: MIT */
#include "query/cli/snapshot_options.h"

#include <string.h>

#include "util/parse.h"

/* Group 1 is the verb's own, 2 the messages of all verbs. */
enum { GROUP_CAPTURE = 3 };

enum {
	KEY_FORCE = HF_KEY_VERB,
	KEY_ALL_CHILDREN,
	KEY_MODE,
	KEY_TIMEOUT,
	KEY_STOP_TIMEOUT,
	KEY_MAX_PAUSE,
	KEY_DRY_RUN,
	KEY_PREPARE,
	KEY_PREPARE_RATE,
	KEY_SPOOL,
	KEY_KEEP_MEMORY_FREE,
	KEY_SAFE_POINT_TRIES,
	KEY_EXACT,
};

/* One line each, also in the parser below. */
static const struct argp_option capture_options[] = {
	{ 0, 0, 0, 0, "Capture:", GROUP_CAPTURE },
	{ "exact", KEY_EXACT, 0, 0,
	  "No snapshot without a safe point: exit 8 instead",
	  GROUP_CAPTURE },
	{ "mode", KEY_MODE, "MODE", 0,
	  "fork (default): stop for milliseconds, and read a fork; stop: no "
	  "fork, the process stands still until its memory was read",
	  GROUP_CAPTURE },
	{ "keep-memory-free", KEY_KEEP_MEMORY_FREE, "SIZE", 0,
	  "Give up rather than leave less memory than this to the process's "
	  "cgroups and to the machine (default 2 % of each, at least 64M, at "
	  "most an eighth)",
	  GROUP_CAPTURE },
	{ "prepare", KEY_PREPARE, 0, 0,
	  "First gather its memory into huge pages: a shorter pause",
	  GROUP_CAPTURE },
	{ "prepare-rate", KEY_PREPARE_RATE, "SIZE", 0,
	  "Prepare so many bytes a second at most (default 1G)",
	  GROUP_CAPTURE },
	{ "spool", KEY_SPOOL, "DIR", 0,
	  "Where memory has no room for a copy of the process's, make it in a "
	  "file without a name there; none: make no copy",
	  GROUP_CAPTURE },
	{ "safe-point-tries", KEY_SAFE_POINT_TRIES, "N", 0,
	  "Stop it up to N times to find all threads outside of malloc; 0: "
	  "do not look (default 5)",
	  GROUP_CAPTURE },
	{ "timeout", KEY_TIMEOUT, "SECONDS", 0,
	  "Give up when the snapshot is not done after this time: capture "
	  "and index (default: no limit)",
	  GROUP_CAPTURE },
	{ "stop-timeout", KEY_STOP_TIMEOUT, "SECONDS", 0,
	  "Give up when its threads have not stopped after this time, "
	  "in all attempts together (default 2)",
	  GROUP_CAPTURE },
	{ "max-pause", KEY_MAX_PAUSE, "MS", 0,
	  "Refuse if the pause is predicted to be longer (exit status 11)",
	  GROUP_CAPTURE },
	{ 0 },
};

static error_t parse_capture(int key, char *arg, struct argp_state *state)
{
	struct hf_snapshot_options *options = state->input;
	struct hf_error *err = NULL;

	switch (key) {
	case KEY_MODE:
		if (!strcmp(arg, "fork"))
			options->mode = HF_CAPTURE_FORK;
		else if (!strcmp(arg, "stop"))
			options->mode = HF_CAPTURE_STOP;
		else
			argp_error(state, "unknown mode '%s': fork or stop",
				   arg);
		return 0;
	case KEY_PREPARE:
		options->prepare = true;
		return 0;
	case KEY_PREPARE_RATE:
		options->prepare = true;
		err = hf_parse_size(arg, "--prepare-rate",
				    &options->prepare_rate);
		if (!err && !options->prepare_rate)
			argp_error(state, "--prepare-rate 0 would never end");
		break;
	case KEY_KEEP_MEMORY_FREE:
		err = hf_parse_size(arg, "--keep-memory-free",
				    &options->keep_memory_free);
		if (!err && !options->keep_memory_free)
			options->keep_memory_free = 1;
		break;
	case KEY_SPOOL:
		options->spool_none = !strcmp(arg, "none");
		options->spool_dir = options->spool_none ? NULL : arg;
		return 0;
	case KEY_TIMEOUT:
		err = hf_parse_time(arg, "--timeout", HF_PARSE_S,
				    7 * 24 * 3600, &options->timeout_ns);
		break;
	case KEY_SAFE_POINT_TRIES:
		err = hf_parse_range(arg, "--safe-point-tries", 0, 1000,
				     &options->safe_point_tries);
		options->no_safe_point = !err && !options->safe_point_tries;
		break;
	case KEY_EXACT:
		options->exact = true;
		return 0;
	case KEY_STOP_TIMEOUT:
		err = hf_parse_time(arg, "--stop-timeout", HF_PARSE_S, 3600,
				    &options->stop_timeout_ns);
		break;
	case KEY_MAX_PAUSE:
		err = hf_parse_time(arg, "--max-pause", HF_PARSE_MS,
				    3600 * 1000, &options->max_pause_ns);
		break;
	case ARGP_KEY_END:
		if (options->exact && options->no_safe_point)
			argp_error(state, "--exact needs a safe point, and "
				   "--safe-point-tries 0 does not look for "
				   "one: choose one");
		if (options->prepare && options->mode == HF_CAPTURE_STOP)
			argp_error(state, "--prepare makes a fork shorter, and "
				   "--mode stop does without: choose one");
		if (options->max_pause_ns && options->mode != HF_CAPTURE_FORK)
			argp_error(state, "--max-pause is about a fork; with "
				   "--mode stop the process stands still until "
				   "its memory was read: --timeout limits that");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	if (err)
		argp_error(state, "%s", err->message);
	hf_error_destroy(err);
	return 0;
}

const struct argp hf_capture_argp = {
	.options = capture_options,
	.parser = parse_capture,
};

static const struct argp_option snapshot_options[] = {
	{ "pid", 'p', "PID", 0, "The process", 0 },
	{ "output", 'o', "FILE", 0, "The snapshot to write", 0 },
	{ "all-children", KEY_ALL_CHILDREN, 0, 0,
	  "Of its descendants, too: FILE is a folder, or has %p for the pid",
	  0 },
	{ "force", KEY_FORCE, 0, 0, "Replace FILE if it exists", 0 },
	{ "dry-run", KEY_DRY_RUN, 0, 0,
	  "Take none: tell what is in its way, and what it would cost", 0 },
	{ 0 },
};

static error_t parse_snapshot(int key, char *arg, struct argp_state *state)
{
	struct hf_snapshot_options *options = state->input;
	struct hf_error *err = NULL;

	switch (key) {
	case ARGP_KEY_INIT:
		hf_cli_parse_init(state, 2);
		state->child_inputs[2] = options;
		state->child_inputs[3] = &options->core;
		hf_core_options_init(&options->core);
		return 0;
	case 'p':
		err = hf_parse_range(arg, "--pid", 1, INT32_MAX,
				     &options->pid);
		break;
	case 'o':
		options->output = arg;
		return 0;
	case KEY_FORCE:
		options->force = true;
		return 0;
	case KEY_ALL_CHILDREN:
		options->all_children = true;
		return 0;
	case KEY_DRY_RUN:
		options->dry_run = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is not expected: -p PID -o FILE", arg);
		return 0;
	case ARGP_KEY_END:
		if (!options->pid)
			argp_error(state, "which process? -p PID");
		if (options->all_children && options->dry_run)
			argp_error(state, "--dry-run looks at one process: "
				   "leave out --all-children");
		if (options->all_children && options->core.path)
			argp_error(state, "--core writes one core: leave out "
				   "--all-children");
		if (!options->output && !options->core.path &&
		    !options->dry_run)
			argp_error(state, "where to? -o FILE, or --core FILE");
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
	{ &hf_row_options, 0, NULL, 0 },
	{ &hf_capture_argp, 0, NULL, 0 },
	{ &hf_core_argp, 0, NULL, 0 },
	{ 0 },
};

const struct argp hf_snapshot_argp = {
	.options = snapshot_options,
	.parser = parse_snapshot,
	.doc = "Take a snapshot of a running process: stop it for "
	       "milliseconds, fork it, let it run on; then index the frozen "
	       "copy. The file appears whole or not at all; it holds the shape "
	       "of the heap, no contents. Ctrl-C is safe at any time.\n"
	       "\n"
	       "    heapfork snapshot -p 4711 -o app.heap\n"
	       "    heapfork snapshot -p $(pidof -s nginx) -o web.heap --force\n"
	       "    heapfork snapshot -p 1234 --all-children -o snapshots/\n",
	.children = children,
};
