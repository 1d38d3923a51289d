/* Retainer rows: the tree of merged paths, given to a row sink.
 * SPDX-License-Identifier: MIT */
#include "query/cli/retainer_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "query/query.h"

/* Rows of csv and json name their parent by `step`; tables draw the tree. */
static const char *const row_names[] = {
	"step", "parent_step", "depth", "type", "kind",
	"repeat", "count", "bytes",
};
enum { NUM_ROW_NAMES = sizeof(row_names) / sizeof(row_names[0]) };

static const char *const tree_names[] = { "type", "count", "bytes" };

/* A step and its place; children of a step follow it in the order of print. */
struct place {
	uint32_t step;
	uint32_t first_child, next_sibling; /* places + 1, 0: none */
	size_t row;
};

/* Most bytes first; then most objects; then who was there first, so that a
 * parent (which has no less than its child) stays before its children. */
static int compare(const void *a, const void *b, void *arg)
{
	const struct hf_retainer_step *steps = arg;
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;

	if (steps[i].bytes != steps[j].bytes)
		return steps[i].bytes < steps[j].bytes ? 1 : -1;
	if (steps[i].count != steps[j].count)
		return steps[i].count < steps[j].count ? 1 : -1;
	return i < j ? -1 : i > j;
}

struct printer {
	const struct hf_cli *cli;
	const struct hf_retainers *retainers;
	struct hf_query *type, *holder;
	struct hf_row_sink *sink;
	struct place *places; /* those to print, most bytes first */
	uint32_t *place_of;   /* of each step: place + 1, 0: not printed */
	size_t rows;
};

/* Name and kind of a step, owned by the caller. */
static struct hf_error *step_name(struct printer *printer,
				  const struct hf_retainer_step *step,
				  char **name_ret, char **kind_ret)
{
	struct hf_query *query = step->kind == HF_STEP_HOLDER ?
					 printer->holder :
					 printer->type;
	struct hf_error *err = NULL;
	const char *name = "?", *kind = "pseudo";
	bool row = false;

	if (step->kind == HF_STEP_DEEPER) {
		name = "(deeper)";
	} else if (step->kind == HF_STEP_BROKEN) {
		name = "(broken chain)";
	} else {
		hf_query_reset(query);
		err = hf_query_bind_i64(query, 1, step->id);
		if (!err)
			err = hf_query_step(query, &row);
		if (err)
			return err;
		if (row) {
			name = hf_query_text(query, 0);
			kind = hf_query_text(query, 1);
		}
	}
	*name_ret = strdup(name);
	*kind_ret = strdup(kind);
	return *name_ret && *kind_ret ? NULL : &hf_enomem;
}

static struct hf_error *print_step(struct printer *printer, uint32_t place,
				   size_t parent_row)
{
	const struct hf_retainer_step *step =
		&printer->retainers->steps[printer->places[place].step];
	HF_AUTO_FREE char *name = NULL, *kind = NULL, *label = NULL;
	struct hf_error *err = step_name(printer, step, &name, &kind);

	if (err)
		return err;
	printer->places[place].row = printer->rows++;
	if (hf_cli_is_table(printer->cli)) {
		if (step->repeat > 1 &&
		    asprintf(&label, "%s (x %" PRIu32 " deep)", name,
			     step->repeat) < 0) {
			label = NULL;
			return &hf_enomem;
		}
		return hf_row_sink_tree_row(
			printer->sink,
			(struct hf_value[]){
				hf_value_text(label ? label : name),
				hf_value_i64((int64_t)step->count),
				hf_value_i64((int64_t)step->bytes),
			},
			parent_row);
	}
	return hf_row_sink_row(
		printer->sink,
		(struct hf_value[NUM_ROW_NAMES]){
			hf_value_i64((int64_t)printer->places[place].row + 1),
			parent_row == HF_NO_ROW ?
				hf_value_null() :
				hf_value_i64((int64_t)parent_row + 1),
			hf_value_i64(step->depth),
			hf_value_text(name),
			hf_value_text(kind),
			hf_value_i64(step->repeat),
			hf_value_i64((int64_t)step->count),
			hf_value_i64((int64_t)step->bytes),
		});
}

/* Parents before their children, children together. The depth of the tree is
 * bounded (HF_RETAINER_MAX_DEPTH), and so is the stack of this walk. */
static struct hf_error *print_tree(struct printer *printer, uint32_t first)
{
	uint32_t stack[HF_RETAINER_MAX_DEPTH + 2];
	size_t depth = 0;
	struct hf_error *err = NULL;

	stack[0] = first;
	while (!err) {
		uint32_t place = stack[depth];

		if (!place) {
			if (!depth)
				break;
			depth--;
			stack[depth] =
				printer->places[stack[depth] - 1].next_sibling;
			continue;
		}
		err = print_step(
			printer, place - 1,
			depth ? printer->places[stack[depth - 1] - 1].row :
				HF_NO_ROW);
		stack[++depth] = printer->places[place - 1].first_child;
	}
	return err;
}

/* Link the places; from the last, so that the first ends up first. */
static uint32_t link_places(struct printer *printer, uint32_t num)
{
	uint32_t first = 0;

	for (uint32_t i = num; i-- > 0;) {
		struct place *place = &printer->places[i];
		uint32_t parent =
			printer->retainers->steps[place->step].parent;
		uint32_t *head =
			parent == HF_NO_STEP ?
				&first :
				&printer->places[printer->place_of[parent] - 1]
					 .first_child;

		place->next_sibling = *head;
		*head = i + 1;
	}
	return first;
}

static struct hf_error *prepare(struct printer *printer, struct hf_db *db)
{
	struct hf_error *err;

	err = hf_query_prepare(
		db, "SELECT name, kind FROM main.type WHERE id = ?1",
		&printer->type);
	if (!err)
		err = hf_query_prepare(
			db,
			"SELECT t.name, coalesce((SELECT kind FROM main.root"
			" WHERE holder_id = o.id LIMIT 1), t.kind)"
			" FROM main.object o JOIN main.type t"
			" ON t.id = o.type_id WHERE o.id = ?1",
			&printer->holder);
	return err;
}

struct hf_error *hf_cli_retainer_rows(const struct hf_cli *cli,
				      struct hf_db *db,
				      const struct hf_retainers *retainers,
				      struct hf_row_sink *sink)
{
	uint32_t num = retainers->num_steps;
	HF_AUTO_FREE uint32_t *order = calloc(num + 1, sizeof(*order));
	HF_AUTO_FREE uint32_t *place_of = calloc(num + 1, sizeof(*place_of));
	HF_AUTO_FREE struct place *places = NULL;
	struct printer printer = { .cli = cli,
				   .retainers = retainers,
				   .sink = sink,
				   .place_of = place_of };
	struct hf_error *err;
	uint32_t shown = num;

	if (!order || !place_of)
		return &hf_enomem;
	for (uint32_t i = 0; i < num; i++)
		order[i] = i;
	qsort_r(order, num, sizeof(*order), compare, retainers->steps);
	if (cli->limit && cli->limit < num)
		shown = (uint32_t)cli->limit;
	places = calloc(shown + 1, sizeof(*places));
	if (!places)
		return &hf_enomem;
	printer.places = places;
	for (uint32_t i = 0; i < shown; i++) {
		places[i].step = order[i];
		place_of[order[i]] = i + 1;
	}
	err = prepare(&printer, db);
	if (!err)
		err = hf_cli_is_table(cli) ?
			      hf_row_sink_begin(sink, tree_names, 3, 0) :
			      hf_row_sink_begin(sink, row_names, NUM_ROW_NAMES,
						-1);
	if (!err)
		err = print_tree(&printer, link_places(&printer, shown));
	if (!err)
		err = hf_row_sink_end(sink);
	hf_query_destroy(printer.type);
	hf_query_destroy(printer.holder);
	if (!err)
		hf_cli_note_more(cli, num - shown);
	return err;
}
