/* Take core: capture a process and write its core, nothing else.
 * SPDX-License-Identifier: MIT
 *
 * usage: take_core PID FILE [FILTER [ZSTD_LEVEL]] */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "coredump/core/core_write.h"
#include "fork-agent/capture.h"

static void require(struct hf_error *err)
{
	if (!err)
		return;
	fprintf(stderr, "take_core: %s (%s)\n", err->message,
		err->cause ? err->cause : "");
	exit(1);
}

int main(int argc, char **argv)
{
	struct hf_capture_options capture = { 0 };
	struct hf_core_write_options options = { 0 };
	struct hf_process_info process;
	struct hf_core_summary summary;
	struct hf_frozen *frozen;
	struct hf_image *image;
	int fd;

	if (argc < 3)
		return 2;
	capture.pid = atoi(argv[1]);
	options.filter = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 0) :
				    HF_CORE_FILTER_DEFAULT;
	options.zstd_level = argc > 4 ? atoi(argv[4]) : 0;
	options.process = &process;
	require(hf_process_info_read(capture.pid, &process));
	require(hf_capture(&capture, &frozen));
	require(hf_frozen_open_image(frozen, &image));
	fd = open(argv[2], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return 1;
	require(hf_core_write(image, fd, argv[2], &options, &summary));
	close(fd);
	printf("segments %" PRIu64 " memory %" PRIu64 " zero %" PRIu64
	       " missing %" PRIu64 " file %" PRIu64 " disk %" PRIu64 "\n",
	       summary.num_segments, summary.memory_bytes, summary.zero_bytes,
	       summary.missing_bytes, summary.file_bytes, summary.disk_bytes);
	hf_image_destroy(image);
	require(hf_frozen_release(frozen));
	hf_frozen_destroy(frozen);
	return 0;
}
