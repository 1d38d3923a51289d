/* Options that verbs share.
 * SPDX-License-Identifier: MIT */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "query/cli/cli.h"
#include "util/parse.h"

enum {
	KEY_FORMAT = HF_KEY_FIRST,
	KEY_CSV,
	KEY_JSON,
	KEY_LIMIT,
	KEY_BYTES,
	KEY_NO_HEADER,
};

static const struct argp_option row_options[] = {
	{ 0, 0, 0, 0, "Output:", 1 },
	{ "format", KEY_FORMAT, "FORMAT", 0, "table (default), csv or json",
	  1 },
	{ "csv", KEY_CSV, 0, 0, "The same as --format csv", 1 },
	{ "json", KEY_JSON, 0, 0, "The same as --format json", 1 },
	{ "limit", KEY_LIMIT, "N", 0, "Print N rows at most, 0: all", 1 },
	{ "bytes", KEY_BYTES, 0, 0, "Exact sizes in tables, not KiB or MiB",
	  1 },
	{ "no-header", KEY_NO_HEADER, 0, 0, "Leave out the names of columns",
	  1 },
	{ 0 },
};

static bool parse_format(const char *text, enum hf_row_format *ret)
{
	if (!strcmp(text, "table"))
		*ret = HF_ROWS_TABLE;
	else if (!strcmp(text, "csv"))
		*ret = HF_ROWS_CSV;
	else if (!strcmp(text, "json"))
		*ret = HF_ROWS_JSON;
	else
		return false;
	return true;
}

static error_t parse_row_option(int key, char *arg, struct argp_state *state)
{
	struct hf_cli *cli = state->input;
	struct hf_error *err;

	switch (key) {
	case KEY_FORMAT:
		if (!parse_format(arg, &cli->rows.format))
			argp_error(state,
				   "unknown format '%s': table, csv or json",
				   arg);
		return 0;
	case KEY_CSV:
		cli->rows.format = HF_ROWS_CSV;
		return 0;
	case KEY_JSON:
		cli->rows.format = HF_ROWS_JSON;
		return 0;
	case KEY_LIMIT:
		err = hf_parse_u64(arg, "--limit", &cli->limit);
		if (err)
			argp_error(state, "%s", err->message);
		hf_error_destroy(err);
		cli->limit_given = true;
		return 0;
	case KEY_BYTES:
		cli->rows.exact_bytes = true;
		return 0;
	case KEY_NO_HEADER:
		cli->rows.no_header = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp hf_row_options = {
	.options = row_options,
	.parser = parse_row_option,
};

static const struct argp_option message_options[] = {
	{ 0, 0, 0, 0, "Messages:", 2 },
	{ "quiet", 'q', 0, 0, "No notes on standard error, only errors", 2 },
	{ "verbose", 'v', 0, 0, "More of them", 2 },
	{ 0 },
};

static error_t parse_message_option(int key, char *arg,
				    struct argp_state *state)
{
	struct hf_cli *cli = state->input;

	(void)arg;
	switch (key) {
	case 'q':
		cli->quiet = true;
		return 0;
	case 'v':
		cli->verbose++;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp hf_message_options = {
	.options = message_options,
	.parser = parse_message_option,
};

enum { KEY_HELP = 'h' };

static const struct argp_option help_options[] = {
	{ 0, KEY_HELP, 0, 0, "The options only; --help explains more", -1 },
	{ 0 },
};

static error_t parse_help_option(int key, char *arg, struct argp_state *state)
{
	(void)arg;
	if (key != KEY_HELP)
		return ARGP_ERR_UNKNOWN;
	argp_state_help(state, stdout,
			ARGP_HELP_SHORT_USAGE | ARGP_HELP_LONG |
				ARGP_HELP_EXIT_OK);
	return 0;
}

static const struct argp help_argp = {
	.options = help_options,
	.parser = parse_help_option,
};

void hf_cli_argp_init(struct hf_cli_argp *full, const struct argp *argp)
{
	size_t num = 0, room = sizeof(full->children) /
			       sizeof(full->children[0]);

	*full = (struct hf_cli_argp){ .argp = *argp };
	while (argp->children && argp->children[num].argp) {
		full->children[num] = argp->children[num];
		num++;
		assert(num < room - 1);
	}
	full->children[num].argp = &help_argp;
	full->argp.children = full->children;
}

void hf_cli_parse_init(struct argp_state *state, size_t num_children)
{
	for (size_t i = 0; i < num_children; i++)
		state->child_inputs[i] = *(struct hf_cli **)state->input;
}

static struct hf_error *parse_args(const struct argp *argp, int argc,
				   char **argv, unsigned int flags,
				   void *input)
{
	struct hf_cli_argp full;
	error_t rc;

	hf_cli_argp_init(&full, argp);
	rc = argp_parse(&full.argp, argc, argv, flags, NULL, input);
	return rc ? hf_error_os(rc, "cannot read the command line") : NULL;
}

struct hf_error *hf_cli_parse(const struct argp *argp, int argc, char **argv,
			      void *input)
{
	return parse_args(argp, argc, argv, 0, input);
}

struct hf_error *hf_cli_parse_in_order(const struct argp *argp, int argc,
				       char **argv, void *input)
{
	return parse_args(argp, argc, argv, ARGP_IN_ORDER, input);
}
