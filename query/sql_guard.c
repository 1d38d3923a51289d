/* SQL guard: run statements of a user, and only those that read.
 * SPDX-License-Identifier: MIT */
#include "query/sql_guard.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "util/array.h"

/* SQLite asks the authorizer about each thing a statement would do, while it
 * is prepared. What is not on the list here is refused; the first refusal is
 * kept for the message, since SQLite itself only says "not authorized". */

struct guard {
	char refused[80]; /* what was refused first, or "" */
};

typedef HF_ARRAY(struct hf_query *) query_array;

/* Functions that reach outside of the statement. Most of them exist only in
 * sqlite3's shell or with an extension; the list costs nothing. */
static const char *const refused_functions[] = {
	"load_extension", "readfile",	    "writefile", "edit",
	"fts3_tokenizer", "fts5_source_id", "lsdir",	 "fsdir",
	"sqlite_log",	  "eval",
};

/* PRAGMAs that tell something. `bare` ones are settings when they are given a
 * value, so only without one. */
static const struct {
	const char *name;
	bool bare;
} pragmas[] = {
	{ "application_id", true },   { "collation_list", false },
	{ "compile_options", false }, { "encoding", true },
	{ "foreign_key_list", false }, { "freelist_count", true },
	{ "function_list", false },   { "index_info", false },
	{ "index_list", false },      { "index_xinfo", false },
	{ "integrity_check", false }, { "page_count", true },
	{ "page_size", true },	      { "pragma_list", false },
	{ "quick_check", false },     { "schema_version", true },
	{ "table_info", false },      { "table_list", false },
	{ "table_xinfo", false },     { "user_version", true },
};

static const char *const action_names[] = {
	[SQLITE_CREATE_INDEX] = "CREATE INDEX",
	[SQLITE_CREATE_TABLE] = "CREATE TABLE",
	[SQLITE_CREATE_TEMP_INDEX] = "CREATE INDEX",
	[SQLITE_CREATE_TEMP_TABLE] = "CREATE TEMP TABLE",
	[SQLITE_CREATE_TEMP_TRIGGER] = "CREATE TEMP TRIGGER",
	[SQLITE_CREATE_TEMP_VIEW] = "CREATE TEMP VIEW",
	[SQLITE_CREATE_TRIGGER] = "CREATE TRIGGER",
	[SQLITE_CREATE_VIEW] = "CREATE VIEW",
	[SQLITE_DELETE] = "DELETE",
	[SQLITE_DROP_INDEX] = "DROP INDEX",
	[SQLITE_DROP_TABLE] = "DROP TABLE",
	[SQLITE_DROP_TEMP_INDEX] = "DROP INDEX",
	[SQLITE_DROP_TEMP_TABLE] = "DROP TABLE",
	[SQLITE_DROP_TEMP_TRIGGER] = "DROP TRIGGER",
	[SQLITE_DROP_TEMP_VIEW] = "DROP VIEW",
	[SQLITE_DROP_TRIGGER] = "DROP TRIGGER",
	[SQLITE_DROP_VIEW] = "DROP VIEW",
	[SQLITE_INSERT] = "INSERT",
	[SQLITE_PRAGMA] = "PRAGMA",
	[SQLITE_TRANSACTION] = "a transaction",
	[SQLITE_UPDATE] = "UPDATE",
	[SQLITE_ATTACH] = "ATTACH",
	[SQLITE_DETACH] = "DETACH",
	[SQLITE_ALTER_TABLE] = "ALTER TABLE",
	[SQLITE_REINDEX] = "REINDEX",
	[SQLITE_ANALYZE] = "ANALYZE",
	[SQLITE_CREATE_VTABLE] = "CREATE VIRTUAL TABLE",
	[SQLITE_DROP_VTABLE] = "DROP VIRTUAL TABLE",
	[SQLITE_FUNCTION] = "function",
	[SQLITE_SAVEPOINT] = "SAVEPOINT",
};

static bool function_allowed(const char *name)
{
	for (size_t i = 0;
	     i < sizeof(refused_functions) / sizeof(refused_functions[0]); i++)
		if (!strcasecmp(name, refused_functions[i]))
			return false;
	return true;
}

static bool pragma_allowed(const char *name, const char *value)
{
	for (size_t i = 0; i < sizeof(pragmas) / sizeof(pragmas[0]); i++)
		if (!strcasecmp(name, pragmas[i].name))
			return !pragmas[i].bare || !value;
	return false;
}

static int refuse(struct guard *guard, int action, const char *detail)
{
	const char *name = NULL;

	if (guard->refused[0])
		return SQLITE_DENY;
	if (action >= 0 &&
	    (size_t)action < sizeof(action_names) / sizeof(action_names[0]))
		name = action_names[action];
	snprintf(guard->refused, sizeof(guard->refused), "%s%s%s",
		 name ? name : "this statement", detail ? " " : "",
		 detail ? detail : "");
	return SQLITE_DENY;
}

static int authorize(void *arg, int action, const char *first,
		     const char *second, const char *schema,
		     const char *trigger)
{
	struct guard *guard = arg;

	(void)schema;
	(void)trigger;
	switch (action) {
	case SQLITE_SELECT:
	case SQLITE_READ:
	case SQLITE_RECURSIVE:
		return SQLITE_OK;
	case SQLITE_FUNCTION:
		if (function_allowed(second ? second : ""))
			return SQLITE_OK;
		return refuse(guard, action, second);
	case SQLITE_PRAGMA:
		if (pragma_allowed(first ? first : "", second))
			return SQLITE_OK;
		return refuse(guard, action, first);
	default:
		return refuse(guard, action, NULL);
	}
}

static struct hf_error *refused(const struct guard *guard, const char *what)
{
	struct hf_error *err = hf_error_create(
		HF_ERROR_USAGE, "refused: %s",
		guard->refused[0] ? guard->refused : what);

	err = hf_error_cause(err, "statements may only read the snapshot");
	return hf_error_fix(
		err, "to change data, change a copy of the file with sqlite3");
}

/* What SQLite says of a text that is no query, or of names it does not know,
 * is the cause; damage and the like stay what they are. */
static struct hf_error *wrong(struct hf_error *err)
{
	struct hf_error *ret;

	if (err->code != HF_ERROR_USAGE)
		return err;
	ret = hf_error_create(HF_ERROR_USAGE, "cannot understand the query");
	ret = hf_error_cause(ret, "%s", err->message);
	hf_error_destroy(err);
	return hf_error_fix(ret, "\"PRAGMA table_list\" lists tables and views, "
				 "\"PRAGMA table_info(census)\" the columns of "
				 "one; see heapfork-schema(5)");
}

static bool is_blank(const char *sql)
{
	while (isspace((unsigned char)*sql) || *sql == ';')
		sql++;
	return !*sql;
}

static struct hf_error *prepare_all(struct hf_db *db, const char *sql,
				    struct guard *guard, query_array *ret)
{
	struct hf_error *err = NULL;

	while (!err && !is_blank(sql)) {
		sqlite3_stmt *stmt = NULL;
		struct hf_query *query;
		int rc = sqlite3_prepare_v2(hf_db_handle(db), sql, -1, &stmt,
					    &sql);

		if (guard->refused[0]) {
			sqlite3_finalize(stmt);
			return refused(guard, "");
		}
		if (rc)
			return wrong(hf_db_error(db, rc, HF_ERROR_USAGE));
		if (!stmt) /* a comment */
			continue;
		if (!sqlite3_stmt_readonly(stmt) ||
		    !sqlite3_column_count(stmt)) {
			sqlite3_finalize(stmt);
			return refused(guard, "this statement");
		}
		err = hf_query_take(db, stmt, HF_ERROR_USAGE, &query);
		if (!err) {
			err = hf_array_append(ret, query);
			if (err)
				hf_query_destroy(query);
		}
	}
	return err;
}

/* The tables behind table-valued functions are declared when they are first
 * used, and SQLite asks the authorizer about that as if it were a CREATE
 * TABLE. These are harmless: they are used once before the guard is up. Others
 * are refused by it. */
static void declare_functions(struct hf_db *db)
{
	static const char *const functions[] = {
		"json_each('[]')",
		"json_tree('[]')",
		"pragma_foreign_key_list('type')",
		"pragma_function_list",
		"pragma_index_info('ref_dst')",
		"pragma_index_list('type')",
		"pragma_index_xinfo('ref_dst')",
		"pragma_table_info('type')",
		"pragma_table_list",
		"pragma_table_xinfo('type')",
	};

	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		char sql[80];
		sqlite3_stmt *stmt;

		snprintf(sql, sizeof(sql), "SELECT 1 FROM %s", functions[i]);
		if (!sqlite3_prepare_v2(hf_db_handle(db), sql, -1, &stmt,
					NULL))
			sqlite3_finalize(stmt);
	}
}

struct hf_error *hf_sql_guard_run(struct hf_db *db, const char *sql,
				  struct hf_row_sink *sink, uint64_t limit,
				  uint64_t *more_ret)
{
	struct guard guard = { 0 };
	query_array queries = { 0 };
	struct hf_error *err;

	declare_functions(db);
	/* In force while the statements run too: SQLite prepares again when it
	 * must, and table-valued pragmas prepare as they go. */
	sqlite3_set_authorizer(hf_db_handle(db), authorize, &guard);
	err = prepare_all(db, sql, &guard, &queries);
	if (!err && !queries.num)
		err = hf_error_create(HF_ERROR_USAGE,
				      "there is no statement in the query");
	for (size_t i = 0; !err && i < queries.num; i++) {
		err = hf_query_rows(queries.data[i], sink, limit, more_ret);
		if (err && guard.refused[0]) {
			hf_error_destroy(err);
			err = refused(&guard, "");
		}
	}
	for (size_t i = 0; i < queries.num; i++)
		hf_query_destroy(queries.data[i]);
	hf_array_deinit(&queries);
	sqlite3_set_authorizer(hf_db_handle(db), NULL, NULL);
	return err;
}
