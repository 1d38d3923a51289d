/* Captures on command, without an index: the soak's snapshot in a hurry.
 * SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "fork-agent/copy_out.h"
#include "util/parse.h"

/* Reads lines "PID" from standard input. For each it captures the process,
 * copies the frozen child's memory out as `heapfork snapshot` does, releases
 * it, and writes one line:
 *
 *   ok PAUSE_NS LIFE_NS THREADS PARTIAL VFORK ATTEMPTS COW_PAGES REAPED CLOSED
 *   gone MESSAGE          the process ended before, or meanwhile
 *   failed MESSAGE        anything else, with its cause
 */

/* What the child is kept for. */
static struct hf_error *copy(struct hf_frozen *frozen)
{
	const struct hf_copy_options options = { .way = HF_COPY_AUTO };
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	struct hf_copy_report report;
	struct hf_error *err = hf_frozen_open_image(frozen, &image);

	return err ? err : hf_copy_out(frozen, image, &options, &report);
}

static void print_error(struct hf_error *err)
{
	printf("%s %s%s%s\n",
	       err->code == HF_ERROR_TARGET_GONE ? "gone" : "failed",
	       err->message, err->cause ? ": " : "",
	       err->cause ? err->cause : "");
	hf_error_destroy(err);
}

static void capture(pid_t pid)
{
	struct hf_capture_options options = { .pid = pid };
	HF_AUTO(hf_frozen) struct hf_frozen *frozen = NULL;
	struct hf_error *err = hf_capture(&options, &frozen), *zombie;
	struct hf_capture_report report;

	if (err) {
		print_error(err);
		return;
	}
	err = copy(frozen);
	zombie = hf_frozen_release(frozen);
	if (err || zombie) {
		print_error(err ? err : zombie);
		if (err)
			hf_error_destroy(zombie);
		return;
	}
	report = *hf_frozen_report(frozen);
	/* Whoever reads the line may look at what we hold. */
	hf_frozen_destroy(HF_TAKE(frozen));
	printf("ok %" PRIu64 " %" PRIu64 " %" PRIu32 " %" PRIu32 " %" PRIu32
	       " %" PRIu32 " %" PRIu64 " %d %d\n",
	       report.pause_ns, report.child_life_ns, report.num_threads,
	       report.num_partial, report.num_vfork_children,
	       report.num_attempts, report.cow_pages, report.reaped,
	       report.descriptors_closed);
}

int main(void)
{
	char line[32];

	signal(SIGPIPE, SIG_IGN);
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		struct hf_error *err;
		uint64_t pid;

		line[strcspn(line, "\n")] = '\0';
		err = hf_parse_range(line, "PID", 1, INT32_MAX, &pid);
		if (err) {
			print_error(err);
			return 2;
		}
		capture((pid_t)pid);
	}
	return 0;
}
