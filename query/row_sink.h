/* Row sink: rows become a table, CSV or JSON.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_ROW_SINK_H
#define HF_QUERY_ROW_SINK_H

#include <stdio.h>

#include "util/error.h"
#include "util/format.h"

/* table  for people. Up to HF_TABLE_CHUNK_ROWS rows are kept to find the width
 *        of the columns; longer results come in chunks of that many, so memory
 *        is bounded. Columns named `bytes` or `*_bytes` are shown as KiB, MiB,
 *        ..., `addr` and `*_addr` in hexadecimal. Control characters and bytes
 *        that are not UTF-8 are shown as \xNN: names come from the target and
 *        must not command the terminal. NULL is shown as "-".
 * csv    RFC 4180 with LF line ends. NULL is an empty field, an empty text is
 *        "". Bytes that are not UTF-8 become U+FFFD.
 * json   an array of objects, one on each line. Integers are exact, all 64
 *        bits. Bytes that are not UTF-8 become U+FFFD.
 */
enum hf_row_format { HF_ROWS_TABLE, HF_ROWS_CSV, HF_ROWS_JSON };

enum { HF_TABLE_CHUNK_ROWS = 10000 };

enum hf_value_kind {
	HF_VALUE_NULL,
	HF_VALUE_INTEGER,
	HF_VALUE_REAL,
	HF_VALUE_TEXT,
	HF_VALUE_BLOB, /* shown in hexadecimal */
};

struct hf_value {
	enum hf_value_kind kind;
	int64_t integer;
	double real;
	const char *text; /* of TEXT and BLOB; borrowed for the call */
	size_t len;       /* bytes of text */
};

struct hf_row_sink_options {
	enum hf_row_format format;
	bool exact_bytes;     /* tables: no KiB, MiB */
	bool no_header;
	bool terminal;        /* `out` is a terminal: fit the width, and escape
			       * control characters in csv too */
	unsigned width;       /* of that terminal in columns, 0: not known */
};

struct hf_row_sink;

#define HF_NO_ROW SIZE_MAX

/** @param out borrowed; errors of it are returned by begin, row and end. */
struct hf_error *hf_row_sink_create(FILE *out,
				    const struct hf_row_sink_options *options,
				    struct hf_row_sink **ret) HF_MUST_CHECK;
void hf_row_sink_destroy(struct hf_row_sink *sink);

/**
 * Begin a result. After hf_row_sink_end another one may begin.
 *
 * @param names copied.
 * @param tree_column in tables, the column that draws the tree of rows given
 * with a parent; -1: no tree. A tree is not cut into chunks.
 */
struct hf_error *hf_row_sink_begin(struct hf_row_sink *sink,
				   const char *const *names, size_t num,
				   int tree_column) HF_MUST_CHECK;

/** One row of as many values as there are names. */
struct hf_error *hf_row_sink_row(struct hf_row_sink *sink,
				 const struct hf_value *values) HF_MUST_CHECK;

/** As hf_row_sink_row, under row number `parent` (from 0, in the order they
 * were given; HF_NO_ROW: at the top). The parent came before. */
struct hf_error *hf_row_sink_tree_row(struct hf_row_sink *sink,
				      const struct hf_value *values,
				      size_t parent) HF_MUST_CHECK;

struct hf_error *hf_row_sink_end(struct hf_row_sink *sink) HF_MUST_CHECK;

static inline struct hf_value hf_value_null(void)
{
	return (struct hf_value){ .kind = HF_VALUE_NULL };
}

static inline struct hf_value hf_value_i64(int64_t integer)
{
	return (struct hf_value){ .kind = HF_VALUE_INTEGER,
				  .integer = integer };
}

/** NULL text is NULL. */
struct hf_value hf_value_text(const char *text);

HF_DEFINE_AUTO(struct hf_row_sink *, hf_row_sink, hf_row_sink_destroy)

#endif
