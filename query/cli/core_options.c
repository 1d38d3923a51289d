/* Core options: how a core is written.
 * SPDX-License-Identifier: MIT */
#include "query/cli/core_options.h"

#include <string.h>

#include "coredump/core/core_format.h"
#include "query/cli/cli.h"
#include "util/parse.h"

enum {
	GROUP_CORE = 4,
	KEY_CORE = HF_KEY_VERB + 200,
	KEY_CORE_FILTER,
	KEY_WITH_DONTDUMP,
	KEY_COMPRESS,
	KEY_MAX_SIZE,
	KEY_KEEP_FREE,
	DEFAULT_LEVEL = 1, /* a disk is seldom faster than it */
	MAX_LEVEL = 19,
};

static const struct argp_option options[] = {
	{ 0, 0, 0, 0, "Core:", GROUP_CORE },
	{ "core", KEY_CORE, "FILE", 0,
	  "Write an ELF core of the same instant, too (or alone, without -o)",
	  GROUP_CORE },
	{ "core-filter", KEY_CORE_FILTER, "MASK", 0,
	  "Which memory, as in core(5) (default 0x33)", GROUP_CORE },
	{ "with-dontdump", KEY_WITH_DONTDUMP, 0, 0,
	  "Also memory that the program wants to be in no core", GROUP_CORE },
	{ "compress", KEY_COMPRESS, "zstd[:LEVEL]", 0,
	  "Compress the core (level 1 to 19, default 1)", GROUP_CORE },
	{ "max-size", KEY_MAX_SIZE, "SIZE", 0,
	  "No core larger than this: exit 6 instead", GROUP_CORE },
	{ "keep-free", KEY_KEEP_FREE, "SIZE", 0,
	  "Leave so much free on the core's file system (default 64M)",
	  GROUP_CORE },
	{ 0 },
};

void hf_core_options_init(struct hf_core_options *ret)
{
	*ret = (struct hf_core_options){
		.filter = HF_CORE_FILTER_DEFAULT,
		.keep_free_bytes = 64 * 1024 * 1024,
	};
}

static struct hf_error *parse_compress(const char *arg, int *level)
{
	static const char name[] = "zstd";
	size_t len = sizeof(name) - 1;
	uint64_t number = DEFAULT_LEVEL;
	struct hf_error *err = NULL;

	if (strncmp(arg, name, len) || (arg[len] && arg[len] != ':'))
		return hf_error_create(HF_ERROR_USAGE, "--compress: '%s' is "
				       "not known, only zstd[:LEVEL] is", arg);
	if (arg[len] == ':')
		err = hf_parse_range(arg + len + 1, "--compress", 1, MAX_LEVEL,
				     &number);
	*level = (int)number;
	return err;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct hf_core_options *core = state->input;
	struct hf_error *err = NULL;
	uint64_t number = 0;

	switch (key) {
	case KEY_CORE:
		core->path = arg;
		return 0;
	case KEY_CORE_FILTER:
		err = hf_parse_range(arg, "--core-filter", 0, 0x1ff, &number);
		core->filter = (uint32_t)number;
		break;
	case KEY_WITH_DONTDUMP:
		core->with_dontdump = true;
		return 0;
	case KEY_COMPRESS:
		err = parse_compress(arg, &core->zstd_level);
		break;
	case KEY_MAX_SIZE:
		err = hf_parse_size(arg, "--max-size", &core->max_bytes);
		break;
	case KEY_KEEP_FREE:
		err = hf_parse_size(arg, "--keep-free",
				    &core->keep_free_bytes);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	if (err)
		argp_error(state, "%s", err->message);
	hf_error_destroy(err);
	return 0;
}

const struct argp hf_core_argp = {
	.options = options,
	.parser = parse,
};
