/* heapfork census: objects and bytes by type, and what is not in them.
 * SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "query/cli/file_args.h"
#include "query/query.h"

static const struct argp argp = {
	.parser = hf_file_args_parse,
	.args_doc = "FILE",
	.doc = "Count objects and bytes by type.\n"
	       "\n"
	       "    heapfork census app.heap\n"
	       "    heapfork census --limit 0 --csv app.heap >census.csv\n"
	       "\v"
	       "The totals below the table, with the memory that no reader "
	       "explains, are on standard error with csv and json.",
	.children = hf_file_children,
};

static const char totals_sql[] =
	"SELECT s.objects, s.live_bytes, a.cached, a.free, a.trim,"
	" u.count, u.bytes, s.unknown_bytes, s.private_anon_bytes,"
	" (SELECT sum(count) FROM main.anomaly), s.partial"
	" FROM main.snapshot s,"
	" (SELECT sum(cached_bytes) AS cached, sum(free_bytes) AS free,"
	"  sum(trim_bytes) AS trim FROM main.heap_area) a,"
	" (SELECT sum(unreachable_count) AS count,"
	"  sum(unreachable_bytes) AS bytes FROM main.type_stat) u"
	" WHERE s.id = 1";

enum totals_column {
	T_OBJECTS, T_LIVE, T_CACHED, T_FREE, T_TRIM, T_LEAK_COUNT, T_LEAK_BYTES,
	T_UNKNOWN, T_PRIVATE, T_ANOMALIES, T_PARTIAL,
};

static double percent(int64_t part, int64_t whole)
{
	return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

/* Part of the answer in a table, a note beside csv and json. */
static void line(const struct hf_cli *cli, const char *label, const char *text)
{
	if (hf_cli_is_table(cli))
		printf("%-12s %s\n", label, text);
	else
		hf_cli_note(cli, "%-12s %s", label, text);
}

static struct hf_error *print_totals(struct hf_cli *cli, struct hf_db *db)
{
	HF_AUTO(hf_query) struct hf_query *query = NULL;
	struct hf_error *err = hf_query_prepare(db, totals_sql, &query);
	char text[160], a[32], b[32], c[32];
	bool row;

	if (!err)
		err = hf_query_step(query, &row);
	if (err || !row)
		return err;
	if (hf_cli_is_table(cli))
		putchar('\n');
#define BYTES(column, buf) \
	hf_cli_bytes(cli, hf_query_i64(query, column), buf, sizeof(buf))
	snprintf(text, sizeof(text), "%" PRId64 " object%s, %s",
		 hf_query_i64(query, T_OBJECTS),
		 hf_cli_plural(hf_query_i64(query, T_OBJECTS)), BYTES(T_LIVE, a));
	line(cli, "live", text);
	snprintf(text, sizeof(text), "%" PRId64 " object%s, %s (%.1f %%)",
		 hf_query_i64(query, T_LEAK_COUNT),
		 hf_cli_plural(hf_query_i64(query, T_LEAK_COUNT)), BYTES(T_LEAK_BYTES, a),
		 percent(hf_query_i64(query, T_LEAK_BYTES),
			 hf_query_i64(query, T_LIVE)));
	line(cli, "unreachable", text);
	snprintf(text, sizeof(text),
		 "%s cached, %s free, of it %s at the end of heaps",
		 BYTES(T_CACHED, a), BYTES(T_FREE, b), BYTES(T_TRIM, c));
	line(cli, "allocator", text);
	if (hf_query_is_null(query, T_UNKNOWN) ||
	    hf_query_is_null(query, T_PRIVATE))
		snprintf(text, sizeof(text), "not known");
	else
		snprintf(text, sizeof(text),
			 "%s (%.1f %%) of %s private anonymous memory: no "
			 "reader knows it",
			 BYTES(T_UNKNOWN, a),
			 percent(hf_query_i64(query, T_UNKNOWN),
				 hf_query_i64(query, T_PRIVATE)),
			 BYTES(T_PRIVATE, b));
#undef BYTES
	line(cli, "unexplained", text);
	if (hf_query_i64(query, T_ANOMALIES)) {
		snprintf(text, sizeof(text),
			 "%" PRId64 " (heapfork info shows them)",
			 hf_query_i64(query, T_ANOMALIES));
		line(cli, "anomalies", text);
	}
	if (hf_query_i64(query, T_PARTIAL))
		line(cli, "partial",
		     "some memory or threads could not be read");
	return NULL;
}

static struct hf_error *run(struct hf_cli *cli, int argc, char **argv)
{
	struct hf_file_args args = { .cli = cli };
	HF_AUTO(hf_db) struct hf_db *db = NULL;
	HF_AUTO(hf_row_sink) struct hf_row_sink *sink = NULL;
	struct hf_error *err;

	err = hf_cli_parse(&argp, argc, argv, &args);
	if (!err)
		err = hf_cli_open(cli, args.file, &db);
	if (!err)
		err = hf_cli_sink(cli, &sink);
	if (!err)
		err = hf_cli_canned(cli, db, sink, "census",
				    "type, kind, count, bytes, retained_bytes,"
				    " unreachable_bytes");
	return err ? err : print_totals(cli, db);
}

const struct hf_verb hf_verb_census = {
	.name = "census",
	.summary = "objects and bytes by type",
	.argp = &argp,
	.run = run,
};
