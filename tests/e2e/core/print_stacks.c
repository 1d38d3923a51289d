/* Print stacks: the frames of a process or of a core, as eu-stack would.
 * SPDX-License-Identifier: MIT
 *
 * usage: print_stacks PID | CORE */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "coredump/core/core_image.h"
#include "fork-agent/capture.h"
#include "indexer/stacks/stacks.h"

static void require(struct hf_error *err)
{
	if (!err)
		return;
	fprintf(stderr, "print_stacks: %s (%s)\n", err->message,
		err->cause ? err->cause : "");
	exit(1);
}

static void print(const struct hf_image *image, const struct hf_stacks *stacks)
{
	static const char *const hows[] = { "registers", "cfi", "pointer",
					    "inline" };
	static const char *const ends[] = { "whole", "lost", "deep", "none" };
	size_t num;
	const struct hf_thread *threads = hf_image_threads(image, &num);

	for (size_t t = 0, f = 0; t < num; t++) {
		printf("TID %d: %s\n", threads[t].tid, ends[stacks->ends[t]]);
		for (; f < stacks->num_frames && stacks->frames[f].thread == t;
		     f++) {
			const struct hf_frame *frame = &stacks->frames[f];

			printf("#%" PRIu32 " 0x%016" PRIx64 " %s %s:%" PRIu32
			       " [%s]%s\n", frame->level, frame->pc,
			       frame->function ? frame->function : "?",
			       frame->file ? frame->file : "?", frame->line,
			       hows[frame->how],
			       frame->is_signal ? " signal" : "");
		}
	}
}

int main(int argc, char **argv)
{
	const struct hf_core_open_options options = { 0 };
	struct hf_capture_options capture = { 0 };
	struct hf_frozen *frozen = NULL;
	struct hf_core_info info = { 0 };
	struct hf_stacks stacks;
	struct hf_image *image;

	if (argc != 2)
		return 2;
	capture.pid = atoi(argv[1]);
	if (capture.pid > 0) {
		require(hf_capture(&capture, &frozen));
		require(hf_frozen_open_image(frozen, &image));
	} else {
		require(hf_core_image_open(argv[1], &options, &info, &image));
	}
	require(hf_stacks_find(image, NULL, &stacks));
	print(image, &stacks);
	hf_stacks_deinit(&stacks);
	hf_image_destroy(image);
	hf_core_info_deinit(&info);
	hf_frozen_destroy(frozen);
	return 0;
}
