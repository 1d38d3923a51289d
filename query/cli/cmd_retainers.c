/* heapfork retainers: the merged paths from roots to some objects.
 * SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "query/cli/object_args.h"
#include "query/cli/path_rows.h"
#include "query/cli/progress.h"
#include "query/cli/retainer_rows.h"
#include "query/query.h"
#include "query/type_match.h"

enum { KEY_TYPE = HF_KEY_VERB };

struct retainers_args {
	struct hf_object_args object; /* first: for hf_object_args_parse */
	const char *type;
};

static const struct argp_option options[] = {
	{ "type", KEY_TYPE, "NAME", 0,
	  "All objects of this type; *, ? and [] match many", 0 },
	HF_OBJECT_OPTIONS,
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct retainers_args *args = state->input;
	error_t rc = 0;

	if (key == KEY_TYPE)
		args->type = arg;
	else
		rc = hf_object_args_parse(key, arg, state);
	if (key == ARGP_KEY_END &&
	    args->object.has_id + args->object.has_addr + !!args->type != 1)
		argp_error(state, "of what? one of --type NAME, --id N and "
				  "--addr ADDRESS");
	return rc;
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "FILE",
	.doc = "Show who keeps objects alive: their shortest paths from the "
	       "roots, merged by type into a tree. Count and bytes on a step "
	       "are of the objects asked for that are reached through it.\n"
	       "\n"
	       "    heapfork retainers app.heap --type Session\n"
	       "    heapfork retainers app.heap --type 'std::*' --limit 50\n"
	       "    heapfork retainers app.heap --id 4711\n"
	       "\v"
	       "A step that only repeats what stands above it (a linked list) "
	       "is folded into it: repeat is how often. For one object, a "
	       "table adds who points to it and who dominates it.",
	.children = hf_file_children,
};

/* "object 5: Session at 0x..., 48 B, retains 1.2 MiB, 3 references to it" */
static struct hf_error *describe(const struct hf_cli *cli, struct hf_db *db,
				 int64_t id)
{
	HF_AUTO(hf_query) struct hf_query *query = NULL;
	struct hf_error *err;
	char size[40], retained[40];
	bool row;

	err = hf_query_prepare(
		db,
		"SELECT size_bytes, retained_bytes,"
		" (SELECT count(*) FROM main.ref WHERE dst = ?1),"
		" (SELECT count(DISTINCT src) FROM main.ref WHERE dst = ?1)"
		" FROM main.object WHERE id = ?1",
		&query);
	if (!err)
		err = hf_query_bind_i64(query, 1, id);
	if (!err)
		err = hf_query_step(query, &row);
	if (err || !row)
		return err;
	printf("\nobject %" PRId64 ": %s, retains %s; %" PRId64
	       " reference%s from %" PRId64 " object%s\n"
	       "its dominators, each of which alone keeps it:\n\n",
	       id,
	       hf_cli_bytes(cli, hf_query_i64(query, 0), size, sizeof(size)),
	       hf_cli_bytes(cli, hf_query_i64(query, 1), retained,
			    sizeof(retained)),
	       hf_query_i64(query, 2), hf_cli_plural(hf_query_i64(query, 2)),
	       hf_query_i64(query, 3), hf_cli_plural(hf_query_i64(query, 3)));
	return NULL;
}

static struct hf_error *print_dominators(const struct hf_cli *cli,
					 struct hf_db *db, int64_t id,
					 struct hf_row_sink *sink)
{
	struct hf_path path = { 0 };
	struct hf_error *err = describe(cli, db, id);

	if (!err)
		err = hf_path_find(db, id, HF_PATH_DOMINATORS, NULL, &path);
	if (!err)
		err = hf_cli_path_rows(cli, db, &path, sink);
	hf_path_deinit(&path);
	return err;
}

static struct hf_error *find(const struct retainers_args *args,
			     struct hf_db *db,
			     const struct hf_progress *progress,
			     int64_t *id_ret, struct hf_retainers *ret)
{
	struct hf_retainer_match match = { 0 };
	HF_AUTO_FREE int64_t *types = NULL;
	struct hf_error *err;

	if (args->type) {
		err = hf_type_match(db, args->type, &types, &match.num_types);
		match.type_ids = types;
	} else {
		err = hf_object_args_find(&args->object, db,
					  &match.object_id);
		*id_ret = match.object_id;
	}
	return err ? err : hf_retainers_find(db, &match, progress, ret);
}

static struct hf_error *run(struct hf_cli *cli, int argc, char **argv)
{
	struct retainers_args args = { .object.file.cli = cli };
	HF_AUTO(hf_db) struct hf_db *db = NULL;
	HF_AUTO(hf_row_sink) struct hf_row_sink *sink = NULL;
	struct hf_retainers retainers = { 0 };
	struct hf_cli_progress progress;
	struct hf_error *err;
	int64_t id = 0;

	err = hf_cli_parse(&argp, argc, argv, &args);
	if (!err)
		err = hf_cli_open(cli, args.object.file.file, &db);
	if (!err)
		err = hf_cli_sink(cli, &sink);
	if (err)
		return err;
	hf_cli_progress_init(&progress, cli);
	err = find(&args, db, &progress.hooks, &id, &retainers);
	hf_cli_progress_clear(&progress);
	if (!err && !retainers.num_matches)
		err = hf_error_fix(
			hf_error_create(HF_ERROR_NOT_FOUND,
					"there is no object of type '%s'",
					args.type),
			"heapfork census lists the types of objects");
	if (!err)
		err = hf_cli_retainer_rows(cli, db, &retainers, sink);
	if (!err && retainers.num_broken)
		err = hf_error_cause(
			hf_bad_data("the snapshot is damaged"),
			"the way from a root to %" PRIu64 " objects is broken",
			retainers.num_broken);
	if (!err && id && hf_cli_is_table(cli))
		err = print_dominators(cli, db, id, sink);
	hf_retainers_deinit(&retainers);
	return err;
}

const struct hf_verb hf_verb_retainers = {
	.name = "retainers",
	.summary = "who keeps objects alive: merged paths from roots",
	.argp = &argp,
	.run = run,
};
