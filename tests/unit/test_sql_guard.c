/* SQL guard: a user's statements read, and do nothing else.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "query/sql_guard.h"
#include "tests/support/heap_file.h"
#include "tests/support/test_main.h"

struct fixture {
	struct hf_heap_file file;
	struct hf_db *db;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	hf_heap_file_create(&f->file);
	hf_heap_file_fill(&f->file);
	hf_heap_file_finish(&f->file);
	assert_hf_ok(hf_db_open(f->file.path, &f->db));
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	hf_db_close(f->db);
	hf_heap_file_remove(&f->file);
	free(f);
	return 0;
}

/* Run sql; *out_ret is what was printed as CSV without header. */
static struct hf_error *run(struct fixture *f, const char *sql, uint64_t limit,
			    uint64_t *more_ret, char **out_ret)
{
	struct hf_row_sink_options options = { .format = HF_ROWS_CSV,
					       .no_header = true };
	HF_AUTO(hf_row_sink) struct hf_row_sink *sink = NULL;
	struct hf_error *err;
	size_t len = 0;
	FILE *out = open_memstream(out_ret, &len);

	assert_hf_ok(hf_row_sink_create(out, &options, &sink));
	err = hf_sql_guard_run(f->db, sql, sink, limit, more_ret);
	fclose(out);
	return err;
}

static void what_changes_anything_is_refused(void **state)
{
	static const char *const statements[] = {
		"ATTACH '/tmp/x.db' AS x",
		"DETACH main",
		"DELETE FROM type",
		"INSERT INTO meta VALUES('a', 'b')",
		"UPDATE type SET name = 'x'",
		"REPLACE INTO meta VALUES('a', 'b')",
		"CREATE TABLE t(a)",
		"CREATE TEMP TABLE t(a)",
		"CREATE TEMP VIEW v AS SELECT 1",
		"CREATE VIEW v AS SELECT 1",
		"CREATE INDEX i ON type(name)",
		"CREATE TRIGGER t AFTER INSERT ON meta BEGIN SELECT 1; END",
		"CREATE VIRTUAL TABLE v USING fts5(a)",
		"DROP TABLE type",
		"DROP VIEW census",
		"ALTER TABLE type RENAME TO other",
		"VACUUM",
		"VACUUM INTO '/tmp/hf-guard-copy.db'",
		"REINDEX",
		"ANALYZE",
		"BEGIN",
		"COMMIT",
		"ROLLBACK",
		"SAVEPOINT s",
		"PRAGMA journal_mode = WAL",
		"PRAGMA writable_schema = ON",
		"PRAGMA user_version = 7",
		"PRAGMA query_only = OFF",
		"PRAGMA trusted_schema = ON",
		"PRAGMA temp_store_directory = '/tmp'",
		"PRAGMA database_list",
		"SELECT load_extension('/tmp/x.so')",
		"SELECT writefile('/tmp/x', 'y')",
		"SELECT fts3_tokenizer('simple')",
		"SELECT 1; DELETE FROM type",
		"EXPLAIN DELETE FROM type",
		"WITH x AS (SELECT 1) DELETE FROM type",
		"SELECT * FROM pragma_journal_mode('wal')",
	};
	struct fixture *f = *state;
	struct stat st;

	for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]);
	     i++) {
		char *out = NULL;
		struct hf_error *err = run(f, statements[i], 0, NULL, &out);

		if (!err || err->code != HF_ERROR_USAGE)
			fail_msg("%s: %s", statements[i],
				 err ? err->message : "was run");
		/* Also what stands before the refused statement. */
		assert_string_equal(out, "");
		hf_error_destroy(err);
		free(out);
	}
	assert_int_equal(stat("/tmp/hf-guard-copy.db", &st), -1);
}

static void what_reads_is_answered(void **state)
{
	static const struct {
		const char *sql, *out;
	} cases[] = {
		{ "SELECT count(*) FROM object", "10\n" },
		{ "SELECT 1; SELECT 2;", "1\n2\n" },
		{ "-- a comment\nSELECT 1 -- another\n;", "1\n" },
		{ "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 "
		  "FROM n WHERE i < 3) SELECT sum(i) FROM n",
		  "6\n" },
		{ "SELECT type FROM census ORDER BY bytes DESC LIMIT 1 "
		  "OFFSET 1",
		  "Node\n" },
		{ "SELECT count(*) FROM path_to_root WHERE object_id = 6",
		  "5\n" },
		{ "SELECT count(*) FROM json_each('[1,2]')", "2\n" },
		{ "SELECT name FROM pragma_table_info('ref') LIMIT 1",
		  "src\n" },
		{ "PRAGMA user_version", "1\n" },
		{ "PRAGMA quick_check", "ok\n" },
		{ "SELECT upper(name) FROM type WHERE id = 4", "NODE\n" },
		{ "SELECT group_concat(slot) OVER () FROM ref LIMIT 1",
		  NULL },
		{ "EXPLAIN QUERY PLAN SELECT 1", NULL },
		{ "VALUES(1),(2)", "1\n2\n" },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *out = NULL;
		struct hf_error *err = run(f, cases[i].sql, 0, NULL, &out);

		if (err)
			fail_msg("%s: %s", cases[i].sql, err->message);
		if (cases[i].out)
			assert_string_equal(out, cases[i].out);
		free(out);
	}
}

static void a_wrong_statement_is_the_users_error(void **state)
{
	static const char *const statements[] = {
		"SELEC 1",	    "SELECT * FROM nothing",
		"SELECT nothing",   "SELECT \"Node\"", /* no text in "" */
		"SELECT 1 FROM (",  "",
		" ;; -- comment\n",
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]);
	     i++) {
		char *out = NULL;
		struct hf_error *err = run(f, statements[i], 0, NULL, &out);

		if (!err)
			fail_msg("'%s' was run", statements[i]);
		assert_int_equal(err->code, HF_ERROR_USAGE);
		assert_string_equal(out, "");
		hf_error_destroy(err);
		free(out);
	}
}

static const char endless[] =
	"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
	" SELECT count(*) FROM n";

static void an_endless_query_ends_at_its_deadline(void **state)
{
	struct fixture *f = *state;
	char *out = NULL;
	struct hf_error *err;

	hf_db_set_stop(f->db, NULL, hf_now_ns() + 50000000);
	err = run(f, endless, 0, NULL, &out);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_TIMEOUT);
	hf_error_destroy(err);
	free(out);
}

static void an_endless_query_ends_when_the_user_stops_it(void **state)
{
	volatile sig_atomic_t cancelled = 1;
	struct fixture *f = *state;
	char *out = NULL;
	struct hf_error *err;

	hf_db_set_stop(f->db, &cancelled, 0);
	err = run(f, endless, 0, NULL, &out);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_INTERRUPTED);
	hf_error_destroy(err);
	free(out);
}

static void a_limit_counts_what_it_leaves_out(void **state)
{
	struct fixture *f = *state;
	uint64_t more = 99;
	char *out = NULL;

	assert_hf_ok(run(f, "SELECT id FROM object ORDER BY id", 3, &more, &out));
	assert_string_equal(out, "1\n2\n3\n");
	assert_int_equal(more, 7);
	free(out);
}

static void the_guard_is_gone_afterwards(void **state)
{
	struct fixture *f = *state;
	struct hf_query *query;
	char *out = NULL;

	assert_hf_ok(run(f, "SELECT 1", 0, NULL, &out));
	free(out);
	assert_hf_ok(hf_query_prepare(f->db, "PRAGMA database_list", &query));
	hf_query_destroy(query);
}

static void a_huge_text_is_an_error_not_a_crash(void **state)
{
	struct fixture *f = *state;
	char *out = NULL;
	struct hf_error *err =
		run(f, "SELECT zeroblob(2000000000)", 0, NULL, &out);

	assert_non_null(err);
	hf_error_destroy(err);
	free(out);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_changes_anything_is_refused),
		TEST(what_reads_is_answered),
		TEST(a_wrong_statement_is_the_users_error),
		TEST(an_endless_query_ends_at_its_deadline),
		TEST(an_endless_query_ends_when_the_user_stops_it),
		TEST(a_limit_counts_what_it_leaves_out),
		TEST(the_guard_is_gone_afterwards),
		TEST(a_huge_text_is_an_error_not_a_crash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
