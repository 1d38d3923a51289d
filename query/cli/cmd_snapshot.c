/* heapfork snapshot: stop, fork, let go; then index the frozen child.
 * SPDX-License-Identifier: MIT */
#include <signal.h>

#include "query/cli/checkup_rows.h"
#include "query/cli/snapshot_core.h"
#include "query/cli/snapshot_family.h"
#include "query/cli/snapshot_take.h"
#include "util/output.h"

/* The file is a part of it: begun, and forgotten. */
static struct hf_error *dry_run(const struct hf_snapshot_options *options)
{
	HF_AUTO(hf_output) struct hf_output *output = NULL;
	HF_AUTO(hf_snapshot_core) struct hf_snapshot_core *core =
		&(struct hf_snapshot_core){ 0 };
	struct hf_error *err = NULL;

	if (options->output)
		err = hf_output_begin(options->output, options->force,
				      &output);
	if (!err)
		err = hf_snapshot_core_begin(core, &options->core,
					     (pid_t)options->pid,
					     options->force);
	if (err)
		return err;
	return hf_checkup_print(options);
}

static struct hf_error *run(struct hf_cli *cli, int argc, char **argv)
{
	struct hf_snapshot_options options = { .cli = cli };
	HF_AUTO(hf_snapshot_result) struct hf_snapshot_result *result =
		&(struct hf_snapshot_result){ 0 };
	struct hf_error *err;

	err = hf_cli_parse(&hf_snapshot_argp, argc, argv, &options);
	if (err)
		return err;
	/* A reader of our messages that goes away must not kill us while we
	 * hold a process. */
	signal(SIGPIPE, SIG_IGN);
	if (options.dry_run)
		return dry_run(&options);
	if (options.all_children)
		return hf_snapshot_family(&options);
	err = hf_snapshot_take(&options, (pid_t)options.pid, options.output,
			       result);
	if (!err && result->partial)
		cli->exit_code = HF_EXIT_PARTIAL;
	return err;
}

const struct hf_verb hf_verb_snapshot = {
	.name = "snapshot",
	.summary = "stop a process for milliseconds, fork and index it",
	.argp = &hf_snapshot_argp,
	.run = run,
};
