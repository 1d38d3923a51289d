/* heapfork: find the verb, run it, turn its error into an exit code.
 * SPDX-License-Identifier: MIT */
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "query/cli/cli.h"

enum { KEY_VERSION = 'V', KEY_HELP = HF_KEY_VERB };

struct global_args {
	struct hf_cli *cli;
	int verb_index; /* in argv, 0: none */
	bool version, help, short_help;
};

static const struct argp_option options[] = {
	{ "version", KEY_VERSION, 0, 0, "The same as heapfork version", -1 },
	{ 0, 'h', 0, 0, "The verbs and options in short", -1 },
	{ "help", KEY_HELP, 0, 0, "The same as heapfork help", -1 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct global_args *args = state->input;

	(void)arg;
	switch (key) {
	case ARGP_KEY_INIT:
		hf_cli_parse_init(state, 1);
		return 0;
	case KEY_VERSION:
		args->version = true;
		return 0;
	case 'h':
		args->short_help = true;
		return 0;
	case KEY_HELP:
		args->help = true;
		return 0;
	case ARGP_KEY_ARG:
		/* The rest is for the verb. */
		args->verb_index = state->next - 1;
		state->next = state->argc;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = {
	{ &hf_message_options, 0, NULL, 0 },
	{ 0 },
};

static const struct argp global_argp = {
	.options = options,
	.parser = parse,
	.args_doc = "VERB [ARGUMENTS]",
	.children = children,
};

static struct hf_error *unknown_verb(const char *name)
{
	const struct hf_verb *guess = hf_verb_suggest(name);
	struct hf_error *err =
		hf_error_create(HF_ERROR_USAGE, "unknown verb '%s'", name);

	if (guess)
		return hf_error_fix(err, "did you mean 'heapfork %s'?",
				    guess->name);
	return hf_error_fix(err, "heapfork help lists the verbs");
}

static struct hf_error *run_verb(struct hf_cli *cli, const struct hf_verb *verb,
				 int argc, char **argv)
{
	HF_AUTO_FREE char *name = NULL;

	/* argp and getopt name the program in their messages. */
	if (asprintf(&name, "heapfork %s", verb->name) < 0) {
		name = NULL;
		return &hf_enomem;
	}
	argv[0] = name;
	return verb->run(cli, argc, argv);
}

static struct hf_error *dispatch(struct hf_cli *cli, int argc, char **argv)
{
	struct global_args args = { .cli = cli };
	const struct hf_verb *verb;
	error_t rc;

	/* Long options of getopt may be shortened; --help is ours here, and
	 * the verb's own after it. */
	rc = argp_parse(&global_argp, argc, argv,
			ARGP_IN_ORDER | ARGP_NO_HELP, NULL, &args);
	if (rc)
		return hf_error_os(rc, "cannot read the command line");
	if (args.short_help) {
		hf_cli_short_help();
		return NULL;
	}
	if (args.help)
		verb = &hf_verb_help;
	else if (args.version)
		verb = &hf_verb_version;
	else if (args.verb_index)
		verb = hf_verb_find(argv[args.verb_index]);
	else
		return hf_error_fix(hf_error_create(HF_ERROR_USAGE,
						    "no verb given"),
				    "heapfork help lists the verbs");
	if (!verb)
		return unknown_verb(argv[args.verb_index]);
	if (!args.verb_index || args.help || args.version)
		return run_verb(cli, verb, 1, (char *[]){ argv[0], NULL });
	return run_verb(cli, verb, argc - args.verb_index,
			argv + args.verb_index);
}

/* What is still in stdio's buffer can fail too, when a disk is full. */
static struct hf_error *close_stdout(void)
{
	bool failed = ferror(stdout);

	errno = 0;
	if (fclose(stdout) || failed)
		return hf_error_os(errno ? errno : EIO,
				   "cannot write to standard output");
	return NULL;
}

int main(int argc, char **argv)
{
	struct hf_cli cli = { .limit = 20 };
	struct hf_error *err, *close_err;
	int exit_code;

	/* Character tables only: numbers are written as in the C locale. */
	setlocale(LC_CTYPE, "");
	argp_err_exit_status = HF_EXIT_USAGE;
	/* A closed pipe ends a query silently, however we were started. The
	 * snapshot verb changes this while it holds a process. */
	cli.ignore_sigpipe = signal(SIGPIPE, SIG_DFL) == SIG_IGN;
	cli.cancelled = hf_signals_catch();

	err = dispatch(&cli, argc, argv);
	close_err = close_stdout();
	if (!err)
		err = close_err;
	else
		hf_error_ignore(close_err);
	if (!err)
		return cli.exit_code;
	if (err->os_error == EPIPE) {
		hf_error_destroy(err);
		return HF_EXIT_SIGNAL + SIGPIPE;
	}
	exit_code = hf_exit_code(err, *cli.cancelled);
	hf_cli_report(err);
	return exit_code;
}
