/* Query: our own SQL, prepared, bound, stepped.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_QUERY_H
#define HF_QUERY_QUERY_H

#include "query/db.h"
#include "query/row_sink.h"

struct hf_query;

/** Prepare one statement of our own. If the file has not the tables or columns
 * it needs, that is BAD_DATA. */
struct hf_error *hf_query_prepare(struct hf_db *db, const char *sql,
				  struct hf_query **ret) HF_MUST_CHECK;
/** Take over a prepared statement; its errors are `code`. */
struct hf_error *hf_query_take(struct hf_db *db, sqlite3_stmt *stmt,
			       enum hf_error_code code,
			       struct hf_query **ret) HF_MUST_CHECK;
void hf_query_destroy(struct hf_query *query);

/** Parameters count from 1. Values stay bound over hf_query_reset. */
struct hf_error *hf_query_bind_i64(struct hf_query *query, int index,
				   int64_t value) HF_MUST_CHECK;
struct hf_error *hf_query_bind_text(struct hf_query *query, int index,
				    const char *value) HF_MUST_CHECK;

/** @param row_ret true while there is a row. */
struct hf_error *hf_query_step(struct hf_query *query, bool *row_ret)
	HF_MUST_CHECK;
/** To the start again, for another round with other parameters. */
void hf_query_reset(struct hf_query *query);

/** Columns count from 0. NULL is 0, "" and true. */
int64_t hf_query_i64(const struct hf_query *query, int column);
bool hf_query_is_null(const struct hf_query *query, int column);
/** Borrowed until the next step; never NULL. */
const char *hf_query_text(const struct hf_query *query, int column);

/**
 * Give all rows to the sink, with the names of the columns, up to `limit` of
 * them (0: all).
 *
 * @param more_ret how many rows were left out; may be NULL, and then they are
 * not counted.
 */
struct hf_error *hf_query_rows(struct hf_query *query, struct hf_row_sink *sink,
			       uint64_t limit, uint64_t *more_ret)
	HF_MUST_CHECK;

HF_DEFINE_AUTO(struct hf_query *, hf_query, hf_query_destroy)

#endif
