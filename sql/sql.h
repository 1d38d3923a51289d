/* SQL: the texts of this folder, compiled into the program.
 * SPDX-License-Identifier: MIT */
#ifndef HF_SQL_SQL_H
#define HF_SQL_SQL_H

#include <stddef.h>

/* The texts are those of the files here; cmake/embed_sql.awk makes C of them
 * at build time. All pointers are constant and live for ever. */

/* What sql/schema.sql writes into the header of a snapshot file. */
#define HF_SQL_APPLICATION_ID 0x4846524b /* "HFRK" */
#define HF_SQL_FORMAT_VERSION 1          /* user_version */

/** Tables: schema.sql. */
const char *hf_sql_schema(void);
/** Indices, for after the load: indices.sql. */
const char *hf_sql_indices(void);
/** Views: views.sql. */
const char *hf_sql_views(void);
/** The same views as CREATE TEMP VIEW: for reading files whose own views are
 * older, or not to be trusted. */
const char *hf_sql_temp_views(void);

/** One canned query: a file of queries/. */
struct hf_sql_query {
	const char *name;       /* of the file: "census" */
	const char *summary;    /* one sentence, no full stop */
	const char *parameters; /* one a line, "?1 id: ..."; "" if none */
	const char *columns;    /* one a line, "type: ..." */
	const char *sql;        /* one SELECT, without its head comment */
};

/** All canned queries, by name. */
const struct hf_sql_query *hf_sql_queries(size_t *num_ret);
/** @return the query of this name, or NULL. */
const struct hf_sql_query *hf_sql_query_find(const char *name);

#endif
