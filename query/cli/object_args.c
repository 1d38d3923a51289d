/* Arguments that name an object: --id or --addr.
 * SPDX-License-Identifier: MIT */
#include "query/cli/object_args.h"

#include "query/path.h"
#include "util/parse.h"

error_t hf_object_args_parse(int key, char *arg, struct argp_state *state)
{
	struct hf_object_args *args = state->input;
	struct hf_error *err;

	switch (key) {
	case HF_KEY_ID:
		err = hf_parse_range(arg, "--id", 0, INT64_MAX, &args->id);
		args->has_id = true;
		break;
	case HF_KEY_ADDR:
		err = hf_parse_range(arg, "--addr", 0, INT64_MAX, &args->addr);
		args->has_addr = true;
		break;
	default:
		return hf_file_args_parse(key, arg, state);
	}
	if (err)
		argp_error(state, "%s", err->message);
	hf_error_destroy(err);
	return 0;
}

struct hf_error *hf_object_args_find(const struct hf_object_args *args,
				     struct hf_db *db, int64_t *id_ret)
{
	if (args->has_addr)
		return hf_object_at(db, args->addr, id_ret);
	*id_ret = (int64_t)args->id;
	return NULL;
}
