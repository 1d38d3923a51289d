/* Database writer: what is put is what a plain SQLite client reads.
 * SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "indexer/db/db_writer.h"
#include "tests/support/test_main.h"

#define NONE HF_UNKNOWN_U64

struct fixture {
	char dir[64];
	char path[80];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	strcpy(f->dir, "/tmp/hf-db-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/out", f->dir);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	unlink(f->path);
	rmdir(f->dir);
	free(f);
	return 0;
}

/* One value, as text; "NULL" is NULL. Rows are separated by '/', columns by
 * '|'. Opened by path as any client would. */
static char *query(const struct fixture *f, const char *sql)
{
	sqlite3 *db;
	sqlite3_stmt *stmt;
	sqlite3_str *out;
	int rc;

	assert_int_equal(sqlite3_open_v2(f->path, &db, SQLITE_OPEN_READONLY,
					 NULL),
			 SQLITE_OK);
	if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL))
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	out = sqlite3_str_new(NULL);
	for (int row = 0; (rc = sqlite3_step(stmt)) == SQLITE_ROW; row++)
		for (int c = 0; c < sqlite3_column_count(stmt); c++) {
			const char *text =
				(const char *)sqlite3_column_text(stmt, c);

			sqlite3_str_appendall(out, c	 ? "|"
						   : row ? "/"
							 : "");
			sqlite3_str_appendall(out, text ? text : "NULL");
		}
	assert_int_equal(rc, SQLITE_DONE);
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	return sqlite3_str_finish(out) ?: sqlite3_mprintf("");
}

static void assert_query(const struct fixture *f, const char *sql,
			 const char *expected)
{
	char *actual = query(f, sql);

	assert_string_equal(actual, expected);
	sqlite3_free(actual);
}

static void put_one_of_each(struct hf_db_writer *db)
{
	assert_hf_ok(hf_db_put_meta(db, "option.limit", "first"));
	assert_hf_ok(hf_db_put_meta(db, "option.limit", "last"));
	assert_hf_ok(hf_db_put_meta(db, "nothing", NULL));
	assert_hf_ok(hf_db_put_snapshot(
		db, &(struct hf_snapshot_row){
			    .taken_ns = 1700000000000000001,
			    .pid = 4711,
			    .start_time = 99,
			    .boot_id = "b-o-o-t",
			    .command = "it's \"quoted\"",
			    .source = "live",
			    .safe_point = "none",
			    .consistency = "in_allocator",
			    .partial = true,
			    .pause_ns = 1,
			    .stop_ns = 2,
			    .regs_ns = 3,
			    .fork_ns = 4,
			    .resume_ns = 5,
			    .reap_ns = 6,
			    .child_life_ns = NONE,
			    .cow_pages = NONE,
			    .parent_faults = 14,
			    .dropped_bytes = 15,
			    .peak_private_bytes = 16,
			    .attempts = 17,
			    .missed_pause_ns = 18,
			    .safe_point_tries = 19,
			    .pause_calls = 20,
			    .max_thread_calls = 21,
			    .partial_threads = 22,
			    .threads = 8,
			    .objects = 9,
			    .refs = 10,
			    .live_bytes = 11,
			    .private_anon_bytes = 12,
			    .unknown_bytes = 13,
		    }));
	assert_hf_ok(hf_db_put_module(
		db, &(struct hf_db_module){ 1, "/usr/lib/l\xc3\xb6we.so",
					    "00ff", 0x7f0000000000, 0 }));
	assert_hf_ok(hf_db_put_segment(
		db, &(struct hf_db_segment){ 1, 0x7ffffffde000, 0x7ffffffff000,
					     "rw-p", "stack", NONE, 4096,
					     "saved", "wipeonfork",
					     "wipeonfork,dontdump" }));
	assert_hf_ok(hf_db_put_thread(
		db, &(struct hf_db_thread){ 1, 4711, "tab\there\nline\x1b[0m",
					    "S", "syscall", 0x7fff00000000,
					    0x7ffffffde010, 0xfffffffffffffffe, 7,
					    "rt_sig", "whole", NONE }));
	assert_hf_ok(hf_db_put_thread_register(
		db, &(struct hf_db_thread_register){ 1, 0, "rax",
						     UINT64_MAX }));
	assert_hf_ok(hf_db_put_frame(
		db, &(struct hf_db_frame){ 1, 1, 0, 0x7fff00000000,
					   0x7ffffffde010, 0x7ffffffde020, 1,
					   "serve", "server.c", 214, 0, 1,
					   "registers" }));
	assert_hf_ok(hf_db_put_reader(
		db, &(struct hf_db_reader){ 1, "glibc-malloc", "2.36", "high",
					    "symbols" }));
	assert_hf_ok(hf_db_put_area(
		db, &(struct hf_db_area){ 1, 1, "arena", 4096, 8192, 100, 200,
					  300, 50, 3, 1 }));
	assert_hf_ok(hf_db_put_type(
		db, &(struct hf_db_type){ 1, "map<int, \xe2\x82\xac>", NULL,
					  "class", 48, 1, NULL }));
	assert_hf_ok(hf_db_put_object(
		db, &(struct hf_db_object){ 1, 0x7ffffffff000, 0, 4096, 1, NONE,
					    NONE, NONE, HF_OBJECT_ROOT_HOLDER,
					    0, 48, 0, NONE }));
	assert_hf_ok(hf_db_put_object(
		db, &(struct hf_db_object){ 2, 4112, 48, NONE, 1, 1, 1, NONE,
					    HF_OBJECT_REACHABLE, 1, 48, 1,
					    1 }));
	assert_hf_ok(hf_db_put_object_type(
		db, &(struct hf_db_object_type){ 2, "vtable", 0.75, 3, 0 }));
	assert_hf_ok(hf_db_put_ref(db, 1, -1, 2, HF_REF_BY_ROOT));
	assert_hf_ok(hf_db_put_ref(db, 1, 8, 2, HF_REF_INTERIOR));
	assert_hf_ok(hf_db_put_root(
		db, &(struct hf_db_root){ 1, 1, 2, "global", "server",
					  0x7ffffffff008, NONE, NONE, 1, NONE,
					  0.5 }));
	assert_hf_ok(hf_db_put_type_stat(
		db, &(struct hf_db_type_stat){ 1, 1, 48, 0, 0, 48 }));
	assert_hf_ok(hf_db_put_anomaly(
		db, &(struct hf_db_anomaly){ "chunk size", 4128, 1, 2,
					     "size 7" }));
	assert_hf_ok(hf_db_put_phase(db, "scan", 1000, NONE, 0));
}

static void every_row_is_read_back_as_it_was_put(void **state)
{
	struct fixture *f = *state;
	HF_AUTO(hf_db_writer) struct hf_db_writer *db = NULL;
	static const struct {
		const char *sql, *expected;
	} cases[] = {
		{ "SELECT key, value FROM meta WHERE key <> 'tool'"
		  " ORDER BY key", "nothing|NULL/option.limit|last" },
		{ "SELECT * FROM snapshot",
		  "1|1700000000000000001|4711|99|b-o-o-t|it's \"quoted\"|"
		  "heapfork " HF_VERSION "|live|none|in_allocator|1|1|2|3|4|5|"
		  "6|NULL|NULL|14|15|16|17|18|19|20|21|22|8|9|10|11|12|13" },
		{ "SELECT * FROM module",
		  "1|/usr/lib/l\xc3\xb6we.so|00ff|139637976727552|0" },
		{ "SELECT * FROM segment",
		  "1|140737488216064|140737488351232|rw-p|stack|NULL|4096|"
		  "saved|wipeonfork|wipeonfork,dontdump" },
		{ "SELECT * FROM thread",
		  "1|4711|tab\there\nline\x1b[0m|S|syscall|140733193388032|"
		  "140737488216080|-2|7|rt_sig|whole|NULL" },
		{ "SELECT * FROM thread_register", "1|0|rax|-1" },
		{ "SELECT * FROM frame",
		  "1|1|0|140733193388032|140737488216080|140737488216096|1|"
		  "serve|server.c|214|0|1|registers" },
		{ "SELECT * FROM reader", "1|glibc-malloc|2.36|high|symbols" },
		{ "SELECT * FROM heap_area",
		  "1|1|arena|4096|8192|100|200|300|50|3|1" },
		{ "SELECT * FROM type",
		  "1|map<int, \xe2\x82\xac>|NULL|class|48|1|NULL" },
		{ "SELECT * FROM object ORDER BY id",
		  "1|140737488351232|0|4096|1|NULL|NULL|NULL|32|0|48|0|NULL/"
		  "2|4112|48|NULL|1|1|1|NULL|1|1|48|1|1" },
		{ "SELECT * FROM object_type", "2|vtable|0.75|3|0" },
		{ "SELECT * FROM ref ORDER BY src, slot",
		  "1|-1|2|64|NULL/1|8|2|1|NULL" },
		{ "SELECT * FROM root",
		  "1|1|2|global|server|140737488351240|NULL|NULL|1|NULL|0.5" },
		{ "SELECT * FROM type_stat", "1|1|48|0|0|48" },
		{ "SELECT * FROM anomaly", "chunk size|4128|1|2|size 7" },
		{ "SELECT * FROM phase WHERE name <> 'index'",
		  "scan|1000|NULL|0" },
		{ "SELECT items, ns > 0 FROM phase WHERE name = 'index'",
		  "4|1" },
		{ "PRAGMA integrity_check", "ok" },
		{ "PRAGMA application_id", "1212568139" },
		{ "PRAGMA user_version", "1" },
		/* An ordinary file for everyone who opens it later. */
		{ "PRAGMA journal_mode", "delete" },
		{ "PRAGMA locking_mode", "normal" },
	};

	assert_hf_ok(hf_db_writer_create(f->path, &db));
	put_one_of_each(db);
	assert_hf_ok(hf_db_writer_commit(db, NULL));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_query(f, cases[i].sql, cases[i].expected);
}

static void all_batch_sizes_keep_every_row(void **state)
{
	struct fixture *f = *state;

	/* Around one and two batches of objects (39 rows) and refs (128). */
	static const uint32_t sizes[] = { 0,   1,   38,	 39,  40, 77,
					  78,  79,  127, 128, 129, 255,
					  256, 257, 1000 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		HF_AUTO(hf_db_writer) struct hf_db_writer *db = NULL;
		char expected[100];
		uint64_t n = sizes[i];

		assert_hf_ok(hf_db_writer_create(f->path, &db));
		for (uint64_t id = 1; id <= n; id++) {
			assert_hf_ok(hf_db_put_object(
				db, &(struct hf_db_object){
					    .id = id,
					    .addr = id * 16,
					    .size_bytes = id,
					    .extent_bytes = NONE,
					    .type_id = 1,
					    .idom = id - 1,
					    .root_distance = id,
					    .bfs_parent = NONE }));
			assert_hf_ok(hf_db_put_ref(db, id, (int64_t)id - 500,
						   n - id + 1, 2));
		}
		assert_hf_ok(hf_db_writer_commit(db, NULL));
		snprintf(expected, sizeof(expected),
			 "%" PRIu64 "|%" PRIu64 "|%" PRIu64, n,
			 n * (n + 1) / 2, n * (n - (n > 0)) / 2);
		assert_query(f, "SELECT count(*), CAST(total(size_bytes) AS "
				"INTEGER), CAST(total(idom) AS INTEGER) "
				"FROM object", expected);
		snprintf(expected, sizeof(expected),
			 "%" PRIu64 "|%" PRIu64 "|%" PRIu64, n, n, n);
		assert_query(f, "SELECT count(*), count(DISTINCT dst), "
				"(SELECT count(*) FROM ref INDEXED BY ref_dst "
				"WHERE dst > 0) FROM ref", expected);
		assert_query(f, "PRAGMA integrity_check", "ok");
		unlink(f->path);
	}
}

static void file_is_private_from_its_first_moment(void **state)
{
	struct fixture *f = *state;
	HF_AUTO(hf_db_writer) struct hf_db_writer *db = NULL;
	struct stat st;
	mode_t old = umask(0);

	assert_hf_ok(hf_db_writer_create(f->path, &db));
	umask(old);
	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_hf_ok(hf_db_writer_commit(db, NULL));
	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void existing_files_and_links_are_refused(void **state)
{
	struct fixture *f = *state;
	HF_AUTO(hf_db_writer) struct hf_db_writer *db = NULL;
	HF_AUTO(hf_error) struct hf_error *err = NULL;

	assert_int_equal(symlink("/tmp/hf-db-elsewhere", f->path), 0);
	err = hf_db_writer_create(f->path, &db);
	assert_non_null(err);
	assert_int_equal(err->os_error, EEXIST);
	assert_int_equal(access("/tmp/hf-db-elsewhere", F_OK), -1);
}

static void names_that_look_like_uris_are_files(void **state)
{
	struct fixture *f = *state;
	HF_AUTO(hf_db_writer) struct hf_db_writer *db = NULL;
	int old = open(".", O_RDONLY | O_DIRECTORY);

	assert_int_equal(chdir(f->dir), 0);
	assert_hf_ok(hf_db_writer_create("file:x?mode=memory", &db));
	assert_hf_ok(hf_db_writer_commit(db, NULL));
	assert_int_equal(access("file:x?mode=memory", R_OK), 0);
	assert_int_equal(unlink("file:x?mode=memory"), 0);
	assert_int_equal(fchdir(old), 0);
	close(old);
}

static void bytes_that_are_not_utf8_are_stored_readably(void **state)
{
	/* After RFC 3629; the last good and the first bad of each range. */
	static const struct {
		const char *text, *stored;
	} cases[] = {
		{ "plain", "plain" },
		{ "\xff", "\\xff" },
		{ "a\x80z", "a\\x80z" },
		{ "\xc3\xb6\xc3", "\xc3\xb6\\xc3" },
		{ "\xc0\xaf", "\\xc0\\xaf" },
		{ "\xc1\xbf\xc2\x80", "\\xc1\\xbf\xc2\x80" },
		{ "\xe0\x9f\xbf", "\\xe0\\x9f\\xbf" },
		{ "\xe0\xa0\x80", "\xe0\xa0\x80" },
		{ "\xed\x9f\xbf", "\xed\x9f\xbf" },
		{ "\xed\xa0\x80", "\\xed\\xa0\\x80" },
		{ "\xf0\x8f\xbf\xbf", "\\xf0\\x8f\\xbf\\xbf" },
		{ "\xf0\x90\x80\x80", "\xf0\x90\x80\x80" },
		{ "\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf" },
		{ "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80" },
		{ "\xf5", "\\xf5" },
		{ "\xe2\x82", "\\xe2\\x82" },
	};
	struct fixture *f = *state;
	HF_AUTO(hf_db_writer) struct hf_db_writer *db = NULL;
	size_t num = sizeof(cases) / sizeof(cases[0]);

	assert_hf_ok(hf_db_writer_create(f->path, &db));
	for (size_t i = 0; i < num; i++)
		assert_hf_ok(hf_db_put_thread(
			db, &(struct hf_db_thread){ .id = i + 1,
						    .name = cases[i].text }));
	assert_hf_ok(hf_db_writer_commit(db, NULL));
	for (size_t i = 0; i < num; i++) {
		char sql[80];

		snprintf(sql, sizeof(sql),
			 "SELECT name FROM thread WHERE id = %zu", i + 1);
		assert_query(f, sql, cases[i].stored);
	}
}

static void destroy_without_commit_frees_everything(void **state)
{
	struct fixture *f = *state;
	HF_AUTO(hf_db_writer) struct hf_db_writer *db = NULL;

	assert_hf_ok(hf_db_writer_create(f->path, &db));
	put_one_of_each(db);
	hf_db_writer_destroy(HF_TAKE(db));
	hf_db_writer_destroy(NULL);
}

static void rows_that_break_the_schema_are_errors(void **state)
{
	struct fixture *f = *state;
	HF_AUTO(hf_db_writer) struct hf_db_writer *db = NULL;
	struct hf_error *err;

	assert_hf_ok(hf_db_writer_create(f->path, &db));
	err = hf_db_put_area(db, &(struct hf_db_area){ .id = 1,
						   .kind = "nonsense" });
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_SQL);
	assert_non_null(strstr(err->message, "CHECK constraint"));
	hf_error_destroy(err);
	assert_hf_ok(hf_db_put_type(
		db, &(struct hf_db_type){ 1, "a", NULL, "class", 1, 1, NULL }));
	err = hf_db_put_type(
		db, &(struct hf_db_type){ 1, "b", NULL, "class", 1, 1, NULL });
	assert_non_null(err);
	assert_non_null(strstr(err->message, "UNIQUE"));
	hf_error_destroy(err);
	err = hf_db_put_module(db, &(struct hf_db_module){ 1, "m", NULL,
							   1ull << 63, 0 });
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_BAD_DATA);
	hf_error_destroy(err);
}

/* Rows of a batch meet SQLite when the batch is full, at the commit at last. */
static void rows_of_a_batch_that_break_the_schema_are_errors(void **state)
{
	static const struct hf_db_object bad[] = {
		{ .id = 1, .size_bytes = NONE },       /* NOT NULL */
		{ .id = 1, .addr = (1ull << 63) + 5 }, /* too large */
	};
	static const enum hf_error_code codes[] = { HF_ERROR_SQL,
						    HF_ERROR_BAD_DATA };
	struct fixture *f = *state;

	for (size_t i = 0; i < 2; i++) {
		HF_AUTO(hf_db_writer) struct hf_db_writer *db = NULL;
		HF_AUTO(hf_error) struct hf_error *err = NULL;

		assert_hf_ok(hf_db_writer_create(f->path, &db));
		assert_hf_ok(hf_db_put_object(db, &bad[i]));
		err = hf_db_writer_commit(db, NULL);
		assert_non_null(err);
		assert_int_equal(err->code, codes[i]);
		unlink(f->path);
	}
}

/* Put until it fails or `max` is reached, then commit. */
static struct hf_error *load(struct hf_db_writer *db, uint64_t max,
			     const struct hf_progress *progress)
{
	struct hf_error *err = NULL;

	for (uint64_t id = 1; !err && id <= max; id++) {
		err = hf_db_put_object(db, &(struct hf_db_object){
						   .id = id,
						   .addr = id * 16,
						   .size_bytes = 16,
						   .type_id = 1,
						   .idom = id - 1,
						   .retained_bytes = id * 48 });
		for (int64_t slot = 0; !err && slot < 3; slot++)
			err = hf_db_put_ref(db, id, slot * 8,
					    id * 7919 % max + 1, 2);
	}
	return err ? err : hf_db_writer_commit(db, progress);
}

static void full_disk_is_no_space_with_cause_and_fix(void **state)
{
	struct fixture *f = *state;
	struct rlimit old, limit;

	/* The limit of a file's size stands in for a full disk: in the load,
	 * among the indices, and near the end. */
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	signal(SIGXFSZ, SIG_IGN);
	for (rlim_t size = 32768; size < 6000000; size += 600000) {
		HF_AUTO(hf_db_writer) struct hf_db_writer *db = NULL;
		struct hf_error *err;

		limit = (struct rlimit){ size, old.rlim_max };
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
		err = hf_db_writer_create(f->path, &db);
		if (!err)
			err = load(db, 50000, NULL);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
		assert_non_null(err);
		if (err->code != HF_ERROR_NO_SPACE)
			fail_msg("%s", err->message);
		assert_non_null(strstr(err->message, f->path));
		assert_non_null(err->cause);
		assert_non_null(err->fix);
		hf_error_destroy(err);
		unlink(f->path);
	}
	signal(SIGXFSZ, SIG_DFL);
}

static void lack_of_memory_is_no_memory(void **state)
{
	struct fixture *f = *state;
	unsigned failures = 0;

	/* From too little to begin with to enough. */
	for (sqlite3_int64 limit = 20000; limit < 16 << 20; limit *= 2) {
		HF_AUTO(hf_db_writer) struct hf_db_writer *db = NULL;
		struct hf_error *err;

		sqlite3_hard_heap_limit64(limit);
		err = hf_db_writer_create(f->path, &db);
		if (!err)
			err = load(db, 20000, NULL);
		sqlite3_hard_heap_limit64(0);
		if (err) {
			assert_int_equal(err->code, HF_ERROR_NO_MEMORY);
			failures++;
		} else {
			assert_query(f, "PRAGMA integrity_check", "ok");
		}
		hf_error_destroy(err);
		hf_db_writer_destroy(HF_TAKE(db));
		unlink(f->path);
	}
	assert_true(failures > 0);
}

static void user_can_stop_the_commit(void **state)
{
	struct fixture *f = *state;
	HF_AUTO(hf_db_writer) struct hf_db_writer *db = NULL;
	HF_AUTO(hf_error) struct hf_error *err = NULL;
	sig_atomic_t cancelled = 1;
	struct hf_progress progress = { .cancelled = &cancelled };

	assert_hf_ok(hf_db_writer_create(f->path, &db));
	err = load(db, 20000, &progress);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_INTERRUPTED);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(every_row_is_read_back_as_it_was_put),
		TEST(all_batch_sizes_keep_every_row),
		TEST(file_is_private_from_its_first_moment),
		TEST(existing_files_and_links_are_refused),
		TEST(names_that_look_like_uris_are_files),
		TEST(bytes_that_are_not_utf8_are_stored_readably),
		TEST(destroy_without_commit_frees_everything),
		TEST(rows_that_break_the_schema_are_errors),
		TEST(rows_of_a_batch_that_break_the_schema_are_errors),
		TEST(full_disk_is_no_space_with_cause_and_fix),
		TEST(lack_of_memory_is_no_memory),
		TEST(user_can_stop_the_commit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
