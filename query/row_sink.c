/* Row sink: rows become a table, CSV or JSON.
 * SPDX-License-Identifier: MIT */
#include "query/row_sink.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "query/printable.h"
#include "query/table.h"

/* How a column is shown in tables; follows from its name. */
enum look { LOOK_PLAIN, LOOK_BYTES, LOOK_ADDR };

struct column {
	char *name;
	enum look look;
};

struct hf_row_sink {
	FILE *out; /* borrowed */
	struct hf_row_sink_options options;
	struct column *columns;
	size_t num_columns;
	int tree_column;
	uint64_t rows;          /* of this result */
	struct hf_table *table; /* rows that wait, in HF_ROWS_TABLE */
	bool header_done;       /* of this result */
};

struct hf_value hf_value_text(const char *text)
{
	if (!text)
		return hf_value_null();
	return (struct hf_value){ .kind = HF_VALUE_TEXT,
				  .text = text,
				  .len = strlen(text) };
}

static bool ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), end_len = strlen(end);

	return len >= end_len && !strcmp(text + len - end_len, end);
}

static enum look look_of(const char *name)
{
	if (!strcmp(name, "bytes") || ends_with(name, "_bytes"))
		return LOOK_BYTES;
	if (!strcmp(name, "addr") || ends_with(name, "_addr"))
		return LOOK_ADDR;
	return LOOK_PLAIN;
}

struct hf_error *hf_row_sink_create(FILE *out,
				    const struct hf_row_sink_options *options,
				    struct hf_row_sink **ret)
{
	struct hf_row_sink *sink = calloc(1, sizeof(*sink));

	if (!sink)
		return &hf_enomem;
	sink->out = out;
	sink->options = *options;
	*ret = sink;
	return NULL;
}

static void clear(struct hf_row_sink *sink)
{
	for (size_t i = 0; i < sink->num_columns; i++)
		free(sink->columns[i].name);
	free(sink->columns);
	sink->columns = NULL;
	sink->num_columns = 0;
	hf_table_destroy(sink->table);
	sink->table = NULL;
}

void hf_row_sink_destroy(struct hf_row_sink *sink)
{
	if (!sink)
		return;
	clear(sink);
	free(sink);
}

static struct hf_error *check_out(struct hf_row_sink *sink)
{
	if (!ferror(sink->out))
		return NULL;
	return hf_error_os(errno, "cannot write the result");
}

static const char hex_digits[] = "0123456789abcdef";

static void put_hex(FILE *out, const char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		fputc(hex_digits[(unsigned char)bytes[i] >> 4], out);
		fputc(hex_digits[bytes[i] & 15], out);
	}
}

/* Shortest of %.15g and %.17g that reads back as the same number. */
static void format_real(double real, char *buf, size_t size)
{
	if (isinf(real)) {
		snprintf(buf, size, "%s1e999", real < 0 ? "-" : "");
		return;
	}
	snprintf(buf, size, "%.15g", real);
	if (strtod(buf, NULL) != real)
		snprintf(buf, size, "%.17g", real);
}

/* U+FFFD, the replacement character, in UTF-8 */
static const char replacement[] = "\xef\xbf\xbd";

static void csv_text(struct hf_row_sink *sink, const char *text, size_t len)
{
	bool quote = !len || text[0] == ' ' || text[len - 1] == ' ';

	for (size_t i = 0; i < len && !quote; i++)
		quote = text[i] == '"' || text[i] == ',' || text[i] == '\n' ||
			text[i] == '\r';
	if (quote)
		fputc('"', sink->out);
	for (size_t i = 0; i < len;) {
		uint32_t code;
		size_t n = hf_utf8_decode(text + i, len - i, &code);

		if (!n)
			fputs(replacement, sink->out);
		else if (sink->options.terminal && hf_is_control(code))
			fprintf(sink->out, code <= 0xff ? "\\x%02x" : "\\u{%x}",
				code);
		else if (code == '"')
			fputs("\"\"", sink->out);
		else
			fwrite(text + i, 1, n, sink->out);
		i += n ? n : 1;
	}
	if (quote)
		fputc('"', sink->out);
}

static void csv_value(struct hf_row_sink *sink, const struct hf_value *value)
{
	char buf[40];

	switch (value->kind) {
	case HF_VALUE_NULL:
		break;
	case HF_VALUE_INTEGER:
		fprintf(sink->out, "%" PRId64, value->integer);
		break;
	case HF_VALUE_REAL:
		format_real(value->real, buf, sizeof(buf));
		fputs(buf, sink->out);
		break;
	case HF_VALUE_TEXT:
		csv_text(sink, value->text, value->len);
		break;
	case HF_VALUE_BLOB:
		put_hex(sink->out, value->text, value->len);
		break;
	}
}

static void json_text(struct hf_row_sink *sink, const char *text, size_t len)
{
	FILE *out = sink->out;

	fputc('"', out);
	for (size_t i = 0; i < len;) {
		uint32_t code;
		size_t n = hf_utf8_decode(text + i, len - i, &code);

		if (!n)
			fputs(replacement, out);
		else if (code == '"' || code == '\\')
			fprintf(out, "\\%c", (int)code);
		else if (code == '\n')
			fputs("\\n", out);
		else if (code == '\t')
			fputs("\\t", out);
		else if (hf_is_control(code))
			fprintf(out, "\\u%04x", code);
		else
			fwrite(text + i, 1, n, out);
		i += n ? n : 1;
	}
	fputc('"', out);
}

static void json_value(struct hf_row_sink *sink, const struct hf_value *value)
{
	char buf[40];

	switch (value->kind) {
	case HF_VALUE_NULL:
		fputs("null", sink->out);
		break;
	case HF_VALUE_INTEGER:
		fprintf(sink->out, "%" PRId64, value->integer);
		break;
	case HF_VALUE_REAL:
		format_real(value->real, buf, sizeof(buf));
		fputs(buf, sink->out);
		break;
	case HF_VALUE_TEXT:
		json_text(sink, value->text, value->len);
		break;
	case HF_VALUE_BLOB:
		fputc('"', sink->out);
		put_hex(sink->out, value->text, value->len);
		fputc('"', sink->out);
		break;
	}
}

/* The text of a cell, ready to be printed. */
static struct hf_error *table_text(const struct hf_row_sink *sink,
				   const struct hf_value *value,
				   enum look look, char **ret)
{
	char buf[48];

	switch (value->kind) {
	case HF_VALUE_NULL:
		strcpy(buf, "-");
		break;
	case HF_VALUE_INTEGER:
		if (look == LOOK_BYTES && !sink->options.exact_bytes)
			hf_format_bytes(value->integer, buf, sizeof(buf));
		else if (look == LOOK_ADDR)
			snprintf(buf, sizeof(buf), "0x%" PRIx64,
				 (uint64_t)value->integer);
		else
			snprintf(buf, sizeof(buf), "%" PRId64, value->integer);
		break;
	case HF_VALUE_REAL:
		snprintf(buf, sizeof(buf), "%.6g", value->real);
		break;
	case HF_VALUE_TEXT:
		return hf_printable(value->text, value->len, ret);
	case HF_VALUE_BLOB: {
		char *hex = malloc(value->len * 2 + 1);

		if (!hex)
			return &hf_enomem;
		for (size_t i = 0; i < value->len; i++) {
			hex[i * 2] = hex_digits[(unsigned char)value->text[i] >>
						4];
			hex[i * 2 + 1] = hex_digits[value->text[i] & 15];
		}
		hex[value->len * 2] = '\0';
		*ret = hex;
		return NULL;
	}
	}
	*ret = strdup(buf);
	return *ret ? NULL : &hf_enomem;
}

static struct hf_error *new_table(struct hf_row_sink *sink)
{
	struct hf_error *err;

	hf_table_destroy(sink->table);
	sink->table = NULL;
	err = hf_table_create(sink->num_columns, sink->tree_column,
			      &sink->table);
	for (size_t i = 0; !err && i < sink->num_columns; i++) {
		HF_AUTO_FREE char *name = NULL;

		err = hf_printable(sink->columns[i].name,
				   strlen(sink->columns[i].name), &name);
		if (!err)
			hf_table_name(sink->table, i, HF_TAKE(name));
	}
	return err;
}

struct hf_error *hf_row_sink_begin(struct hf_row_sink *sink,
				   const char *const *names, size_t num,
				   int tree_column)
{
	clear(sink);
	sink->rows = 0;
	sink->header_done = false;
	sink->tree_column = tree_column;
	sink->columns = calloc(num ? num : 1, sizeof(*sink->columns));
	if (!sink->columns)
		return &hf_enomem;
	for (size_t i = 0; i < num; i++) {
		sink->columns[i].name = strdup(names[i]);
		if (!sink->columns[i].name)
			return &hf_enomem;
		sink->columns[i].look = look_of(names[i]);
		sink->num_columns++;
	}
	switch (sink->options.format) {
	case HF_ROWS_TABLE:
		return new_table(sink);
	case HF_ROWS_CSV:
		for (size_t i = 0; i < num && !sink->options.no_header; i++) {
			if (i)
				fputc(',', sink->out);
			csv_text(sink, names[i], strlen(names[i]));
		}
		if (!sink->options.no_header)
			fputc('\n', sink->out);
		break;
	case HF_ROWS_JSON:
		fputc('[', sink->out);
		break;
	}
	return check_out(sink);
}

static struct hf_error *print_table(struct hf_row_sink *sink)
{
	struct hf_error *err = hf_table_print(
		sink->table, sink->out,
		!sink->options.no_header && !sink->header_done,
		sink->options.terminal ? sink->options.width : 0);

	sink->header_done = true;
	return err ? err : check_out(sink);
}

static struct hf_error *table_row(struct hf_row_sink *sink,
				  const struct hf_value *values, size_t parent)
{
	struct hf_error *err = NULL;

	if (hf_table_num_rows(sink->table) >= HF_TABLE_CHUNK_ROWS &&
	    sink->tree_column < 0) {
		err = print_table(sink);
		if (!err)
			err = new_table(sink);
	}
	if (!err)
		err = hf_table_row(sink->table, parent);
	for (size_t i = 0; !err && i < sink->num_columns; i++) {
		HF_AUTO_FREE char *text = NULL;

		err = table_text(sink, &values[i], sink->columns[i].look,
				 &text);
		if (!err)
			hf_table_cell(sink->table, i, HF_TAKE(text),
				      values[i].kind == HF_VALUE_INTEGER ||
					      values[i].kind == HF_VALUE_REAL);
	}
	return err;
}

struct hf_error *hf_row_sink_tree_row(struct hf_row_sink *sink,
				      const struct hf_value *values,
				      size_t parent)
{
	uint64_t row = sink->rows++;

	switch (sink->options.format) {
	case HF_ROWS_TABLE:
		return table_row(sink, values, parent);
	case HF_ROWS_CSV:
		for (size_t i = 0; i < sink->num_columns; i++) {
			if (i)
				fputc(',', sink->out);
			csv_value(sink, &values[i]);
		}
		fputc('\n', sink->out);
		break;
	case HF_ROWS_JSON:
		fputs(row ? ",\n {" : "\n {", sink->out);
		for (size_t i = 0; i < sink->num_columns; i++) {
			if (i)
				fputs(", ", sink->out);
			json_text(sink, sink->columns[i].name,
				  strlen(sink->columns[i].name));
			fputs(": ", sink->out);
			json_value(sink, &values[i]);
		}
		fputc('}', sink->out);
		break;
	}
	return check_out(sink);
}

struct hf_error *hf_row_sink_row(struct hf_row_sink *sink,
				 const struct hf_value *values)
{
	return hf_row_sink_tree_row(sink, values, HF_NO_ROW);
}

struct hf_error *hf_row_sink_end(struct hf_row_sink *sink)
{
	struct hf_error *err = NULL;

	if (sink->options.format == HF_ROWS_TABLE)
		err = print_table(sink);
	else if (sink->options.format == HF_ROWS_JSON)
		fputs(sink->rows ? "\n]\n" : "]\n", sink->out);
	clear(sink);
	return err ? err : check_out(sink);
}
