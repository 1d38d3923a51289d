/* Snapshot database, opened for reading: checked, guarded, limited.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_DB_H
#define HF_QUERY_DB_H

#include <sqlite3.h>

#include "util/progress.h"

/* A snapshot may come from anybody. Nothing in it is trusted:
 *  - it is opened read-only, DEFENSIVE, without extensions, with lowered
 *    limits, and its functions-in-schema are not trusted (TRUSTED_SCHEMA=0);
 *  - the tables we read must be real tables, not views or virtual tables of
 *    the same name;
 *  - the views we promise are made anew in the TEMP schema from the text that
 *    is compiled into this program. Names are looked up in TEMP first, so a
 *    view of the file itself, hostile or merely older, is never run by us.
 *    To the user they look the same;
 *  - everything is read in one read transaction.
 */
struct hf_db;

/**
 * Open a snapshot file.
 *
 * Symbolic links are followed (`latest.heap` is a good name, and reading
 * through a link gives away nothing); what is at the end of it must be a
 * regular file.
 *
 * @return NULL; BAD_DATA when it is missing, not a snapshot, truncated,
 * damaged, or newer than this program; PERMISSION; OS.
 */
struct hf_error *hf_db_open(const char *path, struct hf_db **ret)
	HF_MUST_CHECK;

/** As hf_db_open from `len` bytes in memory (copied). */
struct hf_error *hf_db_open_bytes(const void *bytes, size_t len,
				  struct hf_db **ret) HF_MUST_CHECK;

void hf_db_close(struct hf_db *db);

/** Borrowed. */
sqlite3 *hf_db_handle(struct hf_db *db);
/** user_version of the file. */
int hf_db_format_version(const struct hf_db *db);

/**
 * End statements that run when `*cancelled` becomes nonzero (INTERRUPTED), or
 * hf_now_ns() passes deadline_ns (TIMEOUT; 0: no deadline). The pointer is
 * borrowed until the close, and may be NULL.
 */
void hf_db_set_stop(struct hf_db *db, const volatile sig_atomic_t *cancelled,
		    uint64_t deadline_ns);

/** Whether a table of this name is in the file itself. */
bool hf_db_has_table(struct hf_db *db, const char *name);

/**
 * The error for an SQLite result code of this connection. Damage is BAD_DATA,
 * a stop is INTERRUPTED or TIMEOUT; what is left becomes `otherwise`.
 */
struct hf_error *hf_db_error(struct hf_db *db, int rc,
			     enum hf_error_code otherwise) HF_MUST_CHECK;

HF_DEFINE_AUTO(struct hf_db *, hf_db, hf_db_close)

#endif
