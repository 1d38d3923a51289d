/* heapfork help: the list of verbs, or the short help of one.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "query/cli/cli.h"

struct help_args {
	struct hf_cli *cli;
	const char *verb; /* NULL: all */
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct help_args *args = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		hf_cli_parse_init(state, 0);
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num)
			argp_error(state, "one verb at most");
		args->verb = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.parser = parse,
	.args_doc = "[VERB]",
	.doc = "List the verbs, or explain one of them.",
};

static const char intro[] =
	"usage: heapfork VERB [ARGUMENTS]\n"
	"\n"
	"What is in a program's heap, and who keeps it there? Stops a running\n"
	"process for milliseconds, forks it, and turns the frozen copy into a\n"
	"file that answers questions.\n"
	"\n"
	"    heapfork snapshot -p 4711 -o app.heap\n"
	"    heapfork census app.heap\n"
	"    heapfork retainers app.heap --type Session\n"
	"    heapfork sql app.heap 'SELECT * FROM census LIMIT 5'\n"
	"\n"
	"Verbs:\n";

static void print_verbs(void)
{
	for (size_t i = 0; hf_verbs[i]; i++)
		printf("  %-10s %s\n", hf_verbs[i]->name,
		       hf_verbs[i]->summary);
}

void hf_cli_short_help(void)
{
	fputs("usage: heapfork VERB [ARGUMENTS]\n\n", stdout);
	print_verbs();
	fputs("\n"
	      "  -h             this; after a verb, its options\n"
	      "  --help         the same as heapfork help; after a verb, all "
	      "about it\n"
	      "  -V, --version  the same as heapfork version\n"
	      "  -q, --quiet    no notes on standard error, only errors\n"
	      "  -v, --verbose  more of them\n",
	      stdout);
}

static struct hf_error *list(void)
{
	fputs(intro, stdout);
	print_verbs();
	fputs("\n'heapfork help VERB' explains a verb, 'man heapfork' all of "
	      "it.\n",
	      stdout);
	return NULL;
}

static struct hf_error *run(struct hf_cli *cli, int argc, char **argv)
{
	struct help_args args = { .cli = cli };
	const struct hf_verb *verb;
	HF_AUTO_FREE char *name = NULL;
	struct hf_cli_argp full;
	struct hf_error *err = hf_cli_parse(&argp, argc, argv, &args);

	if (err)
		return err;
	if (!args.verb)
		return list();
	verb = hf_verb_find(args.verb);
	if (!verb) {
		const struct hf_verb *guess = hf_verb_suggest(args.verb);

		err = hf_error_create(HF_ERROR_USAGE, "unknown verb '%s'",
				      args.verb);
		return guess ? hf_error_fix(err, "did you mean '%s'?",
					    guess->name) :
			       hf_error_fix(err,
					    "heapfork help lists the verbs");
	}
	if (asprintf(&name, "heapfork %s", verb->name) < 0) {
		name = NULL;
		return &hf_enomem;
	}
	hf_cli_argp_init(&full, verb->argp);
	argp_help(&full.argp, stdout, ARGP_HELP_STD_HELP & ~ARGP_HELP_EXIT_OK,
		  name);
	return NULL;
}

const struct hf_verb hf_verb_help = {
	.name = "help",
	.summary = "list the verbs, or explain one",
	.argp = &argp,
	.run = run,
};
