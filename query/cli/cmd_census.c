/* heapfork census: objects and bytes by type, and what is not in them.
 * SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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
	" (SELECT sum(count) FROM main.anomaly), s.partial,"
	" EXISTS (SELECT 1 FROM main.heap_area),"
	" (SELECT value FROM main.meta WHERE key = 'partial'),"
	" (SELECT value FROM main.meta WHERE key = 'unsupported')"
	" FROM main.snapshot s,"
	" (SELECT sum(cached_bytes) AS cached, sum(free_bytes) AS free,"
	"  sum(trim_bytes) AS trim FROM main.heap_area) a,"
	" (SELECT sum(unreachable_count) AS count,"
	"  sum(unreachable_bytes) AS bytes FROM main.type_stat) u"
	" WHERE s.id = 1";

enum totals_column {
	T_OBJECTS, T_LIVE, T_CACHED, T_FREE, T_TRIM, T_LEAK_COUNT, T_LEAK_BYTES,
	T_UNKNOWN, T_PRIVATE, T_ANOMALIES, T_PARTIAL, T_HAS_HEAP, T_WHY,
	T_UNSUPPORTED,
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

static void print_allocator(const struct hf_cli *cli,
			    const struct hf_query *query)
{
	char text[160], cached[32], free_text[32], trim[32];

#define BYTES(column, buf) \
	hf_cli_bytes(cli, hf_query_i64(query, column), buf, sizeof(buf))
	if (hf_query_i64(query, T_HAS_HEAP))
		snprintf(text, sizeof(text),
			 "%s cached, %s free, of it %s at the end of heaps",
			 BYTES(T_CACHED, cached), BYTES(T_FREE, free_text),
			 BYTES(T_TRIM, trim));
	else if (!hf_query_is_null(query, T_UNSUPPORTED))
		snprintf(text, sizeof(text),
			 "none that heapfork understands was found");
	else
		snprintf(text, sizeof(text),
			 "none that heapfork knows was found: an unknown "
			 "allocator (or the program's own mappings) holds "
			 "%.1f %% of private memory",
			 percent(hf_query_i64(query, T_UNKNOWN),
				 hf_query_i64(query, T_PRIVATE)));
#undef BYTES
	line(cli, "allocator", text);
}

/* The reasons as the index gives them (sql/schema.sql, table meta), in words;
 * files of older versions have none. */
static struct hf_error *print_partial(const struct hf_cli *cli,
				      const struct hf_query *query)
{
	static const struct {
		const char *name, *text;
	} reasons[] = {
		{ "memory", "some memory could not be read" },
		{ "threads", "some threads could not be stopped" },
		{ "unsupported", "its allocator is not supported" },
		{ "no_allocator", "no allocator that heapfork knows" },
	};
	const char *why = hf_query_text(query, T_WHY);
	HF_AUTO_FREE char *unsupported = NULL;
	char text[256] = "";
	struct hf_error *err;

	if (!hf_query_is_null(query, T_UNSUPPORTED)) {
		err = hf_cli_printable(hf_query_text(query, T_UNSUPPORTED),
				       &unsupported);
		if (err)
			return err;
		line(cli, "unsupported", unsupported);
	}
	if (!hf_query_i64(query, T_PARTIAL))
		return NULL;
	for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++) {
		size_t len = strlen(text);

		if (strstr(why, reasons[i].name))
			snprintf(text + len, sizeof(text) - len, "%s%s",
				 len ? "; " : "", reasons[i].text);
	}
	line(cli, "partial",
	     text[0] ? text : "some memory or threads could not be read");
	return NULL;
}

static struct hf_error *print_totals(struct hf_cli *cli, struct hf_db *db)
{
	HF_AUTO(hf_query) struct hf_query *query = NULL;
	struct hf_error *err = hf_query_prepare(db, totals_sql, &query);
	char text[160], a[32], b[32];
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
	print_allocator(cli, query);
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
	return print_partial(cli, query);
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
