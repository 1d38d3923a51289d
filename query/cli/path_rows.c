/* Path rows: the steps of a path, given to a row sink.
 * SPDX-License-Identifier: MIT */
#include "query/cli/path_rows.h"

#include <inttypes.h>

/* The first word of a step is its number from the object, as in the view
 * path_to_root: step 0 is the object. `slot` is the offset of the word in this
 * object that points to the next row. */
static const char *const names[] = {
	"step",	      "id",	    "type", "kind", "addr", "size_bytes",
	"retained_bytes", "slot", "interior", "conservative",
};
enum { NUM_NAMES = sizeof(names) / sizeof(names[0]) };

static struct hf_error *print_step(struct hf_path_reader *reader,
				   const struct hf_path *path, size_t i,
				   struct hf_row_sink *sink)
{
	struct hf_path_step step;
	struct hf_error *err = hf_path_read(reader, path, i, &step);
	struct hf_value null = hf_value_null();

	if (err)
		return err;
	err = hf_row_sink_row(
		sink,
		(struct hf_value[NUM_NAMES]){
			hf_value_i64((int64_t)(path->num - 1 - i)),
			hf_value_i64(step.id),
			hf_value_text(step.type),
			hf_value_text(step.type_kind),
			step.has_addr ? hf_value_i64(step.addr) : null,
			hf_value_i64(step.size_bytes),
			hf_value_i64(step.retained_bytes),
			step.has_ref ? hf_value_i64(step.slot) : null,
			step.has_ref ? hf_value_i64(step.interior) : null,
			step.has_ref ? hf_value_i64(step.conservative) : null,
		});
	hf_path_step_deinit(&step);
	return err;
}

struct hf_error *hf_cli_path_rows(const struct hf_cli *cli, struct hf_db *db,
				  const struct hf_path *path,
				  struct hf_row_sink *sink)
{
	HF_AUTO(hf_path_reader) struct hf_path_reader *reader = NULL;
	size_t head = path->num, tail = path->num;
	struct hf_error *err;

	if (cli->limit && path->num > cli->limit) {
		/* The end is what was asked for; a limit of 1 is it. */
		head = (size_t)cli->limit / 2;
		tail = path->num - ((size_t)cli->limit - head);
	}
	err = hf_path_reader_create(db, &reader);
	if (!err)
		err = hf_row_sink_begin(sink, names, NUM_NAMES, -1);
	for (size_t i = 0; !err && i < path->num; i++)
		if (i < head || i >= tail)
			err = print_step(reader, path, i, sink);
	if (!err)
		err = hf_row_sink_end(sink);
	if (!err && tail > head)
		hf_cli_note(cli,
			    "... %zu steps between step %zu and step %zu, "
			    "--limit 0 shows all",
			    tail - head, path->num - head,
			    path->num - 1 - tail);
	return err;
}
