/* heapfork top: who keeps most alive.
 * SPDX-License-Identifier: MIT */
#include "query/cli/file_args.h"
#include "query/query.h"
#include "sql/sql.h"

static const struct argp argp = {
	.parser = hf_file_args_parse,
	.args_doc = "FILE",
	.doc = "List what retains most: objects, and root holders (global "
	       "variables, thread stacks, ...). Retained bytes are those that "
	       "would become free with it.\n"
	       "\n"
	       "    heapfork top app.heap\n"
	       "    heapfork top --limit 5 --json app.heap\n",
	.children = hf_file_children,
};

static struct hf_error *count_objects(struct hf_db *db, uint64_t *ret)
{
	HF_AUTO(hf_query) struct hf_query *query = NULL;
	struct hf_error *err;
	bool row;

	/* ids are dense */
	err = hf_query_prepare(db, "SELECT max(id) FROM main.object", &query);
	if (!err)
		err = hf_query_step(query, &row);
	if (!err)
		*ret = (uint64_t)hf_query_i64(query, 0);
	return err;
}

static struct hf_error *run(struct hf_cli *cli, int argc, char **argv)
{
	const struct hf_sql_query *canned = hf_sql_query_find("top");
	struct hf_file_args args = { .cli = cli };
	HF_AUTO(hf_db) struct hf_db *db = NULL;
	HF_AUTO(hf_query) struct hf_query *query = NULL;
	HF_AUTO(hf_row_sink) struct hf_row_sink *sink = NULL;
	struct hf_error *err;
	uint64_t num = 0;

	err = hf_cli_parse(&argp, argc, argv, &args);
	if (!err)
		err = hf_cli_open(cli, args.file, &db);
	if (!err)
		err = hf_query_prepare(db, canned->sql, &query);
	/* The limit is for SQLite: the index gives the first rows at once,
	 * and the others are not even read. */
	if (!err)
		err = hf_query_bind_i64(query, 1,
					cli->limit && cli->limit <= INT64_MAX ?
						(int64_t)cli->limit :
						-1);
	if (!err)
		err = count_objects(db, &num);
	if (!err)
		err = hf_cli_sink(cli, &sink);
	if (!err)
		err = hf_query_rows(query, sink, cli->limit, NULL);
	if (!err && cli->limit && num > cli->limit)
		hf_cli_note_more(cli, num - cli->limit);
	return err;
}

const struct hf_verb hf_verb_top = {
	.name = "top",
	.summary = "who keeps most alive: objects and root holders",
	.argp = &argp,
	.run = run,
};
