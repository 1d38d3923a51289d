/* Snapshot prepare: huge pages before the pause, and words about them.
 * SPDX-License-Identifier: MIT */
#include "query/cli/snapshot_prepare.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* "3 EAGAIN, 1 EINVAL" */
static void list_reasons(const struct hf_prepare_report *report, char *buf,
			 size_t size)
{
	size_t len = 0;

	buf[0] = '\0';
	for (uint32_t i = 0; i < report->num_reasons && len < size; i++) {
		int os_error = report->reasons[i].os_error;
		const char *name = strerrorname_np(os_error);
		int n = snprintf(buf + len, size - len, "%s%" PRIu64 " %s",
				 i ? ", " : "", report->reasons[i].num,
				 name ? name : strerror(os_error));

		if (n < 0)
			break;
		len += (size_t)n;
	}
}

enum { REST_PART = 4 };

static void say_what(const struct hf_cli *cli,
		     const struct hf_prepare_report *report)
{
	char done[40], small[40], huge[40], reasons[160];
	uint64_t taken = hf_prepare_bytes(report) +
			 (report->num_refused << 21);
	uint64_t rest = report->small_bytes > taken ?
				report->small_bytes - taken : 0;

	hf_format_bytes((int64_t)hf_prepare_bytes(report), done, sizeof(done));
	hf_format_bytes((int64_t)report->small_bytes, small, sizeof(small));
	hf_format_bytes((int64_t)report->huge_bytes, huge, sizeof(huge));
	hf_cli_note(cli,
		    "prepared: %" PRIu64 " block%s, %s of %s in small pages, "
		    "put into huge pages in %.1f s",
		    report->num_blocks,
		    hf_cli_plural((int64_t)report->num_blocks), done, small,
		    (double)report->elapsed_ns / 1e9);
	list_reasons(report, reasons, sizeof(reasons));
	if (report->num_refused)
		hf_cli_note(cli,
			    "not prepared: %" PRIu64 " block%s that the kernel "
			    "refused (%s)",
			    report->num_refused,
			    hf_cli_plural((int64_t)report->num_refused),
			    reasons);
	/* What it could do nothing for, if that is a good part. */
	if (report->complete && rest > report->small_bytes / REST_PART) {
		hf_format_bytes((int64_t)rest, done, sizeof(done));
		hf_cli_note(cli,
			    "left in small pages: %s of %s, in blocks of 2 MiB "
			    "that are not full, or shared",
			    done, small);
	}
	if (cli->verbose)
		hf_cli_note(cli,
			    "in huge pages before: %s; blocks that were not "
			    "full, or are shared: %" PRIu64 "; longest step: "
			    "%.1f ms",
			    huge, report->num_not_full,
			    (double)report->longest_ns / 1e6);
}

struct hf_error *hf_snapshot_prepare(const struct hf_snapshot_options *options,
				     pid_t pid, uint64_t deadline_ns,
				     const struct hf_progress *progress,
				     struct hf_prepare_report *ret)
{
	struct hf_prepare_options prepare = {
		.pid = pid,
		.rate_bytes = options->prepare_rate,
		.progress = progress,
	};
	uint64_t now = hf_now_ns();
	struct hf_error *err;

	if (deadline_ns)
		prepare.deadline_ns =
			deadline_ns > now ? now + (deadline_ns - now) / 2 : now;
	err = hf_prepare(&prepare, ret);
	if (err && err->code == HF_ERROR_INTERRUPTED)
		return err;
	/* Who may not be captured: the capture itself says it better. */
	if (!ret->checked) {
		hf_error_ignore(err);
		return NULL;
	}
	if (!err || ret->num_blocks)
		say_what(options->cli, ret);
	if (err)
		hf_cli_warn(options->cli, err);
	return NULL;
}
