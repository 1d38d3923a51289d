/* heapfork sql: any question, read-only.
 * SPDX-License-Identifier: MIT */
#include <string.h>
#include <unistd.h>

#include "query/cli/cli.h"
#include "query/sql_guard.h"
#include "util/file.h"
#include "util/parse.h"

enum { KEY_TIMEOUT = HF_KEY_VERB };

struct sql_args {
	struct hf_cli *cli;
	const char *file, *sql;
	uint64_t timeout_s; /* 0: none */
};

static const struct argp_option options[] = {
	{ "timeout", KEY_TIMEOUT, "SECONDS", 0,
	  "Stop after this time, exit code 8", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct sql_args *args = state->input;
	struct hf_error *err;

	switch (key) {
	case ARGP_KEY_INIT:
		hf_cli_parse_init(state, 2);
		return 0;
	case KEY_TIMEOUT:
		err = hf_parse_range(arg, "--timeout", 1, 1000000,
				     &args->timeout_s);
		if (err)
			argp_error(state, "%s", err->message);
		hf_error_destroy(err);
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num == 0)
			args->file = arg;
		else if (state->arg_num == 1)
			args->sql = arg;
		else
			argp_error(state, "too many arguments: the query is "
					  "one argument, in quotes");
		return 0;
	case ARGP_KEY_END:
		if (!args->file)
			argp_error(state, "which snapshot?");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = {
	{ &hf_row_options, 0, NULL, 0 },
	{ &hf_message_options, 0, NULL, 0 },
	{ 0 },
};

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "FILE [QUERY]",
	.doc = "Answer an SQL query. It may only read. Without QUERY, or with "
	       "-, it is read from standard input. All rows are printed unless "
	       "--limit is given.\n"
	       "\n"
	       "    heapfork sql app.heap 'SELECT * FROM census LIMIT 5'\n"
	       "    heapfork sql app.heap \"PRAGMA table_list\"\n"
	       "    heapfork sql --csv app.heap <report.sql >report.csv\n"
	       "\v"
	       "Views: census, retained_top, leak, root_holder, referrer, "
	       "dominator_child, heap_summary, ... See heapfork-sql(1).",
	.children = children,
};

static struct hf_error *read_stdin(char **ret)
{
	size_t len;
	struct hf_error *err =
		hf_read_fd(STDIN_FILENO, "standard input", ret, &len);

	if (!err && strlen(*ret) != len)
		err = hf_error_create(HF_ERROR_USAGE,
				      "there is a NUL byte in the query");
	return err;
}

static struct hf_error *run(struct hf_cli *cli, int argc, char **argv)
{
	struct sql_args args = { .cli = cli };
	HF_AUTO(hf_db) struct hf_db *db = NULL;
	HF_AUTO(hf_row_sink) struct hf_row_sink *sink = NULL;
	HF_AUTO_FREE char *text = NULL;
	struct hf_error *err;
	uint64_t more = 0;

	err = hf_cli_parse(&argp, argc, argv, &args);
	if (err)
		return err;
	err = hf_cli_open(cli, args.file, &db);
	if (!err && (!args.sql || !strcmp(args.sql, "-"))) {
		err = read_stdin(&text);
		args.sql = text;
	}
	if (!err)
		err = hf_cli_sink(cli, &sink);
	if (err)
		return err;
	if (args.timeout_s)
		hf_db_set_stop(db, cli->cancelled,
			       hf_now_ns() + args.timeout_s * 1000000000);
	err = hf_sql_guard_run(db, args.sql, sink,
			       cli->limit_given ? cli->limit : 0, &more);
	if (!err)
		hf_cli_note_more(cli, more);
	return err;
}

const struct hf_verb hf_verb_sql = {
	.name = "sql",
	.summary = "answer any SQL query, read-only",
	.argp = &argp,
	.run = run,
};
