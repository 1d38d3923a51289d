/* heapfork threads: the threads at the instant, and their stacks.
 * SPDX-License-Identifier: MIT */
#include <inttypes.h>

#include "query/cli/file_args.h"
#include "query/cli/thread_text.h"
#include "sql/sql.h"
#include "util/parse.h"

enum { KEY_TID = HF_KEY_VERB, KEY_MERGE, KEY_REGISTERS };

struct threads_args {
	struct hf_file_args file; /* first: for hf_file_args_parse */
	uint64_t tid;
	bool has_tid, merge, registers;
};

static const struct argp_option options[] = {
	{ "tid", KEY_TID, "N", 0, "This thread only", 0 },
	{ "merge", KEY_MERGE, 0, 0,
	  "Threads with the same stack are one; the largest group first", 0 },
	{ "registers", KEY_REGISTERS, 0, 0,
	  "All registers; with csv and json, instead of the stacks", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct threads_args *args = state->input;
	struct hf_error *err;

	switch (key) {
	case KEY_TID:
		err = hf_parse_u64(arg, "--tid", &args->tid);
		if (err)
			argp_error(state, "%s", err->message);
		hf_error_destroy(err);
		if (args->tid > INT32_MAX)
			argp_error(state, "--tid: %s is no thread id", arg);
		args->has_tid = true;
		return 0;
	case KEY_MERGE:
		args->merge = true;
		return 0;
	case KEY_REGISTERS:
		args->registers = true;
		return 0;
	case ARGP_KEY_END:
		if (args->merge && args->registers)
			argp_error(state, "--merge or --registers, not both: "
					  "each thread has its own");
		return hf_file_args_parse(key, arg, state);
	default:
		return hf_file_args_parse(key, arg, state);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "FILE",
	.doc = "Show the threads as they were at the instant: state, the "
	       "system call each was in, registers, and the frames of its "
	       "stack, innermost first.\n"
	       "\n"
	       "    heapfork threads app.heap\n"
	       "    heapfork threads app.heap --merge --limit 0\n"
	       "    heapfork threads app.heap --tid 4711 --registers\n"
	       "\v"
	       "A frame marked `inferred` was found by following a frame "
	       "pointer, which the code may have used for something else. "
	       "--limit counts threads, or groups of them.",
	.children = hf_file_children,
};

/* Threads, or with tid how many have this id. */
static struct hf_error *count_threads(struct hf_db *db, int64_t tid,
				      uint64_t *ret)
{
	HF_AUTO(hf_query) struct hf_query *query = NULL;
	struct hf_error *err;
	bool row;

	err = hf_query_prepare(db, "SELECT count(*) FROM main.thread"
				   " WHERE ?1 < 0 OR tid = ?1", &query);
	if (!err)
		err = hf_query_bind_i64(query, 1, tid);
	if (!err)
		err = hf_query_step(query, &row);
	if (!err)
		*ret = (uint64_t)hf_query_i64(query, 0);
	return err;
}

/* What --limit left out: groups are only counted when it matters. */
static struct hf_error *note_rest(const struct hf_cli *cli, struct hf_db *db,
				  struct hf_thread_text_args args,
				  uint64_t num_threads)
{
	uint64_t num = num_threads;
	struct hf_error *err = NULL;

	if (args.limit < 0)
		return NULL;
	if (args.merge) {
		HF_AUTO(hf_query) struct hf_query *query = NULL;
		int64_t last = 0;
		bool row = true;

		args.limit = -1;
		err = hf_thread_query(db, "thread_groups", &args, &query);
		for (num = 0; !err && row;) {
			err = hf_query_step(query, &row);
			if (err || !row || hf_query_i64(query, 0) == last)
				continue;
			last = hf_query_i64(query, 0);
			num++;
		}
	}
	if (!err && num > cli->limit)
		hf_cli_note_more(cli, num - cli->limit);
	return err;
}

static struct hf_error *print(const struct hf_cli *cli, struct hf_db *db,
			      const struct hf_thread_text_args *args)
{
	HF_AUTO(hf_query) struct hf_query *query = NULL;
	HF_AUTO(hf_row_sink) struct hf_row_sink *sink = NULL;
	struct hf_error *err;
	uint64_t num;

	if (hf_cli_is_table(cli))
		return hf_thread_text_print(db, args, &num);
	err = hf_thread_query(db, args->registers ? "thread_registers" :
				  args->merge	  ? "thread_groups" :
						    "thread_stacks",
			      args, &query);
	if (!err)
		err = hf_cli_sink(cli, &sink);
	return err ? err : hf_query_rows(query, sink, 0, NULL);
}

static struct hf_error *run(struct hf_cli *cli, int argc, char **argv)
{
	struct threads_args args = { .file.cli = cli };
	struct hf_thread_text_args text;
	HF_AUTO(hf_db) struct hf_db *db = NULL;
	struct hf_error *err;
	uint64_t num = 0;

	err = hf_cli_parse(&argp, argc, argv, &args);
	if (err)
		return err;
	text = (struct hf_thread_text_args){
		.tid = args.has_tid ? (int64_t)args.tid : -1,
		.limit = cli->limit && cli->limit <= INT64_MAX
				 ? (int64_t)cli->limit : -1,
		.merge = args.merge,
		.registers = args.registers,
	};
	err = hf_cli_open(cli, args.file.file, &db);
	if (!err)
		err = count_threads(db, text.tid, &num);
	if (!err && !num)
		err = args.has_tid ?
			      hf_error_fix(hf_error_create(
						   HF_ERROR_NOT_FOUND,
						   "there was no thread "
						   "%" PRIu64, args.tid),
					   "heapfork threads FILE lists "
					   "them") :
			      hf_error_create(HF_ERROR_NOT_FOUND,
					      "the snapshot has no threads");
	if (!err)
		err = print(cli, db, &text);
	return err ? err : note_rest(cli, db, text, num);
}

const struct hf_verb hf_verb_threads = {
	.name = "threads",
	.summary = "the threads and their stacks",
	.argp = &argp,
	.run = run,
};
