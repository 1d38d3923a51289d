/* Fuzzes cores as images: any bytes are opened, and all of it is read.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "coredump/core/core_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PAGE = 4096, MAX_PAGES = 256 };

/* A few pages of each segment: it may claim terabytes. */
static void read_all(const struct hf_image *image)
{
	size_t num;
	const struct hf_segment *segments = hf_image_segments(image, &num);
	char page[PAGE];

	for (size_t i = 0; i < num && i < MAX_PAGES; i++) {
		uint64_t at = segments[i].start;

		for (int j = 0; j < 4 && at < segments[i].end; j++) {
			hf_image_read_some(image, at, page, sizeof(page));
			at += PAGE;
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("core", MFD_CLOEXEC);
	char path[64];

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	for (int partial = 0; partial < 2; partial++) {
		const struct hf_core_open_options options = {
			.partial = partial,
			.sysroot = "/nonexistent",
			.scratch_dir = "/dev/shm",
		};
		struct hf_core_info info = { 0 };
		struct hf_image *image = NULL;
		struct hf_error *err;

		err = hf_core_image_open(path, &options, &info, &image);
		if (err) {
			hf_error_destroy(err);
			continue;
		}
		read_all(image);
		hf_image_destroy(image);
		hf_core_info_deinit(&info);
	}
	close(fd);
	return 0;
}
