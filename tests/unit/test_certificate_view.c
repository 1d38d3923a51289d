/* Certificate: each doubt shows, and nothing else is doubted.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "query/query.h"
#include "tests/support/heap_file.h"

/* A snapshot that nothing is wrong with. */
static const char good[] =
	"UPDATE snapshot SET consistency = 'exact', partial = 0,"
	" safe_point = 'found', safe_point_tries = 2, attempts = 2,"
	" missed_pause_ns = 900000, pause_calls = 12, max_thread_calls = 6,"
	" partial_threads = 0, pause_ns = 3000000, child_life_ns = 200000000,"
	" cow_pages = 26, parent_faults = 31, dropped_bytes = 8192,"
	" peak_private_bytes = 106496, private_anon_bytes = 1000000,"
	" unknown_bytes = 1000;"
	"DELETE FROM anomaly;"
	"INSERT INTO meta VALUES('capture.way_home', 'full'),"
	" ('capture.fifo', '1'), ('capture.restarted_calls', '3'),"
	" ('capture.vfork_children', '0'), ('capture.vfork_stopped', '0'),"
	" ('capture.locked_arenas', '0'), ('capture.threads_inside', '0'),"
	" ('capture.descriptors_closed', '1'), ('capture.journaled', '1'), ('capture.reaped', '1'),"
	" ('suspect_objects', '0'), ('missing_bytes', '0');"
	"INSERT INTO thread(id, tid, name, stop_how, in_allocator) VALUES"
	" (1, 11, 'main', 'syscall', 0), (2, 12, 'worker', 'user', 0);"
	"INSERT INTO segment(id, start, \"end\", prot, kind, resident_bytes,"
	" captured) VALUES(1, 4096, 12288, 'rw-p', 'anon', 8192, 'saved');";

/* Rows of the query, columns by | and rows by / . */
static void expect(struct hf_heap_file *file, const char *sql,
		   const char *expected)
{
	sqlite3_str *text = sqlite3_str_new(NULL);
	sqlite3_stmt *stmt;
	char *actual;

	if (sqlite3_prepare_v2(file->db, sql, -1, &stmt, NULL))
		fail_msg("%s: %s", sql, sqlite3_errmsg(file->db));
	while (sqlite3_step(stmt) == SQLITE_ROW) {
		if (sqlite3_str_length(text))
			sqlite3_str_appendall(text, "/");
		for (int i = 0; i < sqlite3_column_count(stmt); i++) {
			const char *value =
				(const char *)sqlite3_column_text(stmt, i);

			sqlite3_str_appendf(text, "%s%s", i ? "|" : "",
					    value ? value : "NULL");
		}
	}
	sqlite3_finalize(stmt);
	actual = sqlite3_str_finish(text);
	assert_string_equal(actual ? actual : "", expected);
	sqlite3_free(actual);
}

static void open_good(struct hf_heap_file *file)
{
	hf_heap_file_create(file);
	hf_heap_file_fill(file);
	hf_heap_file_exec(file, good);
	hf_heap_file_finish(file);
	hf_heap_file_reopen(file);
}

static void nothing_is_doubted_where_nothing_is_wrong(void **state)
{
	struct hf_heap_file file;

	(void)state;
	open_good(&file);
	expect(&file, "SELECT item, value FROM certificate WHERE ok = 0", "");
	expect(&file, "SELECT DISTINCT part FROM certificate",
	       "snapshot/pause/threads/allocator/memory/child/heap");
	expect(&file, "SELECT DISTINCT unit FROM certificate"
		      " WHERE unit IS NOT NULL ORDER BY 1",
	       "bytes/ns/percent/regions");
	expect(&file, "SELECT item FROM certificate GROUP BY item"
		      " HAVING count(*) > 1", "");
	expect(&file, "SELECT key FROM certificate GROUP BY key"
		      " HAVING count(*) > 1", "");
	expect(&file, "SELECT count(*) FROM certificate WHERE key IS NULL",
	       "0");
	/* For programs: a key, and a number that is one. */
	expect(&file,
	       "SELECT key, number, typeof(number), unit FROM certificate"
	       " WHERE key IN ('pause', 'late_bytes', 'partial', 'journaled',"
	       " 'unexplained', 'region_shared', 'consistency')",
	       "consistency|NULL|null|NULL/partial|0|integer|NULL/"
	       "pause|3000000|integer|ns/region_shared|0|integer|regions/"
	       "late_bytes|0|integer|bytes/journaled|1|integer|NULL/"
	       "unexplained|0.1|real|percent");
	expect(&file, "SELECT item FROM certificate WHERE"
		      " unit IS NOT NULL AND unit NOT IN ('regions', 'percent')"
		      " AND value IS NOT CAST(number AS TEXT)", "");
	/* Numbers are those of the tables. */
	expect(&file,
	       "SELECT item, value FROM certificate WHERE part = 'child'",
	       "lifetime of the child|200000000/"
	       "pages the process copied meanwhile|26/"
	       "faults of the process meanwhile|31/"
	       "memory the child gave back early|8192/"
	       "most memory the child had to itself|106496/"
	       "descriptors closed in the child|yes/"
	       "child known to the next run, had this one been killed|yes/"
	       "child reaped|yes");
	hf_heap_file_remove(&file);
}

/* Opening a snapshot compiles all views, with fewer terms of a compound SELECT
 * than SQLite's default. */
static void there_is_room_for_more_items(void **state)
{
	struct hf_heap_file file;
	struct hf_error *err;
	struct hf_db *db;

	(void)state;
	open_good(&file);
	err = hf_db_open(file.path, &db);
	assert_null(err);
	hf_db_close(db);
	sqlite3_limit(file.db, SQLITE_LIMIT_COMPOUND_SELECT, 25);
	expect(&file, "SELECT count(*) > 40 FROM certificate", "1");
	hf_heap_file_remove(&file);
}

static void each_doubt_is_one_line_that_is_not_ok(void **state)
{
	static const struct {
		const char *change, *doubts; /* item|value/... */
	} cases[] = {
		{ "UPDATE snapshot SET consistency = 'in_allocator'",
		  "consistency|in_allocator" },
		{ "UPDATE snapshot SET consistency = 'late_memory'",
		  "consistency|late_memory" },
		{ "UPDATE snapshot SET partial = 1;"
		  "INSERT INTO meta VALUES('partial', 'memory,threads')",
		  "partial|yes/reason: memory|some memory could not be read/"
		  "reason: threads|some threads could not be stopped" },
		{ "UPDATE snapshot SET max_thread_calls = 7",
		  "most of them for one thread|7" },
		{ "UPDATE snapshot SET safe_point = 'missed'",
		  "safe point|missed" },
		{ "UPDATE meta SET value = 'seccomp'"
		  " WHERE key = 'capture.way_home'",
		  "way home of a borrowed thread|not full: its seccomp filter "
		  "may kill it on the way" },
		{ "UPDATE thread SET stop_how = 'partial' WHERE id = 2",
		  "threads not stopped|1/not stopped: thread 12|worker" },
		{ "UPDATE thread SET in_allocator = 1 WHERE id = 1",
		  "threads in the allocator|1/in the allocator: thread 11|"
		  "main" },
		{ "UPDATE meta SET value = '2'"
		  " WHERE key = 'capture.vfork_children'",
		  "vfork children that ran on|2" },
		{ "UPDATE meta SET value = '1'"
		  " WHERE key = 'capture.locked_arenas'", "arenas locked|1" },
		{ "UPDATE meta SET value = '9' WHERE key = 'suspect_objects'",
		  "suspect objects|9" },
		{ "UPDATE meta SET value = '0' WHERE key = 'capture.reaped'",
		  "child reaped|no" },
		{ "UPDATE meta SET value = '0'"
		  " WHERE key = 'capture.descriptors_closed'",
		  "descriptors closed in the child|no" },
		{ "UPDATE meta SET value = '4096'"
		  " WHERE key = 'missing_bytes'", "missing bytes|4096" },
		{ "INSERT INTO segment(id, start, \"end\", prot, kind,"
		  " resident_bytes, captured, reason, advice) VALUES(2, 20480,"
		  " 28672, 'rw-p', 'anon', 4096, 'late', 'dontfork',"
		  " 'dontfork'), (3, 28672, 32768, 'rw-p', 'anon', 4096,"
		  " 'late', 'dontfork', 'dontfork,dontdump')",
		  "kept out of forks (MADV_DONTFORK), read late|2 regions, "
		  "12288 bytes, 8192 resident/private bytes read late|8192" },
		{ "INSERT INTO segment(id, start, \"end\", prot, kind,"
		  " resident_bytes, captured, reason, advice) VALUES(2, 20480,"
		  " 28672, 'rw-p', 'anon', 0, 'missing', 'wipeonfork',"
		  " 'wipeonfork')",
		  "wiped by forks (MADV_WIPEONFORK), not captured|1 regions, "
		  "8192 bytes, 0 resident/missing segments|1" },
		{ "UPDATE snapshot SET unknown_bytes = 500000",
		  "unexplained private memory|50.0 %" },
		{ "INSERT INTO anomaly VALUES('odd', NULL, NULL, 3, NULL)",
		  "anomalies|3" },
		{ "INSERT INTO meta VALUES('unsupported', 'glibc 9')",
		  "unsupported heap|glibc 9" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct hf_heap_file file;

		open_good(&file);
		hf_heap_file_exec(&file, cases[i].change);
		expect(&file,
		       "SELECT item, value FROM certificate WHERE ok = 0",
		       cases[i].doubts);
		hf_heap_file_remove(&file);
	}
}

static void what_is_no_fault_is_told_and_not_judged(void **state)
{
	static const struct {
		const char *change, *item, *line; /* value|ok */
	} cases[] = {
		{ "UPDATE snapshot SET safe_point = 'none'", "safe point",
		  "not looked for|NULL" },
		{ "UPDATE snapshot SET safe_point = 'unknown'", "safe point",
		  "not known for this allocator|NULL" },
		{ "UPDATE snapshot SET parent_faults = NULL",
		  "faults of the process meanwhile", "NULL|NULL" },
		{ "UPDATE meta SET value = '0' WHERE key = 'capture.fifo'",
		  "real-time priority in the pause", "no|NULL" },
		{ "INSERT INTO meta VALUES('capture.predicted_pause_ns',"
		  " '2500000')", "pause as predicted", "2500000|NULL" },
		{ "INSERT INTO meta VALUES('capture.prepared_bytes',"
		  " '4194304')", "bytes in huge pages made before",
		  "4194304|NULL" },
		{ "INSERT INTO meta VALUES('capture.read_from', 'memory')",
		  "heap was read from", "a copy of the child in memory|NULL" },
		{ "INSERT INTO meta VALUES('capture.read_from', 'direct'),"
		  " ('capture.read_direct_because', 'no room')",
		  "heap was read from", "the child itself: no room|NULL" },
		{ "INSERT INTO segment(id, start, \"end\", prot, kind,"
		  " resident_bytes, captured, reason) VALUES(2, 20480, 28672,"
		  " 'rw-s', 'shared', 4096, 'late', 'shared')",
		  "shared with other processes, or a file, read late",
		  "1 regions, 8192 bytes, 4096 resident|NULL" },
		{ "INSERT INTO segment(id, start, \"end\", prot, kind,"
		  " resident_bytes, captured, advice) VALUES(2, 20480, 28672,"
		  " 'rw-p', 'anon', 4096, 'saved', 'dontdump')",
		  "kept out of core files (MADV_DONTDUMP), captured",
		  "1 regions, 8192 bytes, 4096 resident|NULL" },
		{ "INSERT INTO segment(id, start, \"end\", prot, kind,"
		  " resident_bytes, captured, reason) VALUES(2, 20480, 28672,"
		  " '---p', 'anon', 0, 'missing', 'no_access')",
		  "without any access (PROT_NONE), not captured",
		  "1 regions, 8192 bytes, 0 resident|NULL" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct hf_heap_file file;
		char *sql;

		open_good(&file);
		hf_heap_file_exec(&file, cases[i].change);
		sql = sqlite3_mprintf("SELECT value, ok FROM certificate"
				      " WHERE item = %Q", cases[i].item);
		expect(&file, sql, cases[i].line);
		sqlite3_free(sql);
		expect(&file, "SELECT item FROM certificate WHERE ok = 0", "");
		hf_heap_file_remove(&file);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_doubted_where_nothing_is_wrong),
		cmocka_unit_test(there_is_room_for_more_items),
		cmocka_unit_test(each_doubt_is_one_line_that_is_not_ok),
		cmocka_unit_test(what_is_no_fault_is_told_and_not_judged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
