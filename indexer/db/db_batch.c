/* Batches: many rows of integers in one INSERT.
 * SPDX-License-Identifier: MIT */
#include "indexer/db/db_batch.h"

#include <inttypes.h>

#include "indexer/db/db_internal.h"

static struct hf_error *prepare(struct hf_db_writer *writer,
				const struct hf_db_batch *batch,
				uint32_t num_rows, sqlite3_stmt **ret)
{
	sqlite3_str *sql = sqlite3_str_new(writer->db);
	char *text;
	int rc;

	sqlite3_str_appendall(sql, batch->insert);
	for (uint32_t i = 0; i < num_rows; i++) {
		sqlite3_str_appendall(sql, i ? ",(" : " VALUES(");
		for (uint32_t c = 0; c < batch->num_columns; c++)
			sqlite3_str_appendall(sql, c ? ",?" : "?");
		sqlite3_str_appendchar(sql, 1, ')');
	}
	text = sqlite3_str_finish(sql);
	if (!text)
		return &hf_enomem;
	rc = sqlite3_prepare_v3(writer->db, text, -1,
				SQLITE_PREPARE_PERSISTENT, ret, NULL);
	sqlite3_free(text);
	return rc ? hf_db_writer_error(writer, rc, "write") : NULL;
}

static struct hf_error *insert(struct hf_db_writer *writer,
			       const struct hf_db_batch *batch,
			       sqlite3_stmt *stmt)
{
	uint32_t column = 0;
	int rc = SQLITE_OK;

	for (uint32_t i = 0; i < batch->used && !rc; i++) {
		int64_t value = batch->values[i];
		bool is_signed = batch->signed_columns >> column & 1;

		if (value >= 0 || is_signed)
			rc = sqlite3_bind_int64(stmt, (int)i + 1, value);
		else if (value == -1)
			rc = sqlite3_bind_null(stmt, (int)i + 1);
		else
			return hf_bad_data("value 0x%" PRIx64
					   " is too large for the database",
					   (uint64_t)value);
		if (++column == batch->num_columns)
			column = 0;
	}
	if (!rc)
		rc = sqlite3_step(stmt);
	if (rc != SQLITE_DONE)
		return hf_db_writer_error(writer, rc, "write");
	rc = sqlite3_reset(stmt);
	return rc ? hf_db_writer_error(writer, rc, "write") : NULL;
}

struct hf_error *hf_db_batch_flush(struct hf_db_writer *writer,
				   struct hf_db_batch *batch)
{
	uint32_t room = HF_DB_BATCH_VALUES / batch->num_columns;
	uint32_t num_rows = batch->used / batch->num_columns;
	sqlite3_stmt *rest = NULL;
	struct hf_error *err = NULL;

	if (!num_rows)
		return NULL;
	if (num_rows < room) {
		err = prepare(writer, batch, num_rows, &rest);
		if (!err)
			err = insert(writer, batch, rest);
		sqlite3_finalize(rest);
	} else {
		if (!batch->full)
			err = prepare(writer, batch, room, &batch->full);
		if (!err)
			err = insert(writer, batch, batch->full);
	}
	if (!err)
		batch->used = 0;
	return err;
}
