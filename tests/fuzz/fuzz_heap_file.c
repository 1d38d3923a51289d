/* Fuzz: a snapshot made by anybody, through everything the verbs do with it.
 * SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "query/path.h"
#include "query/query.h"
#include "query/retainers.h"
#include "query/sql_guard.h"
#include "query/type_match.h"
#include "sql/sql.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Damage may make a query long without making it wrong. */
static const uint64_t max_ns = 300000000;

static void canned(struct hf_db *db, struct hf_row_sink *sink, const char *name)
{
	const struct hf_sql_query *canned = hf_sql_query_find(name);
	HF_AUTO(hf_query) struct hf_query *query = NULL;
	struct hf_error *err = hf_query_prepare(db, canned->sql, &query);

	if (!err && canned->parameters[0])
		err = hf_query_bind_i64(query, 1, 20);
	if (!err)
		err = hf_query_rows(query, sink, 20, NULL);
	hf_error_ignore(err);
}

static void retainers(struct hf_db *db)
{
	struct hf_retainer_match match = { .object_id = 6 };
	struct hf_retainers ret = { 0 };
	int64_t *types = NULL;
	struct hf_error *err = hf_retainers_find(db, &match, NULL, &ret);

	hf_error_ignore(err);
	hf_retainers_deinit(&ret);
	err = hf_type_match(db, "*", &types, &match.num_types);
	match.type_ids = types;
	if (!err)
		err = hf_retainers_find(db, &match, NULL, &ret);
	if (!err)
		for (uint32_t i = 0; i < ret.num_steps; i++)
			if (ret.steps[i].parent != HF_NO_STEP &&
			    ret.steps[i].parent >= i)
				abort();
	hf_error_ignore(err);
	hf_retainers_deinit(&ret);
	free(types);
}

static void paths(struct hf_db *db)
{
	HF_AUTO(hf_path_reader) struct hf_path_reader *reader = NULL;
	struct hf_error *err = hf_path_reader_create(db, &reader);

	for (int64_t id = 1; !err && id <= 10; id++) {
		struct hf_path path = { 0 };
		struct hf_error *path_err =
			hf_path_find(db, id, HF_PATH_SHORTEST, NULL, &path);

		for (size_t i = 0; !path_err && i < path.num; i++) {
			struct hf_path_step step;

			path_err = hf_path_read(reader, &path, i, &step);
			if (!path_err)
				hf_path_step_deinit(&step);
		}
		hf_error_ignore(path_err);
		hf_path_deinit(&path);
	}
	hf_error_ignore(err);
}

static void all_verbs(struct hf_db *db, struct hf_row_sink *sink)
{
	static const char *const names[] = {
		"census", "top", "leaks", "leak_roots", "info",
		"heap",	  "anomalies", "certificate", "phases",
	};
	int64_t id;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		canned(db, sink, names[i]);
	retainers(db);
	paths(db);
	hf_error_ignore(hf_object_at(db, 4240, &id));
	hf_error_ignore(hf_sql_guard_run(
		db,
		"SELECT * FROM path_to_root WHERE object_id = 6;"
		"SELECT * FROM sqlite_schema; SELECT * FROM root_holder;"
		"PRAGMA quick_check(5)",
		sink, 20, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum hf_row_format formats[] = {
		HF_ROWS_TABLE, HF_ROWS_CSV, HF_ROWS_JSON
	};
	struct hf_db *db = NULL;
	struct hf_error *err = hf_db_open_bytes(data, size, &db);
	struct hf_row_sink_options options = {
		.format = formats[size ? data[size - 1] % 3 : 0],
		.terminal = true,
		.width = 80,
	};
	struct hf_row_sink *sink = NULL;
	FILE *out;

	if (err) {
		hf_error_destroy(err);
		return 0;
	}
	hf_db_set_stop(db, NULL, hf_now_ns() + max_ns);
	out = fopen("/dev/null", "w");
	err = out ? hf_row_sink_create(out, &options, &sink) : NULL;
	if (sink)
		all_verbs(db, sink);
	hf_error_ignore(err);
	hf_row_sink_destroy(sink);
	if (out)
		fclose(out);
	hf_db_close(db);
	return 0;
}
