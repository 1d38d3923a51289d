/* heapfork doctor: what is in the way of a snapshot, and what it would cost.
 * SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "fork-agent/reap_left.h"
#include "query/cli/checkup_rows.h"
#include "util/array.h"
#include "util/parse.h"

struct doctor_args {
	struct hf_snapshot_options capture; /* first: its cli is */
	bool reap;
	bool unrecorded;
};

enum { KEY_REAP = HF_KEY_VERB, KEY_UNRECORDED };

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct doctor_args *args = state->input;
	struct hf_error *err = NULL;

	switch (key) {
	case ARGP_KEY_INIT:
		hf_cli_parse_init(state, 2);
		state->child_inputs[2] = &args->capture;
		return 0;
	case 'p':
	case ARGP_KEY_ARG:
		if (args->capture.pid)
			argp_error(state, "one process only");
		err = hf_parse_range(arg, "PID", 1, INT32_MAX,
				     &args->capture.pid);
		break;
	case KEY_UNRECORDED:
		args->unrecorded = true;
		args->reap = true;
		return 0;
	case KEY_REAP:
		args->reap = true;
		return 0;
	case ARGP_KEY_END:
		if (!args->capture.pid)
			argp_error(state, "which process?");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	if (err)
		argp_error(state, "%s", err->message);
	hf_error_destroy(err);
	return 0;
}

static const struct argp_option options[] = {
	{ "pid", 'p', "PID", 0, "The process", 0 },
	{ "reap", KEY_REAP, 0, 0,
	  "Have it reap what snapshots left behind", 0 },
	{ "unrecorded", KEY_UNRECORDED, 0, 0,
	  "... also if no record is left of it", 0 },
	{ 0 },
};

static const struct argp_child children[] = {
	{ &hf_row_options, 0, NULL, 0 },
	{ &hf_message_options, 0, NULL, 0 },
	{ &hf_capture_argp, 0, NULL, 0 },
	{ 0 },
};

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "PID",
	.doc = "Tell everything that could be in the way of a snapshot of a "
	       "process, each with its cause and what to do, and what the "
	       "snapshot would cost it. Nobody is stopped. The exit status is "
	       "what the snapshot would end with.\n"
	       "\n"
	       "    heapfork doctor 4711\n"
	       "    heapfork doctor --prepare --max-pause 2.5 4711\n"
	       "    heapfork doctor --json $(pidof -s nginx)\n"
	       "    heapfork doctor --reap 4711\n",
	.children = children,
};

struct reaped {
	pid_t target, child;
	char *result; /* owned */
};

struct reaped_list {
	HF_ARRAY(struct reaped) rows;
	struct hf_error *err; /* no memory */
};

static void add_reaped(void *arg, pid_t target, pid_t child,
		       const struct hf_error *err)
{
	struct reaped_list *list = arg;
	struct reaped row = {
		target, child, strdup(err ? err->message : "reaped"),
	};
	struct hf_error *add_err =
		row.result ? hf_array_append(&list->rows, row) : &hf_enomem;

	if (!add_err)
		return;
	free(row.result);
	list->err = add_err;
}

static struct hf_error *print_reaped(const struct hf_cli *cli,
				     const struct reaped_list *list)
{
	static const char *const columns[] = { "target", "child", "result" };
	HF_AUTO(hf_row_sink) struct hf_row_sink *sink = NULL;
	struct hf_error *err = list->err;

	/* A table of nothing would say nothing. */
	if (!err && hf_cli_is_table(cli) && !list->rows.num)
		return NULL;
	if (!err)
		err = hf_cli_sink(cli, &sink);
	if (!err)
		err = hf_row_sink_begin(sink, columns, 3, -1);
	for (size_t i = 0; !err && i < list->rows.num; i++) {
		const struct reaped *row = &list->rows.data[i];

		err = hf_row_sink_row(sink, (struct hf_value[]){
			hf_value_i64(row->target), hf_value_i64(row->child),
			hf_value_text(row->result) });
	}
	return err ? err : hf_row_sink_end(sink);
}

static struct hf_error *reap(struct hf_cli *cli,
			     const struct doctor_args *args)
{
	struct hf_reap_left_result result = { 0 };
	struct reaped_list list = { 0 };
	struct hf_error *err, *print_err;

	signal(SIGPIPE, SIG_IGN);
	err = hf_reap_left(&(struct hf_reap_left_options){
				   .pid = (pid_t)args->capture.pid,
				   .unrecorded = args->unrecorded,
				   .tell = add_reaped, .arg = &list },
			   &result);
	hf_cli_note(cli, "records of killed snapshots: %" PRIu32 "; zombies "
		    "reaped: %" PRIu32 ", left: %" PRIu32,
		    result.num_records, result.num_reaped, result.num_left);
	if (result.pause_ns)
		hf_cli_note(cli, "one thread was stopped for %.1f ms",
			    (double)result.pause_ns / 1e6);
	if (result.num_young)
		hf_cli_note(cli, "records kept: %" PRIu32 ", younger than 60 s: "
			    "the killed snapshot's thread may fork yet; call "
			    "this again later", result.num_young);
	print_err = print_reaped(cli, &list);
	for (size_t i = 0; i < list.rows.num; i++)
		free(list.rows.data[i].result);
	hf_array_deinit(&list.rows);
	if (!err)
		return print_err;
	hf_error_ignore(print_err);
	return err;
}

static struct hf_error *run(struct hf_cli *cli, int argc, char **argv)
{
	struct doctor_args args = { .capture.cli = cli };
	struct hf_error *err = hf_cli_parse(&argp, argc, argv, &args);

	if (err)
		return err;
	if (args.reap)
		return reap(cli, &args);
	return hf_checkup_print(&args.capture);
}

const struct hf_verb hf_verb_doctor = {
	.name = "doctor",
	.summary = "what is in the way of a snapshot, and what it would cost",
	.argp = &argp,
	.run = run,
};
