/* Arguments that name an object: --id or --addr.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_CLI_OBJECT_ARGS_H
#define HF_QUERY_CLI_OBJECT_ARGS_H

#include "query/cli/file_args.h"

struct hf_object_args {
	struct hf_file_args file; /* first: for hf_file_args_parse */
	uint64_t id, addr;
	bool has_id, has_addr;
};

enum { HF_KEY_ID = HF_KEY_VERB + 100, HF_KEY_ADDR };

/* For the options of a verb. */
#define HF_OBJECT_OPTIONS                                                     \
	{ "id", HF_KEY_ID, "N", 0, "The object with this id", 0 },            \
	{ "addr", HF_KEY_ADDR, "ADDRESS", 0,                                  \
	  "The object that contains this address", 0 }

/** An argp parser: FILE, --id, --addr. Input starts with this struct. */
error_t hf_object_args_parse(int key, char *arg, struct argp_state *state);

/** Id of the object that was named; it need not exist if it was by id. */
struct hf_error *hf_object_args_find(const struct hf_object_args *args,
				     struct hf_db *db, int64_t *id_ret)
	HF_MUST_CHECK;

#endif
