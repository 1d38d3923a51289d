/* Golden rows: a heap as text, queries, and the rows they must give.
 * SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "sql/sql.h"
#include "tests/support/graph_text.h"
#include "tests/support/test_main.h"
#include "util/file.h"

/* usage: test_golden CASE-DIRECTORY [print]
 *
 * In the directory:
 *   heap.txt          the heap (tests/support/graph_text.h)
 *   QUERY.csv         rows of the canned query of this name, without limit
 *   QUERY-OBJECT.csv  the same, with the id of OBJECT as its parameter ?1
 *   NAME.sql          a query of this case, instead of a canned one
 *
 * With `print` the rows are printed and not compared: read them well before
 * they become the expectation. */

struct golden {
	const char *dir;
	char heap[512];
	char db_path[64];
	sqlite3 *db;
	bool print;
};

static void append_csv(sqlite3_str *out, const char *text)
{
	if (!text)
		return;
	if (!text[strcspn(text, ",\"\n\r")]) {
		sqlite3_str_appendall(out, text);
		return;
	}
	sqlite3_str_appendf(out, "\"%w\"", text);
}

static char *run(struct golden *g, const char *sql, uint64_t id)
{
	sqlite3_str *out = sqlite3_str_new(NULL);
	sqlite3_stmt *stmt;
	int rc, num;

	if (sqlite3_prepare_v2(g->db, sql, -1, &stmt, NULL))
		fail_msg("%s: %s", sql, sqlite3_errmsg(g->db));
	for (int i = 1; i <= sqlite3_bind_parameter_count(stmt); i++)
		sqlite3_bind_int64(stmt, i, i == 1 && id ? (int64_t)id : -1);
	num = sqlite3_column_count(stmt);
	for (int c = 0; c < num; c++) {
		sqlite3_str_appendall(out, c ? "," : "");
		append_csv(out, sqlite3_column_name(stmt, c));
	}
	sqlite3_str_appendall(out, "\n");
	while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		for (int c = 0; c < num; c++) {
			sqlite3_str_appendall(out, c ? "," : "");
			append_csv(out, (const char *)sqlite3_column_text(stmt,
									  c));
		}
		sqlite3_str_appendall(out, "\n");
	}
	if (rc != SQLITE_DONE)
		fail_msg("%s: %s", sql, sqlite3_errmsg(g->db));
	sqlite3_finalize(stmt);
	return sqlite3_str_finish(out);
}

static void check_file(struct golden *g, const char *file)
{
	HF_AUTO_FREE char *name = strndup(file, strlen(file) - 4);
	HF_AUTO_FREE char *expected = NULL, *own = NULL;
	const struct hf_sql_query *canned;
	char path[512], *object, *actual;
	uint64_t id = 0;

	snprintf(path, sizeof(path), "%s/%s.sql", g->dir, name);
	if (!access(path, R_OK))
		assert_hf_ok(hf_read_file(path, &own, NULL));
	object = own ? NULL : strchr(name, '-');
	if (object) {
		*object++ = '\0';
		assert_hf_ok(hf_graph_text_find(g->heap, object, &id));
		if (!id)
			fail_msg("%s: no object '%s'", file, object);
	}
	canned = hf_sql_query_find(name);
	if (!own && !canned)
		fail_msg("%s: no query '%s'", file, name);
	actual = run(g, own ? own : canned->sql, id);
	if (g->print) {
		printf("--- %s\n%s", file, actual);
	} else {
		snprintf(path, sizeof(path), "%s/%s", g->dir, file);
		assert_hf_ok(hf_read_file(path, &expected, NULL));
		if (strcmp(actual, expected))
			print_error("%s\nexpected:\n%sactual:\n%s", path,
				    expected, actual);
		assert_string_equal(actual, expected);
	}
	sqlite3_free(actual);
}

static void rows_are_as_expected(void **state)
{
	struct golden *g = *state;
	struct dirent **files;
	int num = scandir(g->dir, &files, NULL, alphasort), checked = 0;

	assert_true(num > 0);
	for (int i = 0; i < num; i++) {
		size_t len = strlen(files[i]->d_name);

		if (len > 4 && !strcmp(files[i]->d_name + len - 4, ".csv")) {
			check_file(g, files[i]->d_name);
			checked++;
		}
		free(files[i]);
	}
	free(files);
	assert_true(checked > 0);
}

/* What holds for every snapshot file, whatever is in it. */
static void laws_of_the_schema_hold(void **state)
{
	struct golden *g = *state;
	static const char *const laws[] = {
		"SELECT * FROM pragma_integrity_check"
		" WHERE integrity_check <> 'ok'",
		/* A dominator retains at least what it dominates. */
		"SELECT * FROM object o JOIN object d ON d.id = o.idom"
		" WHERE d.retained_bytes < o.retained_bytes",
		"SELECT * FROM object o WHERE retained_bytes <> size_bytes +"
		" (SELECT total(retained_bytes) FROM object c"
		"  WHERE c.idom = o.id)",
		/* Only holders and pseudo objects hang under the root. */
		"SELECT * FROM object WHERE (idom = 0) <> (flags & 36 <> 0)",
		"SELECT * FROM object WHERE flags & 36 AND size_bytes",
		/* All of the heap hangs under them, once. */
		"SELECT 1 WHERE (SELECT total(size_bytes) FROM object) <>"
		" (SELECT total(retained_bytes) FROM object WHERE idom = 0)",
		"SELECT 1 WHERE (SELECT total(size_bytes) FROM object) <>"
		" (SELECT total(bytes) FROM census)",
		/* Distances go down by one along the path, by a reference. */
		"SELECT * FROM object o JOIN object p ON p.id = o.bfs_parent"
		" WHERE o.root_distance <> p.root_distance + 1 OR NOT EXISTS"
		" (SELECT 1 FROM ref WHERE src = p.id AND dst = o.id)",
		"SELECT * FROM object WHERE (root_distance IS NULL) <>"
		" (flags & 1 = 0) AND flags & 4 = 0",
		/* No reference shortens a path. */
		"SELECT * FROM ref JOIN object s ON s.id = src"
		" JOIN object d ON d.id = dst WHERE s.root_distance IS NOT NULL"
		" AND (d.root_distance IS NULL OR"
		" d.root_distance > s.root_distance + 1)",
		/* The views tell the same as the tables. */
		"SELECT * FROM census c WHERE unreachable_count <>"
		" (SELECT count(*) FROM leak l WHERE l.type = c.type)",
		"SELECT 1 WHERE (SELECT total(size_bytes) FROM leak) <>"
		" (SELECT total(retained_bytes) FROM leak_root)",
		"SELECT * FROM object o WHERE root_distance <>"
		" (SELECT max(step) FROM path_to_root p"
		"  WHERE p.object_id = o.id)",
		"SELECT * FROM path_to_root WHERE step > 0 AND slot IS NULL",
	};

	for (size_t i = 0; i < sizeof(laws) / sizeof(laws[0]); i++) {
		char *rows = run(g, laws[i], 0);
		const char *end_of_head = strchr(rows, '\n');

		if (end_of_head[1])
			fail_msg("%s\n%s", laws[i], rows);
		sqlite3_free(rows);
	}
}

static int setup(void **state)
{
	struct golden *g = *state;
	char dir[] = "/tmp/hf-golden-XXXXXX";

	assert_non_null(mkdtemp(dir));
	snprintf(g->heap, sizeof(g->heap), "%s/heap.txt", g->dir);
	snprintf(g->db_path, sizeof(g->db_path), "%s/out", dir);
	assert_hf_ok(hf_graph_text_write(g->heap, g->db_path));
	assert_int_equal(sqlite3_open_v2(g->db_path, &g->db,
					 SQLITE_OPEN_READONLY, NULL), 0);
	return 0;
}

static int teardown(void **state)
{
	struct golden *g = *state;

	sqlite3_close(g->db);
	unlink(g->db_path);
	*strrchr(g->db_path, '/') = '\0';
	rmdir(g->db_path);
	return 0;
}

int main(int argc, char **argv)
{
	struct golden golden = { .dir = argc > 1 ? argv[1] : ".",
				 .print = argc > 2 };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate_setup_teardown(rows_are_as_expected,
							 setup, teardown,
							 &golden),
		cmocka_unit_test_prestate_setup_teardown(
			laws_of_the_schema_hold, setup, teardown, &golden),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
