/* Table: cells of text, laid out by libsmartcols.
 * SPDX-License-Identifier: MIT */
#include "query/table.h"

#include <libsmartcols.h>
#include <string.h>

#include "query/printable.h"
#include "util/array.h"

/* The shortest a column of text is made, and what one level of a tree is
 * drawn with ("|-"). */
enum { MIN_TEXT_COLUMNS = 12, TREE_STEP_COLUMNS = 2 };

struct row {
	char **cells;  /* num_columns texts, owned */
	size_t parent; /* row, or SIZE_MAX */
	size_t depth;  /* in the tree, 0 at the top */
};

struct column {
	char *name;
	bool has_number, has_text;
	size_t width; /* of the widest cell, while printing */
};

struct hf_table {
	size_t num_columns;
	int tree_column;
	struct column *columns;
	HF_ARRAY(struct row) rows;
};

struct hf_error *hf_table_create(size_t num_columns, int tree_column,
				 struct hf_table **ret)
{
	struct hf_table *table = calloc(1, sizeof(*table));

	if (!table)
		return &hf_enomem;
	table->tree_column = tree_column;
	table->columns = calloc(num_columns ? num_columns : 1,
				sizeof(*table->columns));
	if (!table->columns) {
		free(table);
		return &hf_enomem;
	}
	table->num_columns = num_columns;
	*ret = table;
	return NULL;
}

void hf_table_destroy(struct hf_table *table)
{
	if (!table)
		return;
	for (size_t r = 0; r < table->rows.num; r++) {
		for (size_t c = 0; c < table->num_columns; c++)
			free(table->rows.data[r].cells[c]);
		free(table->rows.data[r].cells);
	}
	hf_array_deinit(&table->rows);
	for (size_t c = 0; c < table->num_columns; c++)
		free(table->columns[c].name);
	free(table->columns);
	free(table);
}

void hf_table_name(struct hf_table *table, size_t column, char *name_take)
{
	table->columns[column].name = name_take;
}

struct hf_error *hf_table_row(struct hf_table *table, size_t parent)
{
	struct row row = { .parent = parent };
	struct hf_error *err;

	if (parent < table->rows.num)
		row.depth = table->rows.data[parent].depth + 1;
	else
		row.parent = SIZE_MAX;
	row.cells = calloc(table->num_columns ? table->num_columns : 1,
			   sizeof(*row.cells));
	if (!row.cells)
		return &hf_enomem;
	err = hf_array_append(&table->rows, row);
	if (err)
		free(row.cells);
	return err;
}

void hf_table_cell(struct hf_table *table, size_t column, char *text_take,
		   bool is_number)
{
	char **cell = &table->rows.data[table->rows.num - 1].cells[column];

	free(*cell);
	*cell = text_take;
	if (is_number)
		table->columns[column].has_number = true;
	else if (strcmp(text_take, "-"))
		table->columns[column].has_text = true;
}

size_t hf_table_num_rows(const struct hf_table *table)
{
	return table->rows.num;
}

static size_t tree_columns(const struct hf_table *table, size_t row, size_t c)
{
	if ((int)c != table->tree_column)
		return 0;
	return table->rows.data[row].depth * TREE_STEP_COLUMNS;
}

static void measure(struct hf_table *table, bool header)
{
	for (size_t c = 0; c < table->num_columns; c++) {
		struct column *column = &table->columns[c];

		column->width = header ? hf_text_columns(column->name) : 0;
		for (size_t r = 0; r < table->rows.num; r++) {
			const char *cell = table->rows.data[r].cells[c];
			size_t width = tree_columns(table, r, c) +
				       (cell ? hf_text_columns(cell) : 0);

			if (width > column->width)
				column->width = width;
		}
	}
}

/* Take from the widest column of text until the whole fits. */
static void fit(struct hf_table *table, unsigned width)
{
	size_t total = table->num_columns - 1; /* one blank between two */

	for (size_t c = 0; c < table->num_columns; c++)
		total += table->columns[c].width;
	while (total > width) {
		struct column *widest = NULL, *next = NULL;
		size_t take, over = total - width;

		for (size_t c = 0; c < table->num_columns; c++) {
			struct column *column = &table->columns[c];

			if (!column->has_text ||
			    column->width <= MIN_TEXT_COLUMNS)
				continue;
			if (!widest || column->width > widest->width) {
				next = widest;
				widest = column;
			} else if (!next || column->width > next->width) {
				next = column;
			}
		}
		if (!widest)
			break; /* it must be wider than the terminal */
		take = widest->width - MIN_TEXT_COLUMNS;
		if (next && next->width < widest->width &&
		    widest->width - next->width < take)
			take = widest->width - next->width;
		else if (next && next->width == widest->width)
			take = 1;
		if (take > over)
			take = over;
		widest->width -= take;
		total -= take;
	}
	for (size_t c = 0; c < table->num_columns; c++)
		for (size_t r = 0; r < table->rows.num; r++) {
			size_t indent = tree_columns(table, r, c);
			size_t room = table->columns[c].width;

			if (table->rows.data[r].cells[c])
				hf_truncate_middle(
					table->rows.data[r].cells[c],
					room > indent + MIN_TEXT_COLUMNS ?
						room - indent :
						MIN_TEXT_COLUMNS);
		}
}

static void auto_table(struct libscols_table **table)
{
	scols_unref_table(*table);
}

struct hf_error *hf_table_print(struct hf_table *table, FILE *out, bool header,
				unsigned width)
{
	__attribute__((cleanup(auto_table))) struct libscols_table *scols =
		scols_new_table();
	HF_AUTO_FREE struct libscols_line **lines =
		calloc(table->rows.num + 1, sizeof(*lines));

	if (!scols || !lines)
		return &hf_enomem;
	if (width && table->num_columns) {
		measure(table, header);
		fit(table, width);
	}
	scols_table_set_stream(scols, out);
	scols_table_enable_noheadings(scols, !header);
	/* Cells are fit for printing already (query/printable.h). */
	scols_table_enable_noencoding(scols, 1);
	/* The width is our business: never cut, never wrap. */
	scols_table_set_termforce(scols, SCOLS_TERMFORCE_NEVER);
	for (size_t c = 0; c < table->num_columns; c++) {
		const struct column *column = &table->columns[c];
		int flags = 0;

		if (column->has_number && !column->has_text)
			flags |= SCOLS_FL_RIGHT;
		if ((int)c == table->tree_column)
			flags |= SCOLS_FL_TREE;
		if (!scols_table_new_column(scols, column->name, 0, flags))
			return &hf_enomem;
	}
	for (size_t r = 0; r < table->rows.num; r++) {
		struct row *row = &table->rows.data[r];

		lines[r] = scols_table_new_line(
			scols,
			row->parent == SIZE_MAX ? NULL : lines[row->parent]);
		if (!lines[r])
			return &hf_enomem;
		for (size_t c = 0; c < table->num_columns; c++)
			if (row->cells[c]) {
				if (scols_line_refer_data(lines[r], c,
							  row->cells[c]))
					return &hf_enomem;
				row->cells[c] = NULL; /* theirs now */
			}
	}
	/* An empty table prints nothing by itself, not even its heading. */
	if (!table->rows.num) {
		for (size_t c = 0; c < table->num_columns && header; c++)
			fprintf(out, "%s%s", c ? " " : "",
				table->columns[c].name);
		if (header)
			fputc('\n', out);
		return NULL;
	}
	if (scols_print_table(scols))
		return hf_error_os(errno ? errno : EIO, "cannot print a table");
	return NULL;
}
