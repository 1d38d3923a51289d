/* heapfork path: how a root reaches an object.
 * SPDX-License-Identifier: MIT */
#include <inttypes.h>

#include "query/cli/object_args.h"
#include "query/cli/path_rows.h"
#include "query/cli/progress.h"

static const struct argp_option options[] = {
	HF_OBJECT_OPTIONS,
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct hf_object_args *args = state->input;
	error_t rc = hf_object_args_parse(key, arg, state);

	if (key == ARGP_KEY_END && args->has_id == args->has_addr)
		argp_error(state, "which object? --id N or --addr ADDRESS");
	return rc;
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "FILE",
	.doc = "Show a shortest path from a root to an object, the root first. "
	       "Each row points to the next by the word at offset `slot`.\n"
	       "\n"
	       "    heapfork path app.heap --id 4711\n"
	       "    heapfork path app.heap --addr 0x55d0c0de1230 --json\n"
	       "\v"
	       "An unreachable object has no path: then its dominators are "
	       "shown, from the head of its structure.",
	.children = hf_file_children,
};

static struct hf_error *run(struct hf_cli *cli, int argc, char **argv)
{
	struct hf_object_args args = { .file.cli = cli };
	HF_AUTO(hf_db) struct hf_db *db = NULL;
	HF_AUTO(hf_row_sink) struct hf_row_sink *sink = NULL;
	struct hf_cli_progress progress;
	struct hf_path path = { 0 };
	struct hf_error *err;
	int64_t id = 0;

	err = hf_cli_parse(&argp, argc, argv, &args);
	if (!err)
		err = hf_cli_open(cli, args.file.file, &db);
	if (!err)
		err = hf_object_args_find(&args, db, &id);
	if (!err)
		err = hf_cli_sink(cli, &sink);
	if (err)
		return err;
	hf_cli_progress_init(&progress, cli);
	err = hf_path_find(db, id, HF_PATH_SHORTEST, &progress.hooks, &path);
	hf_cli_progress_clear(&progress);
	if (!err && path.kind == HF_PATH_DOMINATORS)
		hf_cli_note(cli,
			    "object %" PRId64 " is unreachable: these are its "
			    "dominators",
			    id);
	if (!err)
		err = hf_cli_path_rows(cli, db, &path, sink);
	hf_path_deinit(&path);
	return err;
}

const struct hf_verb hf_verb_path = {
	.name = "path",
	.summary = "how a root reaches an object",
	.argp = &argp,
	.run = run,
};
