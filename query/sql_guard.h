/* SQL guard: run statements of a user, and only those that read.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_SQL_GUARD_H
#define HF_QUERY_SQL_GUARD_H

#include "query/query.h"

/**
 * Run all statements of `sql` and give their rows to the sink, one result
 * each.
 *
 * Allowed are SELECT (recursive too), EXPLAIN, functions that touch nothing
 * outside the database, and PRAGMAs that only tell. Every statement is looked
 * at before the first one runs, so a text that is refused prints nothing.
 *
 * @param limit rows of each result, 0: all.
 * @param more_ret rows left out of the last result; may be NULL.
 * @return NULL; USAGE for a text that is refused or wrong; what
 * hf_query_rows returns.
 */
struct hf_error *hf_sql_guard_run(struct hf_db *db, const char *sql,
				  struct hf_row_sink *sink, uint64_t limit,
				  uint64_t *more_ret) HF_MUST_CHECK;

#endif
