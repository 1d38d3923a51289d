/* heapfork doctor: what is in the way of a snapshot, and what it would cost.
 * SPDX-License-Identifier: MIT */
#include "query/cli/checkup_rows.h"
#include "util/parse.h"

struct doctor_args {
	struct hf_cli *cli;
	uint64_t pid; /* 0: not given */
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct doctor_args *args = state->input;
	struct hf_error *err = NULL;

	switch (key) {
	case ARGP_KEY_INIT:
		hf_cli_parse_init(state, 2);
		return 0;
	case 'p':
	case ARGP_KEY_ARG:
		if (args->pid)
			argp_error(state, "one process only");
		err = hf_parse_range(arg, "PID", 1, INT32_MAX, &args->pid);
		break;
	case ARGP_KEY_END:
		if (!args->pid)
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
	{ 0 },
};

static const struct argp_child children[] = {
	{ &hf_row_options, 0, NULL, 0 },
	{ &hf_message_options, 0, NULL, 0 },
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
	       "    heapfork doctor --json $(pidof -s nginx)\n",
	.children = children,
};

static struct hf_error *run(struct hf_cli *cli, int argc, char **argv)
{
	struct doctor_args args = { .cli = cli };
	struct hf_error *err = hf_cli_parse(&argp, argc, argv, &args);

	if (err)
		return err;
	return hf_checkup_print(cli, &(struct hf_doctor_options){
					     .pid = (pid_t)args.pid });
}

const struct hf_verb hf_verb_doctor = {
	.name = "doctor",
	.summary = "what is in the way of a snapshot, and what it would cost",
	.argp = &argp,
	.run = run,
};
