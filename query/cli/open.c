/* Open: the snapshot to read and the sink to write to, for all verbs.
 * SPDX-License-Identifier: MIT */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "query/cli/cli.h"
#include "query/query.h"
#include "sql/sql.h"
#include "util/parse.h"

struct hf_error *hf_cli_open(struct hf_cli *cli, const char *path,
			     struct hf_db **ret)
{
	struct hf_error *err = hf_db_open(path, ret);

	if (!err)
		hf_db_set_stop(*ret, cli->cancelled, 0);
	return err;
}

/* COLUMNS wins over what the terminal says, as in other programs. */
static unsigned terminal_width(void)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size;
	uint64_t width;

	if (columns) {
		struct hf_error *err =
			hf_parse_range(columns, "COLUMNS", 20, 10000, &width);

		if (!err)
			return (unsigned)width;
		hf_error_ignore(err);
	}
	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col >= 20)
		return size.ws_col;
	return 0;
}

struct hf_error *hf_cli_sink(const struct hf_cli *cli, struct hf_row_sink **ret)
{
	struct hf_row_sink_options options = cli->rows;

	options.terminal = isatty(STDOUT_FILENO);
	options.width = options.terminal ? terminal_width() : 0;
	return hf_row_sink_create(stdout, &options, ret);
}

struct hf_error *hf_cli_canned(const struct hf_cli *cli, struct hf_db *db,
			       struct hf_row_sink *sink, const char *name,
			       const char *table_columns)
{
	const struct hf_sql_query *canned = hf_sql_query_find(name);
	const char *columns = hf_cli_is_table(cli) ? table_columns : NULL;
	HF_AUTO(hf_query) struct hf_query *query = NULL;
	HF_AUTO_FREE char *sql = NULL;
	struct hf_error *err;
	uint64_t more = 0;

	assert(canned);
	if (asprintf(&sql, "SELECT %s FROM (%s)", columns ? columns : "*",
		     canned->sql) < 0) {
		sql = NULL;
		return &hf_enomem;
	}
	err = hf_query_prepare(db, columns ? sql : canned->sql, &query);
	/* All rows: those beyond the limit are counted, not printed. */
	if (!err && canned->parameters[0])
		err = hf_query_bind_i64(query, 1, -1);
	if (!err)
		err = hf_query_rows(query, sink, cli->limit, &more);
	if (!err)
		hf_cli_note_more(cli, more);
	return err;
}
