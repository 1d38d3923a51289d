/* The image of a process that runs on: to find in it what does not move.
 * SPDX-License-Identifier: MIT */
#include "coredump/live_image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "coredump/image_internal.h"
#include "coredump/process_memory.h"
#include "coredump/resident.h"
#include "coredump/segment_kind.h"

/* To read a page that was never touched would make one, in a process that is
 * not ours to grow: before private anonymous memory is read its page map is
 * asked. A page that is given back in between is made again, empty. */

struct live {
	struct hf_process_memory memory;
	int pagemap_fd;               /* or -1: pages are read unseen */
	struct hf_resident *resident; /* owned; NULL without pagemap_fd */
	const struct hf_image *image; /* the one that this is part of */
};

static void live_destroy(void *arg)
{
	struct live *live = arg;

	if (!live)
		return;
	if (live->memory.mem_fd >= 0)
		close(live->memory.mem_fd);
	if (live->pagemap_fd >= 0)
		close(live->pagemap_fd);
	hf_resident_destroy(live->resident);
	free(live);
}

HF_DEFINE_AUTO(struct live *, live, live_destroy)

/* A read of anonymous memory: pages that are there are put into zeros. */
struct fill {
	const struct live *live;
	struct hf_range range; /* to be read */
	char *buf;             /* for all of it */
	uint64_t bad;          /* first address that could not be read */
};

static struct hf_error *fill_pages(void *arg, struct hf_range pages)
{
	struct fill *fill = arg;
	struct hf_range part = {
		hf_max_u64(pages.start, fill->range.start),
		hf_min_u64(pages.end, fill->range.end),
	};
	size_t got;

	if (part.start >= part.end)
		return NULL;
	got = hf_process_memory_read(&fill->live->memory, &part, 1,
				     fill->buf + (part.start -
						  fill->range.start));
	if (got == part.end - part.start)
		return NULL;
	fill->bad = part.start + got;
	return &hf_stop;
}

static size_t read_anonymous(const struct live *live,
			     const struct hf_range *range, char *buf)
{
	struct fill fill = { live, *range, buf, range->end };
	struct hf_range pages = {
		hf_page_down(range->start),
		hf_page_down(range->end - 1) + HF_PAGE_BYTES,
	};
	struct hf_error *err;

	memset(buf, 0, range->end - range->start);
	err = hf_resident_find(live->resident, pages, true, fill_pages, &fill);
	/* Without its page map nothing is known of it: the process ended. */
	if (err && err != &hf_stop)
		fill.bad = range->start;
	hf_error_ignore(err);
	return fill.bad - range->start;
}

static size_t live_read(void *arg, const struct hf_range *ranges,
			size_t num_ranges, void *buf)
{
	const struct live *live = arg;
	size_t done = 0;

	for (size_t i = 0; i < num_ranges; i++) {
		const struct hf_segment *segment =
			hf_image_find_segment(live->image, ranges[i].start);
		size_t want = ranges[i].end - ranges[i].start, got;

		if (segment && segment->absent == HF_ABSENT_ZERO &&
		    live->resident)
			got = read_anonymous(live, &ranges[i],
					     (char *)buf + done);
		else
			got = hf_process_memory_read(&live->memory, &ranges[i],
						     1, (char *)buf + done);
		done += got;
		if (got < want)
			break;
	}
	return done;
}

static const struct hf_image_ops live_ops = {
	.read = live_read,
	.destroy = live_destroy,
};

static bool is_wanted(const struct hf_segment *segment)
{
	/* A private mapping of a device reads the device. */
	return segment->end <= HF_ADDRESS_END &&
	       segment->kind != HF_SEGMENT_SHARED &&
	       segment->kind != HF_SEGMENT_SPECIAL &&
	       segment->kind != HF_SEGMENT_STACK &&
	       segment->absent != HF_ABSENT_MISSING &&
	       !(segment->kind == HF_SEGMENT_FILE &&
		 strncmp(segment->path, "/dev/", 5) == 0);
}

static struct hf_error *add_segments(struct hf_image *image,
				     const struct hf_proc_maps *maps)
{
	struct hf_error *err = NULL;

	for (size_t i = 0; i < maps->num && !err; i++) {
		struct hf_segment segment =
			hf_segment_of_mapping(&maps->data[i]);

		if (!is_wanted(&segment))
			continue;
		err = hf_image_add_segment(image, &segment);
		if (!err && segment.absent == HF_ABSENT_ZERO)
			err = hf_image_add_resident(image, (struct hf_range){
					segment.start, segment.end });
	}
	return err ? err : hf_image_freeze(image);
}

struct hf_error *hf_live_image_open(pid_t pid, const struct hf_proc_maps *maps,
				    struct hf_image **ret)
{
	HF_AUTO(live) struct live *live = calloc(1, sizeof(*live));
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	struct live *borrowed = live;
	struct hf_error *err = NULL;
	char path[64];

	if (!live)
		return &hf_enomem;
	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)pid);
	live->pagemap_fd = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	live->memory.pid = pid;
	live->memory.mem_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (live->pagemap_fd >= 0)
		err = hf_resident_create(live->pagemap_fd, false,
					 &live->resident);
	if (err)
		return err;
	err = hf_image_create(&live_ops, HF_TAKE(live), &image);
	if (err)
		return err;
	borrowed->image = image;
	err = add_segments(image, maps);
	if (!err)
		*ret = HF_TAKE(image);
	return err;
}
