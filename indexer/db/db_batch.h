/* Batches: many rows of integers in one INSERT.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_DB_DB_BATCH_H
#define HF_INDEXER_DB_DB_BATCH_H

#include <sqlite3.h>
#include <stdint.h>

#include "util/error.h"

struct hf_db_writer;

enum { HF_DB_BATCH_VALUES = 512 }; /* room for a whole number of rows */

/* Rows are collected and put in by one statement with many VALUES: a step of
 * SQLite costs as much as several rows. */
struct hf_db_batch {
	const char *insert;      /* "INSERT INTO t(a, b)": static */
	uint32_t num_columns;
	uint32_t signed_columns; /* bit i: column i may be negative, and its
				  * value -1 is not NULL */
	uint32_t used;           /* values collected */
	uint64_t num_rows;       /* put so far */
	sqlite3_stmt *full;      /* for as many rows as there is room for */
	int64_t values[HF_DB_BATCH_VALUES];
};

/** Insert what is collected. */
struct hf_error *hf_db_batch_flush(struct hf_db_writer *writer,
				   struct hf_db_batch *batch) HF_MUST_CHECK;

/** Where the next row goes: num_columns values. Then hf_db_batch_add(). */
static inline int64_t *hf_db_batch_row(struct hf_db_batch *batch)
{
	return batch->values + batch->used;
}

/** Take the row written to hf_db_batch_row(). Values that do not fit in 63
 * bits are BAD_DATA, but HF_UNKNOWN_U64 is NULL. */
static inline struct hf_error *hf_db_batch_add(struct hf_db_writer *writer,
					       struct hf_db_batch *batch)
{
	batch->num_rows++;
	batch->used += batch->num_columns;
	if (batch->used + batch->num_columns <= HF_DB_BATCH_VALUES)
		return NULL;
	return hf_db_batch_flush(writer, batch);
}

#endif
