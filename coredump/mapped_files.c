/* Mapped files: the files behind an image's mappings, kept open.
 * SPDX-License-Identifier: MIT */
#include "coredump/mapped_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "coredump/image_internal.h"

struct open_file {
	uint64_t device, inode; /* as the segment tells them */
	int fd;                 /* or -1: it cannot be opened */
};

struct hf_mapped_files {
	HF_ARRAY(struct open_file) list;
	int32_t *of_segment;    /* index in list, or -1 */
	size_t num_segments;
};

static bool has_file(const struct hf_segment *segment)
{
	return (segment->kind == HF_SEGMENT_FILE ||
		segment->kind == HF_SEGMENT_SHARED) &&
	       segment->path && segment->inode;
}

/* Is it the file that is mapped? Not the device is asked: on btrfs and
 * overlayfs maps and stat tell different ones. */
static bool is_that_file(const struct hf_segment *segment, int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISREG(st.st_mode) &&
	       st.st_ino == segment->inode;
}

static int open_of(const struct hf_image *image,
		   const struct hf_segment *segment)
{
	const struct hf_range mapping = { segment->start, segment->end };
	int fd = image->ops->open_file(image->arg, segment->path, &mapping);

	if (fd < 0 || is_that_file(segment, fd))
		return fd;
	close(fd);
	return -1;
}

/* Modules have several segments in a row, so look at the last files first. */
static int32_t find(const struct hf_mapped_files *files,
		    const struct hf_segment *segment)
{
	for (size_t i = files->list.num; i > 0; i--)
		if (files->list.data[i - 1].inode == segment->inode &&
		    files->list.data[i - 1].device == segment->device)
			return (int32_t)(i - 1);
	return -1;
}

struct hf_error *hf_mapped_files_open(const struct hf_image *image,
				      size_t max_files,
				      struct hf_mapped_files **ret)
{
	HF_AUTO(hf_mapped_files) struct hf_mapped_files *files =
		calloc(1, sizeof(*files));
	const struct hf_segment *segments = image->segments.data;

	if (!files)
		return &hf_enomem;
	files->num_segments = image->segments.num;
	files->of_segment = malloc((files->num_segments + 1) *
				   sizeof(*files->of_segment));
	if (!files->of_segment)
		return &hf_enomem;
	for (size_t i = 0; i < files->num_segments; i++) {
		struct open_file file;
		struct hf_error *err;

		files->of_segment[i] = -1;
		if (!image->ops->open_file || !has_file(&segments[i]))
			continue;
		files->of_segment[i] = find(files, &segments[i]);
		if (files->of_segment[i] >= 0 ||
		    files->list.num >= max_files)
			continue;
		file = (struct open_file){ segments[i].device,
					   segments[i].inode, -1 };
		err = hf_array_reserve(&files->list, 1);
		if (err)
			return err;
		file.fd = open_of(image, &segments[i]);
		files->of_segment[i] = (int32_t)files->list.num;
		files->list.data[files->list.num++] = file;
	}
	*ret = HF_TAKE(files);
	return NULL;
}

void hf_mapped_files_close(struct hf_mapped_files *files)
{
	if (!files)
		return;
	for (size_t i = 0; i < files->list.num; i++)
		if (files->list.data[i].fd >= 0)
			close(files->list.data[i].fd);
	hf_array_deinit(&files->list);
	free(files->of_segment);
	free(files);
}

int hf_mapped_files_fd(const struct hf_mapped_files *files, size_t segment)
{
	int32_t i = segment < files->num_segments ?
		    files->of_segment[segment] : -1;

	return i < 0 ? -1 : files->list.data[i].fd;
}

int hf_mapped_files_reopen(const struct hf_mapped_files *files,
			   size_t segment)
{
	int fd = hf_mapped_files_fd(files, segment);
	char name[64];

	if (fd < 0)
		return -1;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	return open(name, O_RDONLY | O_CLOEXEC);
}

size_t hf_mapped_files_read(const struct hf_mapped_files *files,
			    const struct hf_image *image, size_t segment,
			    struct hf_range range, void *buf)
{
	const struct hf_segment *mapped = &image->segments.data[segment];
	int fd = hf_mapped_files_fd(files, segment);
	uint64_t len = range.end - range.start, done = 0, at, end;
	struct stat st;

	if (fd < 0 ||
	    __builtin_add_overflow(mapped->file_offset,
				   range.start - mapped->start, &at) ||
	    __builtin_add_overflow(at, len, &end) || end > INT64_MAX)
		return 0;
	while (done < len) {
		ssize_t n = pread(fd, (char *)buf + done, len - done,
				  (off_t)(at + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (uint64_t)n;
	}
	/* Behind its end the last page is zero. */
	if (done < len && !fstat(fd, &st) && (uint64_t)st.st_size <= at + done) {
		uint64_t last = hf_page_down((uint64_t)st.st_size +
					     HF_PAGE_BYTES - 1);
		uint64_t tail = last > at + done ?
				hf_min_u64(len, last - at) - done : 0;

		memset((char *)buf + done, 0, tail);
		done += tail;
	}
	return done;
}
