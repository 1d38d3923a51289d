/* Opening snapshots that are none, are damaged, or are hostile; and paths.
 * SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "query/path.h"
#include "query/query.h"
#include "query/type_match.h"
#include "sql/sql.h"
#include "tests/support/heap_file.h"
#include "tests/support/test_main.h"

static int setup(void **state)
{
	struct hf_heap_file *file = calloc(1, sizeof(*file));

	assert_non_null(file);
	hf_heap_file_create(file);
	hf_heap_file_fill(file);
	hf_heap_file_finish(file);
	*state = file;
	return 0;
}

static int teardown(void **state)
{
	hf_heap_file_remove(*state);
	free(*state);
	return 0;
}

static void expect_refused(const char *path, enum hf_error_code code,
			   const char *word)
{
	struct hf_db *db = NULL;
	struct hf_error *err = hf_db_open(path, &db);

	assert_non_null(err);
	assert_null(db);
	if (err->code != code ||
	    (!strstr(err->message, word) &&
	     !(err->cause && strstr(err->cause, word))))
		fail_msg("code %d, %s (%s)", err->code, err->message,
			 err->cause ? err->cause : "");
	hf_error_destroy(err);
}

static void overwrite(const char *path, off_t offset, const void *bytes,
		      size_t len)
{
	int fd = open(path, O_WRONLY);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, len, offset), (ssize_t)len);
	close(fd);
}

/* First value of a query of our own, as a number. */
static int64_t number(struct hf_db *db, const char *sql)
{
	HF_AUTO(hf_query) struct hf_query *query = NULL;
	bool row;

	assert_hf_ok(hf_query_prepare(db, sql, &query));
	assert_hf_ok(hf_query_step(query, &row));
	assert_true(row);
	return hf_query_i64(query, 0);
}

static void a_snapshot_opens_and_has_the_views(void **state)
{
	struct hf_heap_file *file = *state;
	HF_AUTO(hf_db) struct hf_db *db = NULL;

	assert_hf_ok(hf_db_open(file->path, &db));
	assert_int_equal(hf_db_format_version(db), HF_SQL_FORMAT_VERSION);
	assert_int_equal(number(db, "SELECT count FROM census"
				    " WHERE type = 'Node'"),
			 3);
}

static void what_is_no_snapshot_is_named(void **state)
{
	struct hf_heap_file *file = *state;
	char path[100];

	expect_refused("/nonexistent/x.heap", HF_ERROR_BAD_DATA,
		       "no such file");
	expect_refused(file->dir, HF_ERROR_BAD_DATA, "directory");
	expect_refused("/dev/null", HF_ERROR_BAD_DATA, "regular file");
	expect_refused("/proc/self/exe", HF_ERROR_BAD_DATA, "ELF");
	expect_refused("/proc/self/status", HF_ERROR_BAD_DATA, "empty");

	snprintf(path, sizeof(path), "%s/fifo", file->dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	expect_refused(path, HF_ERROR_BAD_DATA, "regular file");
	unlink(path);

	overwrite(file->path, 0, "hello", 5);
	expect_refused(file->path, HF_ERROR_BAD_DATA, "SQLite");
}

static void a_database_of_another_program_is_refused(void **state)
{
	struct hf_heap_file *file = *state;

	overwrite(file->path, 68, "\0\0\0\0", 4);
	expect_refused(file->path, HF_ERROR_BAD_DATA, "another program");
}

static void a_newer_format_is_refused(void **state)
{
	struct hf_heap_file *file = *state;

	hf_heap_file_reopen(file);
	hf_heap_file_exec(file, "PRAGMA user_version = 1000");
	sqlite3_close(file->db);
	file->db = NULL;
	expect_refused(file->path, HF_ERROR_UNSUPPORTED, "1000");
}

static void a_truncated_snapshot_is_refused(void **state)
{
	struct hf_heap_file *file = *state;
	struct stat st;

	assert_int_equal(stat(file->path, &st), 0);
	assert_int_equal(truncate(file->path, st.st_size - 4096), 0);
	expect_refused(file->path, HF_ERROR_BAD_DATA, "truncated");
	assert_int_equal(truncate(file->path, 60), 0);
	expect_refused(file->path, HF_ERROR_BAD_DATA, "header");
	assert_int_equal(truncate(file->path, 0), 0);
	expect_refused(file->path, HF_ERROR_BAD_DATA, "empty");
}

static void a_page_of_noise_is_damage_not_a_crash(void **state)
{
	struct hf_heap_file *file = *state;
	struct stat st;
	unsigned char noise[4096];
	unsigned damaged = 0;

	assert_int_equal(stat(file->path, &st), 0);
	memset(noise, 0xa5, sizeof(noise));
	for (off_t page = 1; page < st.st_size / 4096; page++) {
		struct hf_db *db = NULL;
		struct hf_error *err;
		unsigned char saved[4096];
		int fd = open(file->path, O_RDONLY);

		assert_int_equal(pread(fd, saved, 4096, page * 4096), 4096);
		close(fd);
		overwrite(file->path, page * 4096, noise, sizeof(noise));
		err = hf_db_open(file->path, &db);
		if (!err) {
			struct hf_query *query;

			err = hf_query_prepare(
				db, "SELECT * FROM retained_top", &query);
			for (bool row = true; !err && row;)
				err = hf_query_step(query, &row);
			hf_query_destroy(query);
		}
		if (err) {
			assert_int_equal(err->code, HF_ERROR_BAD_DATA);
			damaged++;
		}
		hf_error_destroy(err);
		hf_db_close(db);
		overwrite(file->path, page * 4096, saved, sizeof(saved));
	}
	assert_true(damaged > 0);
}

static void views_of_the_file_are_not_used(void **state)
{
	struct hf_heap_file *file = *state;
	HF_AUTO(hf_db) struct hf_db *db = NULL;

	hf_heap_file_reopen(file);
	hf_heap_file_exec(file, "DROP VIEW census; CREATE VIEW census AS"
				" SELECT 'lie' AS type, 'lie' AS kind, 1 AS"
				" count, 1 AS bytes");
	sqlite3_close(file->db);
	file->db = NULL;
	assert_hf_ok(hf_db_open(file->path, &db));
	assert_int_equal(number(db, "SELECT count(*) FROM census"
				    " WHERE type = 'lie'"),
			 0);
	assert_int_equal(number(db, "SELECT count(*) FROM census"), 4);
}

static void a_view_in_place_of_a_table_is_refused(void **state)
{
	struct hf_heap_file *file = *state;

	hf_heap_file_reopen(file);
	hf_heap_file_exec(file, "DROP TABLE type_stat; CREATE VIEW type_stat"
				" AS SELECT 1 AS type_id");
	sqlite3_close(file->db);
	file->db = NULL;
	expect_refused(file->path, HF_ERROR_BAD_DATA, "type_stat");
}

static void a_virtual_table_in_place_of_a_table_is_refused(void **state)
{
	struct hf_heap_file *file = *state;

	hf_heap_file_reopen(file);
	hf_heap_file_exec(file, "DROP TABLE phase; CREATE VIRTUAL TABLE phase"
				" USING fts5(name, ns, items, peak_bytes)");
	sqlite3_close(file->db);
	file->db = NULL;
	expect_refused(file->path, HF_ERROR_BAD_DATA, "phase");
}

static void a_table_without_its_columns_is_damage(void **state)
{
	struct hf_heap_file *file = *state;
	HF_AUTO(hf_db) struct hf_db *db = NULL;
	struct hf_query *query;
	struct hf_error *err;

	hf_heap_file_reopen(file);
	hf_heap_file_exec(file, "ALTER TABLE object RENAME COLUMN"
				" retained_bytes TO other;"
				"PRAGMA writable_schema=OFF");
	sqlite3_close(file->db);
	file->db = NULL;
	assert_hf_ok(hf_db_open(file->path, &db));
	err = hf_query_prepare(db, "SELECT * FROM retained_top", &query);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_BAD_DATA);
	hf_error_destroy(err);
}

static void a_name_that_looks_like_a_uri_is_a_file(void **state)
{
	struct hf_heap_file *file = *state;
	char *cwd = getcwd(NULL, 0);
	HF_AUTO(hf_db) struct hf_db *db = NULL;

	assert_int_equal(chdir(file->dir), 0);
	assert_int_equal(rename("t.heap", "file:x?mode=memory"), 0);
	assert_hf_ok(hf_db_open("file:x?mode=memory", &db));
	assert_int_equal(number(db, "SELECT count(*) FROM object"), 10);
	assert_int_equal(rename("file:x?mode=memory", "t.heap"), 0);
	assert_int_equal(chdir(cwd), 0);
	free(cwd);
}

static void a_symbolic_link_is_followed(void **state)
{
	struct hf_heap_file *file = *state;
	HF_AUTO(hf_db) struct hf_db *db = NULL;
	char path[100];

	snprintf(path, sizeof(path), "%s/latest.heap", file->dir);
	assert_int_equal(symlink("t.heap", path), 0);
	assert_hf_ok(hf_db_open(path, &db));
	unlink(path);
}

static void nothing_can_be_written(void **state)
{
	struct hf_heap_file *file = *state;
	HF_AUTO(hf_db) struct hf_db *db = NULL;

	assert_hf_ok(hf_db_open(file->path, &db));
	assert_int_not_equal(sqlite3_exec(hf_db_handle(db),
					  "DELETE FROM main.type", NULL, NULL,
					  NULL),
			     SQLITE_OK);
}

static void a_path_leads_from_the_root_to_the_object(void **state)
{
	static const uint32_t expected[] = { 1, 3, 4, 5, 6 };
	struct hf_heap_file *file = *state;
	HF_AUTO(hf_db) struct hf_db *db = NULL;
	HF_AUTO(hf_path_reader) struct hf_path_reader *reader = NULL;
	struct hf_path path;
	struct hf_path_step step;

	assert_hf_ok(hf_db_open(file->path, &db));
	assert_hf_ok(hf_path_find(db, 6, HF_PATH_SHORTEST, NULL, &path));
	assert_int_equal(path.kind, HF_PATH_SHORTEST);
	assert_int_equal(path.num, 5);
	assert_memory_equal(path.ids, expected, sizeof(expected));
	assert_hf_ok(hf_path_reader_create(db, &reader));
	assert_hf_ok(hf_path_read(reader, &path, 3, &step));
	assert_string_equal(step.type, "Node");
	assert_true(step.has_ref && step.interior && step.conservative);
	hf_path_step_deinit(&step);
	assert_hf_ok(hf_path_read(reader, &path, 4, &step));
	assert_false(step.has_ref);
	hf_path_step_deinit(&step);
	hf_path_deinit(&path);
}

static void an_unreachable_object_has_its_dominators(void **state)
{
	struct hf_heap_file *file = *state;
	HF_AUTO(hf_db) struct hf_db *db = NULL;
	struct hf_path path;

	assert_hf_ok(hf_db_open(file->path, &db));
	assert_hf_ok(hf_path_find(db, 7, HF_PATH_SHORTEST, NULL, &path));
	assert_int_equal(path.kind, HF_PATH_DOMINATORS);
	assert_int_equal(path.num, 2);
	assert_int_equal(path.ids[0], 9);
	hf_path_deinit(&path);
}

static void a_circle_of_parents_is_damage(void **state)
{
	struct hf_heap_file *file = *state;
	HF_AUTO(hf_db) struct hf_db *db = NULL;

	hf_heap_file_reopen(file);
	hf_heap_file_exec(file, "UPDATE object SET bfs_parent = 6"
				" WHERE id = 4;"
				"UPDATE object SET bfs_parent = 8 WHERE id = 8");
	sqlite3_close(file->db);
	file->db = NULL;
	assert_hf_ok(hf_db_open(file->path, &db));
	for (int64_t id = 4; id <= 8; id++) {
		struct hf_path path;
		struct hf_error *err;

		if (id == 7)
			continue;
		err = hf_path_find(db, id, HF_PATH_SHORTEST, NULL, &path);
		assert_non_null(err);
		assert_int_equal(err->code, HF_ERROR_BAD_DATA);
		assert_non_null(strstr(err->cause, "circle"));
		hf_error_destroy(err);
	}
}

static void an_address_finds_the_object_around_it(void **state)
{
	static const struct {
		uint64_t addr;
		int64_t id; /* 0: none */
	} cases[] = {
		{ 4192, 4 }, { 4223, 4 }, { 4224, 0 }, { 4111, 0 },
		{ 4112, 3 }, { 8199, 1 }, { 0, 0 },    { 1 << 30, 0 },
	};
	struct hf_heap_file *file = *state;
	HF_AUTO(hf_db) struct hf_db *db = NULL;

	assert_hf_ok(hf_db_open(file->path, &db));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int64_t id = 0;
		struct hf_error *err = hf_object_at(db, cases[i].addr, &id);

		assert_int_equal(!err, cases[i].id != 0);
		if (err)
			assert_int_equal(err->code, HF_ERROR_NOT_FOUND);
		assert_int_equal(id, cases[i].id);
		hf_error_destroy(err);
	}
}

static void a_type_is_found_by_name_full_name_or_pattern(void **state)
{
	static const struct {
		const char *name;
		size_t num;
	} cases[] = {
		{ "Node", 1 }, { "app::Session<int>", 1 }, { "*es*", 2 },
		{ "node", 0 }, { "Nod", 0 },		   { "%", 0 },
	};
	struct hf_heap_file *file = *state;
	HF_AUTO(hf_db) struct hf_db *db = NULL;

	assert_hf_ok(hf_db_open(file->path, &db));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int64_t *ids = NULL;
		size_t num = 0;
		struct hf_error *err =
			hf_type_match(db, cases[i].name, &ids, &num);

		assert_int_equal(num, cases[i].num);
		assert_int_equal(!err, cases[i].num != 0);
		if (err)
			assert_int_equal(err->code, HF_ERROR_NOT_FOUND);
		if (err && !strcmp(cases[i].name, "node"))
			assert_non_null(strstr(err->fix, "'Node'"));
		hf_error_destroy(err);
		free(ids);
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_snapshot_opens_and_has_the_views),
		TEST(what_is_no_snapshot_is_named),
		TEST(a_database_of_another_program_is_refused),
		TEST(a_newer_format_is_refused),
		TEST(a_truncated_snapshot_is_refused),
		TEST(a_page_of_noise_is_damage_not_a_crash),
		TEST(views_of_the_file_are_not_used),
		TEST(a_view_in_place_of_a_table_is_refused),
		TEST(a_virtual_table_in_place_of_a_table_is_refused),
		TEST(a_table_without_its_columns_is_damage),
		TEST(a_name_that_looks_like_a_uri_is_a_file),
		TEST(a_symbolic_link_is_followed),
		TEST(nothing_can_be_written),
		TEST(a_path_leads_from_the_root_to_the_object),
		TEST(an_unreachable_object_has_its_dominators),
		TEST(a_circle_of_parents_is_damage),
		TEST(an_address_finds_the_object_around_it),
		TEST(a_type_is_found_by_name_full_name_or_pattern),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
