/* Progress: one line on a terminal, after a second, erased at the end.
 * SPDX-License-Identifier: MIT */
#include "query/cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const uint64_t second_ns = 1000000000;

/* "\r" and "erase to the end of the line" (ECMA-48 EL). */
static const char erase[] = "\r\033[K";

static void show(void *arg, const char *phase, uint64_t done, uint64_t total)
{
	struct hf_cli_progress *progress = arg;
	uint64_t now;

	if (!progress->terminal || progress->cli->quiet)
		return;
	now = hf_now_ns();
	if (now - progress->start_ns < second_ns ||
	    now - progress->last_ns < second_ns / 10)
		return;
	progress->last_ns = now;
	progress->shown = true;
	if (total)
		fprintf(stderr, "%s%s: %" PRIu64 " %%", erase, phase,
			(uint64_t)(100.0 * (double)done / (double)total));
	else if (done)
		fprintf(stderr, "%s%s: %" PRIu64, erase, phase, done);
	else
		fprintf(stderr, "%s%s", erase, phase);
}

static void phase_done(void *arg, const char *phase, uint64_t items,
		       uint64_t elapsed_ns, uint64_t peak_bytes)
{
	struct hf_cli_progress *progress = arg;
	char peak[32], copied[32];

	if (!progress->cli->verbose)
		return;
	hf_cli_progress_clear(progress);
	hf_format_bytes((int64_t)peak_bytes, peak, sizeof(peak));
	if (strcmp(phase, "copy"))
		snprintf(copied, sizeof(copied), "%12" PRIu64 " items", items);
	else
		hf_format_bytes((int64_t)items, copied, sizeof(copied));
	hf_cli_note(progress->cli, "%-20s %18s %10.1f ms%s%s", phase, copied,
		    (double)elapsed_ns / 1e6, peak_bytes ? "  " : "",
		    peak_bytes ? peak : "");
}

void hf_cli_progress_init(struct hf_cli_progress *progress,
			  const struct hf_cli *cli)
{
	*progress = (struct hf_cli_progress){
		.hooks = { .show = show,
			   .arg = progress,
			   .cancelled = cli->cancelled,
			   .phase_done = phase_done },
		.cli = cli,
		.terminal = isatty(STDERR_FILENO),
		.start_ns = hf_now_ns(),
	};
}

void hf_cli_progress_clear(struct hf_cli_progress *progress)
{
	if (progress->shown)
		fputs(erase, stderr);
	progress->shown = false;
}
