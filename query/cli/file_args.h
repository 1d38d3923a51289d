/* Arguments of a verb that takes a snapshot and nothing else of its own.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_CLI_FILE_ARGS_H
#define HF_QUERY_CLI_FILE_ARGS_H

#include "query/cli/cli.h"

struct hf_file_args {
	struct hf_cli *cli;
	const char *file;
};

/** Children with the options for rows and messages. */
extern const struct argp_child hf_file_children[];
enum { HF_NUM_FILE_CHILDREN = 2 };

/**
 * An argp parser: one FILE. Verbs with options of their own call it from
 * theirs; their input starts with a struct hf_file_args.
 */
error_t hf_file_args_parse(int key, char *arg, struct argp_state *state);

#endif
