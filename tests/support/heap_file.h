/* Snapshot files for tests, written by hand in SQL.
 * SPDX-License-Identifier: MIT */
#ifndef HF_TESTS_SUPPORT_HEAP_FILE_H
#define HF_TESTS_SUPPORT_HEAP_FILE_H

#include <sqlite3.h>

/** In a directory of its own under /tmp. Whatever fails here aborts. */
struct hf_heap_file {
	char dir[40];
	char path[64];
	sqlite3 *db; /* while it is being written */
};

/** A file with the schema and one row of snapshot; open for writing. */
void hf_heap_file_create(struct hf_heap_file *file);

/** Run SQL on it. */
void hf_heap_file_exec(struct hf_heap_file *file, const char *sql);

/** Indices and views, close. */
void hf_heap_file_finish(struct hf_heap_file *file);
/** Close without them, where only time would be lost. */
void hf_heap_file_finish_bare(struct hf_heap_file *file);

/** Open it for writing again, with nothing in SQLite's way. */
void hf_heap_file_reopen(struct hf_heap_file *file);

/** Remove file and directory. */
void hf_heap_file_remove(struct hf_heap_file *file);

/** A small heap: two globals, a list, a leak, names that would like to
 * command a terminal. The ids are in the source. */
void hf_heap_file_fill(struct hf_heap_file *file);

#endif
