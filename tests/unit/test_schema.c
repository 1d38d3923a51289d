/* Schema: documented, complete, strict; its views answer by keys.
 * SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "indexer/db/db_writer.h"
#include "sql/sql.h"
#include "tests/support/test_main.h"

static void run(sqlite3 *db, const char *sql)
{
	if (sqlite3_exec(db, sql, NULL, NULL, NULL))
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
}

static sqlite3 *open_all(void)
{
	sqlite3 *db;

	assert_int_equal(sqlite3_open(":memory:", &db), 0);
	run(db, hf_sql_schema());
	run(db, hf_sql_indices());
	run(db, hf_sql_views());
	return db;
}

static int64_t number(sqlite3 *db, const char *sql, const char *name)
{
	sqlite3_stmt *stmt;
	int64_t value;

	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), 0);
	if (name)
		sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC);
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	value = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	return value;
}

static void all_names_that_are_fixed_exist(void **state)
{
	static const char *const tables[] = {
		"meta",	     "snapshot",   "module",	"segment",
		"thread",    "thread_register", "frame",	   "reader",	"heap_area",
		"type",	     "object",	   "object_type", "ref",
		"member",    "root",	   "type_stat", "type_dom",
		"type_edge", "retainer_path", "closure", "site",
		"object_site", "anomaly",  "phase",
	};
	static const char *const views[] = {
		"census",	  "census_container", "leak",
		"leak_root",	  "retained_top",     "retainer",
		"path_to_root",	  "dominator_child",  "referrer",
		"root_holder",	  "heap_summary",     "thread_stack",
		"anomaly_summary", "certificate",
		"not_frozen",
	};
	sqlite3 *db = open_all();
	size_t num_tables = sizeof(tables) / sizeof(tables[0]);
	size_t num_views = sizeof(views) / sizeof(views[0]);

	(void)state;
	for (size_t i = 0; i < num_tables; i++)
		if (!number(db, "SELECT count(*) FROM pragma_table_list WHERE"
				" type = 'table' AND strict AND name = ?",
			    tables[i]))
			fail_msg("no strict table '%s'", tables[i]);
	for (size_t i = 0; i < num_views; i++)
		if (!number(db, "SELECT count(*) FROM sqlite_schema WHERE"
				" type = 'view' AND name = ?", views[i]))
			fail_msg("no view '%s'", views[i]);
	/* Nor is there one that is not on the list. */
	assert_int_equal(number(db, "SELECT count(*) FROM sqlite_schema"
				    " WHERE type = 'table'", NULL),
			 num_tables);
	assert_int_equal(number(db, "SELECT count(*) FROM sqlite_schema"
				    " WHERE type = 'view'", NULL),
			 num_views);
	assert_int_equal(number(db, "SELECT application_id FROM"
				    " pragma_application_id", NULL),
			 HF_SQL_APPLICATION_ID);
	assert_int_equal(number(db, "SELECT user_version FROM"
				    " pragma_user_version", NULL),
			 HF_SQL_FORMAT_VERSION);
	sqlite3_close(db);
}

/* The text of the line in `text` that defines `column` of `table`, up to the
 * definition of the next; NULL if there is none. */
static char *definition(const char *table_sql, const char *column)
{
	char key[80];
	const char *line, *end;

	snprintf(key, sizeof(key), "\n  %s ", column);
	line = strstr(table_sql, key);
	if (!line) {
		snprintf(key, sizeof(key), "\n  \"%s\" ", column);
		line = strstr(table_sql, key);
	}
	if (!line)
		return NULL;
	for (end = line + 3; (end = strchr(end, '\n')); end++)
		if (!strncmp(end, "\n)", 2) ||
		    (!strncmp(end, "\n  ", 3) && end[3] != ' '))
			break;
	return strndup(line, end ? (size_t)(end - line) : strlen(line));
}

static void every_column_says_what_it_means_and_when_it_is_null(void **state)
{
	sqlite3 *db = open_all();
	sqlite3_stmt *stmt;
	int checked = 0;

	(void)state;
	/* The comments are part of the file: sqlite_schema keeps them. */
	assert_int_equal(
		sqlite3_prepare_v2(db,
				   "SELECT s.name, s.sql, c.name,"
				   " c.\"notnull\" OR c.pk FROM sqlite_schema s"
				   " JOIN pragma_table_info(s.name) c"
				   " WHERE s.type = 'table'",
				   -1, &stmt, NULL),
		0);
	while (sqlite3_step(stmt) == SQLITE_ROW) {
		const char *table = (const char *)sqlite3_column_text(stmt, 0);
		const char *column = (const char *)sqlite3_column_text(stmt, 2);
		HF_AUTO_FREE char *text = definition(
			(const char *)sqlite3_column_text(stmt, 1), column);
		const char *comment = text ? strstr(text, "-- ") : NULL;

		if (!comment || strlen(comment) < 10)
			fail_msg("%s.%s has no comment", table, column);
		/* Columns that some reader always fills may not say it. */
		if (!sqlite3_column_int(stmt, 3) && !strstr(comment, "NULL") &&
		    strcmp(column, "tool"))
			fail_msg("%s.%s can be NULL, and does not say when",
				 table, column);
		if (sqlite3_column_int(stmt, 3) && strstr(comment, "NULL:"))
			fail_msg("%s.%s cannot be NULL", table, column);
		checked++;
	}
	assert_true(checked > 100);
	sqlite3_finalize(stmt);
	sqlite3_close(db);
}

static void queries_document_exactly_their_columns_and_parameters(void **state)
{
	sqlite3 *db = open_all();
	size_t num;
	const struct hf_sql_query *queries = hf_sql_queries(&num);

	(void)state;
	assert_true(num >= 10);
	for (size_t i = 0; i < num; i++) {
		const struct hf_sql_query *query = &queries[i];
		const char *line = query->columns;
		int lines = 0;
		sqlite3_stmt *stmt;

		assert_ptr_equal(hf_sql_query_find(query->name), query);
		assert_true(isupper((unsigned char)query->summary[0]));
		if (sqlite3_prepare_v2(db, query->sql, -1, &stmt, NULL))
			fail_msg("%s: %s", query->name, sqlite3_errmsg(db));
		assert_true(sqlite3_stmt_readonly(stmt));
		for (int c = 0; c < sqlite3_column_count(stmt); c++) {
			const char *name = sqlite3_column_name(stmt, c);
			size_t len = strlen(name);

			if (strncmp(line, name, len) || line[len] != ':')
				fail_msg("%s: column '%s' is not documented",
					 query->name, name);
			line = strchr(line, '\n') + 1;
		}
		assert_string_equal(line, "");
		for (const char *p = query->parameters; *p; p++)
			lines += *p == '\n';
		assert_int_equal(lines, sqlite3_bind_parameter_count(stmt));
		sqlite3_finalize(stmt);
	}
	assert_null(hf_sql_query_find("no such query"));
	sqlite3_close(db);
}

/* A snapshot of the writer, with the statistics of a heap of ten million. */
static sqlite3 *open_large(const char *path)
{
	HF_AUTO(hf_db_writer) struct hf_db_writer *writer = NULL;
	sqlite3 *db;

	unlink(path);
	assert_hf_ok(hf_db_writer_create(path, &writer));
	assert_hf_ok(hf_db_put_type(
		writer, &(struct hf_db_type){ .id = 1,
					      .name = "t",
					      .kind = "class" }));
	for (uint64_t id = 1; id < 1000; id++) {
		assert_hf_ok(hf_db_put_object(
			writer, &(struct hf_db_object){ .id = id,
							.size_bytes = 1,
							.type_id = 1 }));
		assert_hf_ok(hf_db_put_ref(writer, id, 0, id, 0));
	}
	assert_hf_ok(hf_db_writer_commit(writer, NULL));
	assert_int_equal(sqlite3_open(path, &db), 0);
	assert_int_equal(number(db, "SELECT count(*) FROM sqlite_stat1 WHERE"
				    " tbl IN ('object', 'ref') AND"
				    " stat LIKE '1000 %'", NULL),
			 5);
	run(db, "UPDATE sqlite_stat1 SET stat = replace(stat, '1000 ',"
		" '10000000 ') WHERE tbl IN ('object', 'ref');"
		" ANALYZE sqlite_schema;");
	return db;
}

static void views_never_scan_where_there_is_a_key(void **state)
{
	char path[] = "/tmp/hf-schema-XXXXXX";
	static const char *const statements[] = {
		"SELECT * FROM census ORDER BY bytes DESC LIMIT 20",
		"SELECT * FROM census_container",
		"SELECT * FROM heap_summary",
		"SELECT * FROM certificate",
		"SELECT * FROM not_frozen",
		"SELECT * FROM leak",
		"SELECT type, size_bytes, count(*) FROM leak GROUP BY 1, 2",
		"SELECT * FROM leak WHERE id = 7",
		"SELECT * FROM leak_root ORDER BY retained_bytes DESC LIMIT 9",
		"SELECT * FROM retained_top WHERE id = 7",
		"SELECT * FROM retained_top WHERE addr = 7",
		"SELECT * FROM retainer WHERE object_id = 7 ORDER BY step",
		"SELECT * FROM path_to_root WHERE object_id = 7 ORDER BY step",
		"SELECT * FROM dominator_child WHERE parent_id = 7",
		"SELECT * FROM dominator_child WHERE parent_id = 7"
		" ORDER BY retained_bytes DESC LIMIT 20",
		"SELECT * FROM referrer WHERE object_id = 7",
		"SELECT * FROM referrer WHERE id = 7",
		"SELECT * FROM root_holder ORDER BY retained_bytes DESC",
		"SELECT * FROM root_holder WHERE id = 7",
		"SELECT * FROM thread_stack WHERE tid = 7",
		"SELECT * FROM anomaly_summary",
		"SELECT * FROM object WHERE addr <= 7 ORDER BY addr DESC"
		" LIMIT 1",
		"SELECT r.dst, o.size_bytes FROM ref r JOIN object o"
		" ON o.id = r.dst WHERE r.src = 7",
	};
	int fd = mkstemp(path);
	sqlite3 *db;

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	db = open_large(path);
	for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]);
	     i++) {
		char sql[300];
		sqlite3_stmt *stmt;
		int lines = 0;

		snprintf(sql, sizeof(sql), "EXPLAIN QUERY PLAN %s",
			 statements[i]);
		if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL))
			fail_msg("%s: %s", sql, sqlite3_errmsg(db));
		for (; sqlite3_step(stmt) == SQLITE_ROW; lines++) {
			const char *plan =
				(const char *)sqlite3_column_text(stmt, 3);

			/* Aliases of object and ref in the views; index
			 * object_unreachable holds nothing but leaks. */
			if ((!strncmp(plan, "SCAN o", 6) ||
			     !strncmp(plan, "SCAN r", 6) ||
			     !strncmp(plan, "SCAN c ", 7)) &&
			    strncmp(plan, "SCAN reader", 11) &&
			    !strstr(plan, "object_unreachable"))
				fail_msg("%s: %s", statements[i], plan);
			if (strstr(plan, "AUTOMATIC"))
				fail_msg("%s: %s", statements[i], plan);
		}
		assert_true(lines > 0);
		sqlite3_finalize(stmt);
	}
	sqlite3_close(db);
	unlink(path);
}

/* LIMIT stops early only if the rows come in order by themselves. */
static void largest_first_needs_no_sorting(void **state)
{
	char path[] = "/tmp/hf-schema-XXXXXX";
	static const char *const names[] = { "top", "children", "leak_roots" };
	int fd = mkstemp(path);
	sqlite3 *db;

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	db = open_large(path);
	for (size_t i = 0; i < 3; i++) {
		char *sql = sqlite3_mprintf("EXPLAIN QUERY PLAN %s",
					    hf_sql_query_find(names[i])->sql);
		sqlite3_stmt *stmt;

		assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL),
				 0);
		while (sqlite3_step(stmt) == SQLITE_ROW) {
			const char *plan =
				(const char *)sqlite3_column_text(stmt, 3);

			if (strstr(plan, "TEMP B-TREE"))
				fail_msg("%s: %s", names[i], plan);
		}
		sqlite3_finalize(stmt);
		sqlite3_free(sql);
	}
	sqlite3_close(db);
	unlink(path);
}

/* TEMP views stand before those of the file, which may be hostile. */
static void temp_views_are_the_same_views(void **state)
{
	sqlite3 *db;

	(void)state;
	assert_int_equal(sqlite3_open(":memory:", &db), 0);
	run(db, hf_sql_schema());
	run(db, "CREATE VIEW census AS SELECT 'hostile' AS type");
	run(db, hf_sql_temp_views());
	run(db, "INSERT INTO type(id, name, kind) VALUES(1, 't', 'class')");
	run(db, "INSERT INTO type_stat VALUES(1, 2, 3, 0, 0, 3)");
	assert_int_equal(number(db, "SELECT count FROM census WHERE type = 't'",
				NULL),
			 2);
	assert_int_equal(number(db, "SELECT bytes FROM heap_summary"
				    " WHERE item = 'live'", NULL),
			 3);
	sqlite3_close(db);
}

/* Anyone's own sqlite3, a program of its own, reads the file. */
static void stock_shell_opens_the_file(void **state)
{
	char path[] = "/tmp/hf-schema-XXXXXX";
	char command[300], line[100] = "";
	int fd = mkstemp(path);
	FILE *out;

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	if (system("command -v sqlite3 >/dev/null"))
		skip();
	sqlite3_close(open_large(path));
	snprintf(command, sizeof(command),
		 "sqlite3 -bail %s 'PRAGMA integrity_check; SELECT count(*) "
		 "FROM census; SELECT id FROM referrer WHERE object_id = 5' "
		 "2>&1 | tr '\\n' ' '", path);
	out = popen(command, "r");
	assert_non_null(out);
	assert_non_null(fgets(line, sizeof(line), out));
	assert_int_equal(pclose(out), 0);
	assert_string_equal(line, "ok 0 5 ");
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_names_that_are_fixed_exist),
		cmocka_unit_test(
			every_column_says_what_it_means_and_when_it_is_null),
		cmocka_unit_test(
			queries_document_exactly_their_columns_and_parameters),
		cmocka_unit_test(views_never_scan_where_there_is_a_key),
		cmocka_unit_test(largest_first_needs_no_sorting),
		cmocka_unit_test(temp_views_are_the_same_views),
		cmocka_unit_test(stock_shell_opens_the_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
