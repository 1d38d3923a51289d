/* Tests of a snapshot whose process ended before its image was opened.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "indexer/index.h"
#include "tests/support/capture_check.h"
#include "tests/support/test_main.h"
#include "tests/support/victim.h"

static int number(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *statement;
	int value;

	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL),
			 SQLITE_OK);
	assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
	value = sqlite3_column_int(statement, 0);
	sqlite3_finalize(statement);
	return value;
}

static void index_of_a_fork_alone(const char *path,
				  struct hf_index_summary *summary)
{
	struct hf_victim victim;
	struct hf_frozen *frozen = NULL;
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	const struct hf_snapshot_row row = { .pid = 1, .source = "live" };
	const struct hf_index_options options = { .snapshot = &row };

	hf_victim_start(&victim, (const char *[]){ VICTIM_LEFT_OUT, NULL });
	hf_victim_expect(&victim, "ready");
	assert_hf_ok(hf_test_capture(victim.pid, &frozen));
	hf_victim_kill(&victim);
	assert_hf_ok(hf_frozen_open_image(frozen, &image));
	assert_hf_ok(hf_index(image, path, &options, summary));
	hf_image_destroy(HF_TAKE(image));
	hf_frozen_destroy(frozen);
}

static void it_is_partial_and_says_why(void **state)
{
	struct hf_index_summary summary = { 0 };
	char path[] = "/tmp/hf-left-out-XXXXXX";
	int fd = mkstemp(path);
	sqlite3 *db;

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	unlink(path);
	index_of_a_fork_alone(path, &summary);
	assert_true(summary.partial & HF_PARTIAL_MEMORY);
	assert_int_equal(summary.late_bytes, 0);
	assert_non_null(summary.lost);
	assert_non_null(strstr(summary.lost->cause, "MADV_DONTFORK"));
	assert_non_null(strstr(summary.lost->cause, "MADV_WIPEONFORK"));

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(number(db, "SELECT partial FROM snapshot"), 1);
	assert_int_equal(number(db, "SELECT count(*) FROM segment WHERE "
				"captured = 'missing' AND prot = 'rw-p' AND "
				"\"end\" - start = 1 << 20"), 1);
	assert_int_equal(number(db, "SELECT count(*) FROM segment WHERE "
				"captured = 'late'"), 0);
	assert_int_equal(number(db, "SELECT count FROM anomaly WHERE "
				"kind = 'memory not captured'"), 2);
	assert_int_equal(number(db, "SELECT ok FROM certificate WHERE "
				"item = 'missing segments'"), 0);
	assert_int_equal(number(db, "SELECT count(*) FROM meta WHERE "
				"key = 'not_captured' AND value LIKE "
				"'%DONTFORK%WIPEONFORK%'"), 1);
	sqlite3_close(db);
	hf_index_summary_deinit(&summary);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_partial_and_says_why),
	};

	hf_test_need_ptrace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
