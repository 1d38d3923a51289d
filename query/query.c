/* Query: our own SQL, prepared, bound, stepped.
 * SPDX-License-Identifier: MIT */
#include "query/query.h"

#include <string.h>

struct hf_query {
	struct hf_db *db;        /* borrowed */
	sqlite3_stmt *stmt;
	enum hf_error_code code; /* of errors that are no damage */
};

struct hf_error *hf_query_take(struct hf_db *db, sqlite3_stmt *stmt,
			       enum hf_error_code code, struct hf_query **ret)
{
	struct hf_query *query = calloc(1, sizeof(*query));

	if (!query) {
		sqlite3_finalize(stmt);
		return &hf_enomem;
	}
	*query = (struct hf_query){ .db = db, .stmt = stmt, .code = code };
	*ret = query;
	return NULL;
}

struct hf_error *hf_query_prepare(struct hf_db *db, const char *sql,
				  struct hf_query **ret)
{
	sqlite3_stmt *stmt;
	int rc = sqlite3_prepare_v2(hf_db_handle(db), sql, -1, &stmt, NULL);

	if (rc)
		return hf_db_error(db, rc, HF_ERROR_BAD_DATA);
	return hf_query_take(db, stmt, HF_ERROR_BAD_DATA, ret);
}

void hf_query_destroy(struct hf_query *query)
{
	if (!query)
		return;
	sqlite3_finalize(query->stmt);
	free(query);
}

struct hf_error *hf_query_bind_i64(struct hf_query *query, int index,
				   int64_t value)
{
	int rc = sqlite3_bind_int64(query->stmt, index, value);

	return rc ? hf_db_error(query->db, rc, query->code) : NULL;
}

struct hf_error *hf_query_bind_text(struct hf_query *query, int index,
				    const char *value)
{
	int rc = sqlite3_bind_text(query->stmt, index, value, -1,
				   SQLITE_TRANSIENT);

	return rc ? hf_db_error(query->db, rc, query->code) : NULL;
}

struct hf_error *hf_query_step(struct hf_query *query, bool *row_ret)
{
	int rc = sqlite3_step(query->stmt);

	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		return hf_db_error(query->db, rc, query->code);
	*row_ret = rc == SQLITE_ROW;
	return NULL;
}

void hf_query_reset(struct hf_query *query)
{
	sqlite3_reset(query->stmt);
}

int64_t hf_query_i64(const struct hf_query *query, int column)
{
	return sqlite3_column_int64(query->stmt, column);
}

bool hf_query_is_null(const struct hf_query *query, int column)
{
	return sqlite3_column_type(query->stmt, column) == SQLITE_NULL;
}

const char *hf_query_text(const struct hf_query *query, int column)
{
	const char *text =
		(const char *)sqlite3_column_text(query->stmt, column);

	return text ? text : "";
}

static struct hf_error *column_value(struct hf_query *query, int column,
				     struct hf_value *ret)
{
	sqlite3_stmt *stmt = query->stmt;

	*ret = hf_value_null();
	switch (sqlite3_column_type(stmt, column)) {
	case SQLITE_INTEGER:
		*ret = hf_value_i64(sqlite3_column_int64(stmt, column));
		break;
	case SQLITE_FLOAT:
		ret->kind = HF_VALUE_REAL;
		ret->real = sqlite3_column_double(stmt, column);
		break;
	case SQLITE_TEXT:
		ret->kind = HF_VALUE_TEXT;
		ret->text = (const char *)sqlite3_column_text(stmt, column);
		break;
	case SQLITE_BLOB:
		ret->kind = HF_VALUE_BLOB;
		ret->text = sqlite3_column_blob(stmt, column);
		break;
	}
	if (ret->kind == HF_VALUE_TEXT || ret->kind == HF_VALUE_BLOB) {
		ret->len = (size_t)sqlite3_column_bytes(stmt, column);
		if (!ret->text && ret->len)
			return &hf_enomem;
		if (!ret->text)
			ret->text = "";
	}
	return NULL;
}

struct hf_error *hf_query_rows(struct hf_query *query, struct hf_row_sink *sink,
			       uint64_t limit, uint64_t *more_ret)
{
	int num = sqlite3_column_count(query->stmt);
	HF_AUTO_FREE const char **names = NULL;
	HF_AUTO_FREE struct hf_value *values = NULL;
	struct hf_error *err;
	uint64_t rows = 0;
	bool row;

	/* The first step comes before the first output: an error in the
	 * statement leaves standard output empty. */
	err = hf_query_step(query, &row);
	if (err)
		return err;
	names = calloc((size_t)num + 1, sizeof(*names));
	values = calloc((size_t)num + 1, sizeof(*values));
	if (!names || !values)
		return &hf_enomem;
	for (int i = 0; i < num; i++) {
		names[i] = sqlite3_column_name(query->stmt, i);
		if (!names[i])
			return &hf_enomem;
	}
	err = hf_row_sink_begin(sink, names, (size_t)num, -1);
	while (!err && row && (!limit || rows < limit)) {
		for (int i = 0; !err && i < num; i++)
			err = column_value(query, i, &values[i]);
		if (!err)
			err = hf_row_sink_row(sink, values);
		if (!err)
			err = hf_query_step(query, &row);
		rows++;
	}
	if (err)
		return err;
	err = hf_row_sink_end(sink);
	if (err || !more_ret)
		return err;
	for (*more_ret = 0; row && !err; (*more_ret)++)
		err = hf_query_step(query, &row);
	return err;
}
