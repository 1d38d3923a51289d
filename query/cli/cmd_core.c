/* heapfork core: what can be done to a core.
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "coredump/core/core_image.h"
#include "coredump/core/core_strip.h"
#include "coredump/core/core_write.h"
#include "query/cli/progress.h"
#include "util/output.h"

enum { KEY_FORCE = HF_KEY_VERB, KEY_EXE, KEY_SYSROOT };

struct core_args {
	struct hf_cli *cli; /* first: it is an input of hf_cli_parse */
	const char *words[3]; /* strip, IN, OUT */
	size_t num_words;
	bool force;
	struct hf_core_open_options open;
};

static const struct argp_option options[] = {
	{ "force", KEY_FORCE, 0, 0, "Replace OUT if it exists", 0 },
	{ "exe", KEY_EXE, "FILE", 0,
	  "The program, if it is not where it was", 0 },
	{ "sysroot", KEY_SYSROOT, "DIR", 0,
	  "Look for the program and its libraries under DIR", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct core_args *args = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		hf_cli_parse_init(state, 1);
		return 0;
	case KEY_FORCE:
		args->force = true;
		return 0;
	case KEY_EXE:
		args->open.exe = arg;
		return 0;
	case KEY_SYSROOT:
		args->open.sysroot = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (args->num_words == 3)
			argp_error(state, "'%s' is too much: strip IN OUT",
				   arg);
		args->words[args->num_words++] = arg;
		return 0;
	case ARGP_KEY_END:
		if (!args->num_words || strcmp(args->words[0], "strip"))
			argp_error(state, "what to do? strip IN OUT");
		if (args->num_words < 3)
			argp_error(state, "from where to where? strip IN OUT");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = {
	{ &hf_message_options, 0, NULL, 0 },
	{ 0 },
};

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "strip IN OUT",
	.doc = "Make a core that can be given away: only what a debugger needs "
	       "to show the stacks of its threads, with their local variables. "
	       "Heaps, data of the program and its libraries, arguments and "
	       "environment are not in it.\n"
	       "\n"
	       "    heapfork core strip app.core app.stacks.core\n",
	.children = children,
};

static int open_new(const char *path)
{
	return open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

static struct hf_error *strip(const struct core_args *args,
			      const struct hf_progress *progress,
			      const char *path, struct hf_core_summary *summary)
{
	__attribute__((cleanup(hf_auto_hf_strip_ranges)))
	struct hf_strip_ranges ranges = { 0 };
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	struct hf_core_write_options write = {
		.filter = HF_CORE_FILTER_DEFAULT,
		.progress = progress,
	};
	struct hf_core_open_options how = args->open;
	struct hf_core_info info = { 0 };
	HF_AUTO_FD int fd = -1;
	struct hf_error *err;

	how.progress = progress;
	err = hf_core_image_open(args->words[1], &how, &info, &image);
	if (!err)
		err = hf_strip_ranges_find(image, &info.process, &ranges);
	if (!err) {
		fd = open_new(path);
		if (fd < 0)
			err = hf_error_os(errno, "cannot create '%s'", path);
	}
	if (!err) {
		/* Arguments may be passwords. */
		memset(info.process.args, 0, sizeof(info.process.args));
		memcpy(info.process.args, info.process.name,
		       sizeof(info.process.name));
		write.only = ranges.list.data;
		write.num_only = ranges.list.num;
		write.process = &info.process;
		err = hf_core_write(image, fd, path, &write, summary);
	}
	hf_core_info_deinit(&info);
	return err;
}

static struct hf_error *run(struct hf_cli *cli, int argc, char **argv)
{
	struct core_args args = { .cli = cli };
	HF_AUTO(hf_output) struct hf_output *output = NULL;
	struct hf_core_summary summary;
	struct hf_cli_progress progress;
	char bytes[40];
	struct hf_error *err;

	err = hf_cli_parse(&argp, argc, argv, &args);
	if (!err)
		err = hf_output_begin(args.words[2], args.force, &output);
	if (err)
		return err;
	hf_cli_progress_init(&progress, cli);
	err = strip(&args, &progress.hooks, hf_output_path(output), &summary);
	hf_cli_progress_clear(&progress);
	if (!err)
		err = hf_output_commit(output);
	if (err)
		return hf_output_blame(output, err);
	hf_format_bytes((int64_t)summary.disk_bytes, bytes, sizeof(bytes));
	hf_cli_note(cli, "%s: %s, stacks only", args.words[2], bytes);
	if (summary.missing_bytes)
		cli->exit_code = HF_EXIT_PARTIAL;
	return NULL;
}

const struct hf_verb hf_verb_core = {
	.name = "core",
	.summary = "strip a core down to its stacks",
	.argp = &argp,
	.run = run,
};
