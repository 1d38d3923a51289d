/* Arguments of a verb that takes a snapshot and nothing else of its own.
 * SPDX-License-Identifier: MIT */
#include "query/cli/file_args.h"

const struct argp_child hf_file_children[] = {
	{ &hf_row_options, 0, NULL, 0 },
	{ &hf_message_options, 0, NULL, 0 },
	{ 0 },
};

error_t hf_file_args_parse(int key, char *arg, struct argp_state *state)
{
	struct hf_file_args *args = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		hf_cli_parse_init(state, HF_NUM_FILE_CHILDREN);
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num)
			argp_error(state, "one snapshot at a time: '%s'?",
				   arg);
		args->file = arg;
		return 0;
	case ARGP_KEY_END:
		if (!args->file)
			argp_error(state, "which snapshot?");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}
