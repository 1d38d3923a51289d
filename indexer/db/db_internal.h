/* Database writer, inside: what its files share.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_DB_DB_INTERNAL_H
#define HF_INDEXER_DB_DB_INTERNAL_H

#include <sqlite3.h>

#include "indexer/db/db_batch.h"
#include "indexer/db/db_writer.h"

/* Tables whose rows are few and put one by one. */
enum hf_db_table {
	HF_DB_META,
	HF_DB_SNAPSHOT,
	HF_DB_MODULE,
	HF_DB_SEGMENT,
	HF_DB_THREAD,
	HF_DB_THREAD_REGISTER,
	HF_DB_FRAME,
	HF_DB_READER,
	HF_DB_AREA,
	HF_DB_TYPE,
	HF_DB_OBJECT_TYPE,
	HF_DB_ROOT,
	HF_DB_TYPE_STAT,
	HF_DB_ANOMALY,
	HF_DB_PHASE,
	HF_DB_NUM_TABLES,
};

struct hf_db_writer {
	sqlite3 *db;
	char *path;                            /* of the file, for messages */
	sqlite3_stmt *insert[HF_DB_NUM_TABLES]; /* made at the first row */
	struct hf_db_batch objects, refs;
	uint64_t num_unreachable; /* rows of index object_unreachable */

	/* During the commit: */
	const struct hf_progress *progress; /* borrowed */
	uint64_t steps_done, steps;         /* of the commit */
	struct hf_error *stopped;           /* the user's wish, from progress */
};

/** The error for an SQLite result code: NO_SPACE, NO_MEMORY, INTERRUPTED, OS
 * or SQL. `doing` completes "cannot ... 'PATH'". */
struct hf_error *hf_db_writer_error(struct hf_db_writer *writer, int rc,
				    const char *doing) HF_MUST_CHECK;

#endif
