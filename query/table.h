/* Table: cells of text, laid out by libsmartcols.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_TABLE_H
#define HF_QUERY_TABLE_H

#include <stdio.h>

#include "util/error.h"

struct hf_table;

/** @param tree_column column that draws the tree, or -1. */
struct hf_error *hf_table_create(size_t num_columns, int tree_column,
				 struct hf_table **ret) HF_MUST_CHECK;
void hf_table_destroy(struct hf_table *table);

/** Name of a column; takes the text (fit for printing). */
void hf_table_name(struct hf_table *table, size_t column, char *name_take);

/** Begin a row, under an earlier row or SIZE_MAX. */
struct hf_error *hf_table_row(struct hf_table *table, size_t parent)
	HF_MUST_CHECK;

/** Set a cell of the last row; takes the text (fit for printing). A column in
 * which no cell is a text but all are numbers is aligned to the right. */
void hf_table_cell(struct hf_table *table, size_t column, char *text_take,
		   bool is_number);

size_t hf_table_num_rows(const struct hf_table *table);

/** Print it, once: the cells are used up. With a width, the widest columns of text are shortened in the
 * middle until the table fits (0: no limit). */
struct hf_error *hf_table_print(struct hf_table *table, FILE *out, bool header,
				unsigned width) HF_MUST_CHECK;

HF_DEFINE_AUTO(struct hf_table *, hf_table, hf_table_destroy)

#endif
