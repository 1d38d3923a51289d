/* heapfork info: where, when and how a snapshot was taken.
 * SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "query/cli/certificate.h"
#include "query/cli/file_args.h"
#include "query/query.h"
#include "sql/sql.h"

enum { KEY_CERTIFICATE = HF_KEY_VERB };

struct info_args {
	struct hf_file_args file; /* first: its parser has it, too */
	bool certificate;
};

static const struct argp_option options[] = {
	{ "certificate", KEY_CERTIFICATE, 0, 0,
	  "Only how far it can be believed: a row for each item", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct info_args *args = state->input;

	if (key != KEY_CERTIFICATE)
		return hf_file_args_parse(key, arg, state);
	args->certificate = true;
	return 0;
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "FILE",
	.doc = "Tell where, when and how a snapshot was taken, what it cost "
	       "the process, and how far it can be believed.\n"
	       "\n"
	       "    heapfork info app.heap\n"
	       "    heapfork info --json app.heap\n"
	       "    heapfork info --certificate --json app.heap\n"
	       "\v"
	       "With csv and json: one row of the table snapshot, or with "
	       "--certificate a row for each item of it. With -v, the phases "
	       "of the index are listed too.",
	.children = hf_file_children,
};

static void print(const char *key, const char *format, ...) HF_PRINTF(2, 3);

static void print(const char *key, const char *format, ...)
{
	va_list args;

	printf("%-12s ", key);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

enum {
	I_TAKEN, I_PID, I_COMMAND, I_TOOL, I_SOURCE, I_CONSISTENCY, I_PARTIAL,
	I_PAUSE, I_STOP, I_REGS, I_FORK, I_RESUME, I_REAP, I_LIFE, I_COW,
	I_THREADS, I_OBJECTS, I_REFS, I_LIVE,
};

static const char people_sql[] =
	"SELECT taken_ns, pid, command, tool, source, consistency, partial,"
	" pause_ns, stop_ns, regs_ns, fork_ns, resume_ns, reap_ns,"
	" child_life_ns, cow_pages, threads, objects, refs, live_bytes"
	" FROM main.snapshot";

static void print_time(const struct hf_query *query)
{
	time_t seconds = (time_t)(hf_query_i64(query, I_TAKEN) / 1000000000);
	struct tm tm;
	char text[64];

	if (hf_query_is_null(query, I_TAKEN) || !localtime_r(&seconds, &tm) ||
	    !strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S %z", &tm))
		print("taken", "at an unknown time");
	else
		print("taken", "%s", text);
}

static double ms(const struct hf_query *query, int column)
{
	return (double)hf_query_i64(query, column) / 1e6;
}

/* "stop 0.1, fork 2.0": those that are known. */
static void format_parts(const struct hf_query *query, char *buf, size_t size)
{
	static const struct {
		int column;
		const char *name;
	} parts[] = {
		{ I_STOP, "stop" },
		{ I_REGS, "registers" },
		{ I_FORK, "fork" },
		{ I_RESUME, "resume" },
	};
	size_t len = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		int n;

		if (hf_query_is_null(query, parts[i].column))
			continue;
		n = snprintf(buf + len, size - len, "%s%s %.1f",
			     len ? ", " : " (", parts[i].name,
			     ms(query, parts[i].column));
		if (n < 0 || (size_t)n >= size - len)
			return;
		len += (size_t)n;
	}
	if (len)
		snprintf(buf + len, size - len, ")");
}

static void print_cost(const struct hf_cli *cli, const struct hf_query *query)
{
	char bytes[40], parts[120];

	if (hf_query_is_null(query, I_PAUSE))
		return;
	format_parts(query, parts, sizeof(parts));
	print("paused", "%.1f ms%s", ms(query, I_PAUSE), parts);
	if (!hf_query_is_null(query, I_LIFE) && hf_query_is_null(query, I_REAP))
		print("child", "lived %.1f ms", ms(query, I_LIFE));
	else if (!hf_query_is_null(query, I_LIFE))
		print("child", "lived %.1f ms, its end paused one thread for "
			       "%.1f ms",
		      ms(query, I_LIFE), ms(query, I_REAP));
	if (!hf_query_is_null(query, I_COW))
		print("copied", "%s by the process meanwhile",
		      hf_cli_bytes(cli, hf_query_i64(query, I_COW) * 4096,
				   bytes, sizeof(bytes)));
}

static struct hf_error *print_snapshot(const struct hf_cli *cli,
				       struct hf_db *db, const char *file)
{
	HF_AUTO(hf_query) struct hf_query *query = NULL;
	struct hf_error *err = hf_query_prepare(db, people_sql, &query);
	HF_AUTO_FREE char *command = NULL, *tool = NULL;
	char bytes[40];
	struct stat st;
	bool row;

	if (!err)
		err = hf_query_step(query, &row);
	if (!err && !row)
		err = hf_error_cause(hf_bad_data("the snapshot is damaged"),
				     "table 'snapshot' is empty");
	if (err)
		return err;
	err = hf_cli_printable(hf_query_text(query, I_COMMAND), &command);
	if (!err)
		err = hf_cli_printable(hf_query_text(query, I_TOOL), &tool);
	if (err)
		return err;
	print("process", "%s, pid %" PRId64 ", %" PRId64 " thread%s", command,
	      hf_query_i64(query, I_PID), hf_query_i64(query, I_THREADS),
	      hf_cli_plural(hf_query_i64(query, I_THREADS)));
	print_time(query);
	print_cost(cli, query);
	print("heap", "%" PRId64 " object%s, %s, %" PRId64 " references",
	      hf_query_i64(query, I_OBJECTS),
	      hf_cli_plural(hf_query_i64(query, I_OBJECTS)),
	      hf_cli_bytes(cli, hf_query_i64(query, I_LIVE), bytes,
			   sizeof(bytes)),
	      hf_query_i64(query, I_REFS));
	if (!stat(file, &st))
		print("file", "%s, format %d, by %s",
		      hf_cli_bytes(cli, st.st_size, bytes, sizeof(bytes)),
		      hf_db_format_version(db), tool);
	return NULL;
}

/* One of the tables below the summary; not printed if it has no rows. */
static struct hf_error *print_table(const struct hf_cli *cli, struct hf_db *db,
				    struct hf_row_sink *sink,
				    const char *title, const char *name,
				    const char *columns)
{
	const struct hf_sql_query *canned = hf_sql_query_find(name);
	HF_AUTO(hf_query) struct hf_query *query = NULL;
	struct hf_error *err = hf_query_prepare(db, canned->sql, &query);
	bool row;

	if (!err && canned->parameters[0])
		err = hf_query_bind_i64(query, 1, 1);
	if (!err)
		err = hf_query_step(query, &row);
	if (err || !row)
		return err;
	printf("\n%s:\n\n", title);
	return hf_cli_canned(cli, db, sink, name, columns);
}

/* As people read shares. */
static const char memory_columns[] =
	"item, count, bytes,"
	" CASE WHEN share IS NOT NULL THEN printf('%.1f %%', 100.0 * share)"
	" END AS share";

static struct hf_error *print_people(const struct hf_cli *cli,
				     struct hf_db *db, const char *file,
				     struct hf_row_sink *sink)
{
	struct hf_error *err = print_snapshot(cli, db, file);

	if (!err)
		err = hf_cli_print_certificate(cli, db);
	if (!err)
		err = print_table(cli, db, sink, "memory", "heap", memory_columns);
	if (!err)
		err = print_table(cli, db, sink, "anomalies", "anomalies",
				  NULL);
	if (!err && cli->verbose)
		err = print_table(cli, db, sink, "phases", "phases", NULL);
	return err;
}

static struct hf_error *run(struct hf_cli *cli, int argc, char **argv)
{
	struct info_args args = { .file.cli = cli };
	HF_AUTO(hf_db) struct hf_db *db = NULL;
	HF_AUTO(hf_row_sink) struct hf_row_sink *sink = NULL;
	struct hf_error *err;

	err = hf_cli_parse(&argp, argc, argv, &args);
	if (!err)
		err = hf_cli_open(cli, args.file.file, &db);
	if (!err)
		err = hf_cli_sink(cli, &sink);
	if (err)
		return err;
	if (hf_cli_is_table(cli) && args.certificate)
		return hf_cli_print_certificate(cli, db);
	if (hf_cli_is_table(cli))
		return print_people(cli, db, args.file.file, sink);
	/* A half of it is no certificate. */
	if (!cli->limit_given)
		cli->limit = 0;
	if (args.certificate)
		return hf_cli_canned(cli, db, sink, "certificate", NULL);
	return hf_cli_canned(cli, db, sink, "info", NULL);
}

const struct hf_verb hf_verb_info = {
	.name = "info",
	.summary = "where, when and how a snapshot was taken",
	.argp = &argp,
	.run = run,
};
