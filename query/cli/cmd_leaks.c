/* heapfork leaks: what no root reaches any more.
 * SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "query/cli/file_args.h"
#include "query/query.h"

enum { KEY_HEADS = HF_KEY_VERB };

struct leaks_args {
	struct hf_file_args file; /* first: for hf_file_args_parse */
	bool heads;
};

static const struct argp_option options[] = {
	{ "heads", KEY_HEADS, 0, 0,
	  "List the heads of unreachable structures, one each, instead", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct leaks_args *args = state->input;

	if (key != KEY_HEADS)
		return hf_file_args_parse(key, arg, state);
	args->heads = true;
	return 0;
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "FILE",
	.doc = "List unreachable objects, by type and size: no chain of "
	       "pointers leads from a root to them. In a table, the heads of "
	       "unreachable structures follow, by what they keep.\n"
	       "\n"
	       "    heapfork leaks app.heap\n"
	       "    heapfork leaks --heads --csv app.heap\n"
	       "    heapfork retainers app.heap --id ID\n"
	       "\v"
	       "Unreachable is not always leaked: a pointer may be stored in "
	       "disguise. Reachable is not always wanted: see heapfork top.",
	.children = hf_file_children,
};

static struct hf_error *count(struct hf_db *db, int64_t *count_ret,
			      int64_t *bytes_ret)
{
	HF_AUTO(hf_query) struct hf_query *query = NULL;
	struct hf_error *err;
	bool row;

	err = hf_query_prepare(db,
			       "SELECT sum(unreachable_count),"
			       " sum(unreachable_bytes) FROM main.type_stat",
			       &query);
	if (!err)
		err = hf_query_step(query, &row);
	if (err)
		return err;
	*count_ret = hf_query_i64(query, 0);
	*bytes_ret = hf_query_i64(query, 1);
	return NULL;
}

/* Nothing is unreachable where nothing was found: say so. */
static struct hf_error *check_heap(struct hf_cli *cli, struct hf_db *db,
				   bool *ret)
{
	HF_AUTO(hf_query) struct hf_query *query = NULL;
	struct hf_error *err;
	bool row;

	err = hf_query_prepare(
		db,
		"SELECT EXISTS (SELECT 1 FROM main.heap_area),"
		" 100.0 * unknown_bytes / nullif(private_anon_bytes, 0)"
		" FROM main.snapshot WHERE id = 1",
		&query);
	if (!err)
		err = hf_query_step(query, &row);
	if (err)
		return err;
	*ret = !row || hf_query_i64(query, 0);
	if (*ret)
		return NULL;
	err = hf_error_create(HF_ERROR_PARTIAL,
			      "nothing is known about this heap, nor what in "
			      "it is unreachable");
	err = hf_error_cause(err,
			     "no allocator that heapfork knows was found: "
			     "%" PRId64 " %% of private memory is unexplained",
			     hf_query_i64(query, 1));
	hf_cli_warn(cli, hf_error_fix(err, "heapfork info tells what was "
					   "found instead"));
	return NULL;
}

/* What was not read, or not at the instant of all the rest, may have held the
 * only pointer to an object. */
static struct hf_error *warn_doubt(const struct hf_cli *cli, struct hf_db *db)
{
	HF_AUTO(hf_query) struct hf_query *query = NULL;
	char missing[40], late[40];
	struct hf_error *err;
	bool row = false;

	err = hf_query_prepare(
		db,
		"SELECT (SELECT CAST(value AS INTEGER) FROM main.meta"
		" WHERE key = 'missing_bytes'),"
		" (SELECT CAST(total(resident_bytes) AS INTEGER)"
		" FROM main.segment"
		" WHERE captured = 'late' AND kind <> 'shared')",
		&query);
	if (!err)
		err = hf_query_step(query, &row);
	if (err || !row ||
	    (!hf_query_i64(query, 0) && !hf_query_i64(query, 1)))
		return err;
	hf_format_bytes(hf_query_i64(query, 0), missing, sizeof(missing));
	hf_format_bytes(hf_query_i64(query, 1), late, sizeof(late));
	err = hf_error_create(HF_ERROR_PARTIAL,
			      "some objects may be called unreachable though "
			      "they are not");
	hf_cli_warn(cli, hf_error_cause(
		err, "%s of the process's memory could not be read, %s were "
		"read later than the rest: pointers may have been there",
		missing, late));
	return NULL;
}

static struct hf_error *print_people(struct hf_cli *cli, struct hf_db *db,
				     struct hf_row_sink *sink, bool has_heap)
{
	char bytes[40];
	int64_t num, num_bytes;
	struct hf_error *err = count(db, &num, &num_bytes);

	if (err)
		return err;
	if (!has_heap) {
		puts("nothing is known about this heap");
		return NULL;
	}
	if (!num) {
		puts("nothing is unreachable");
		return NULL;
	}
	printf("unreachable: %" PRId64 " object%s, %s, by type and size:\n\n",
	       num, hf_cli_plural(num),
	       hf_cli_bytes(cli, num_bytes, bytes, sizeof(bytes)));
	err = hf_cli_canned(cli, db, sink, "leaks", NULL);
	if (err)
		return err;
	puts("\nheads of unreachable structures, by what they keep:\n");
	return hf_cli_canned(cli, db, sink, "leak_roots", NULL);
}

static struct hf_error *run(struct hf_cli *cli, int argc, char **argv)
{
	struct leaks_args args = { .file.cli = cli };
	HF_AUTO(hf_db) struct hf_db *db = NULL;
	HF_AUTO(hf_row_sink) struct hf_row_sink *sink = NULL;
	struct hf_error *err;
	bool has_heap;

	err = hf_cli_parse(&argp, argc, argv, &args);
	if (!err)
		err = hf_cli_open(cli, args.file.file, &db);
	if (!err)
		err = hf_cli_sink(cli, &sink);
	if (!err)
		err = check_heap(cli, db, &has_heap);
	if (!err)
		err = warn_doubt(cli, db);
	if (err)
		return err;
	if (args.heads)
		return hf_cli_canned(cli, db, sink, "leak_roots", NULL);
	if (hf_cli_is_table(cli))
		return print_people(cli, db, sink, has_heap);
	return hf_cli_canned(cli, db, sink, "leaks", NULL);
}

const struct hf_verb hf_verb_leaks = {
	.name = "leaks",
	.summary = "unreachable objects, by type and size",
	.argp = &argp,
	.run = run,
};
