/* An ELF core as an image.
 * SPDX-License-Identifier: MIT */
#include "coredump/core/core_image.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "coredump/core/core_elf.h"
#include "coredump/core/core_file.h"
#include "coredump/core/core_notes.h"
#include "coredump/core/core_segments.h"
#include "coredump/image_internal.h"

enum {
	/* All notes of a core are held in memory. A thread takes some 12 KiB;
	 * a list of mappings 100 bytes each. */
	MAX_NOTES_BYTES = 1024 * 1024 * 1024,
	MAX_NAMED_RANGES = 4,  /* in a message */
};

struct core {
	struct hf_core_file file;
	struct hf_core_notes notes;
	struct hf_core_elfs elfs;
	uint8_t *note_bytes;   /* notes point into them */
};

static size_t read_mapped(const struct core *core, const struct hf_range *range,
			  void *buf)
{
	const struct hf_core_mapped *mapped =
		hf_core_mapped_at(&core->notes, range->start);
	const struct hf_core_elf *elf =
		mapped ? hf_core_elfs_at(&core->elfs, mapped->path) : NULL;
	size_t len, done = 0;
	uint64_t offset;

	if (!elf || elf->fd < 0)
		return 0;
	len = (size_t)(hf_min_u64(range->end, mapped->range.end) -
		       range->start);
	offset = mapped->file_offset + (range->start - mapped->range.start);
	while (done < len) {
		ssize_t n = pread(elf->fd, (char *)buf + done, len - done,
				  (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	/* The last page of a mapping goes on with zeros behind the file. */
	if (done < len && offset + done >= elf->size && elf->size % HF_PAGE_BYTES
	    && offset < elf->size) {
		uint64_t page_end = (elf->size / HF_PAGE_BYTES + 1) *
				    HF_PAGE_BYTES;
		size_t pad = (size_t)hf_min_u64(len - done, page_end - offset -
						done);

		memset((char *)buf + done, 0, pad);
		done += pad;
	}
	return done;
}

/* From the core where it has bytes, else from the file that was mapped. */
static size_t core_read(void *arg, const struct hf_range *ranges,
			size_t num_ranges, void *buf)
{
	const struct core *core = arg;
	size_t done = 0;

	for (size_t i = 0; i < num_ranges; i++) {
		struct hf_range left = ranges[i];

		while (left.start < left.end) {
			size_t n = hf_core_file_read(
				&core->file, left.start, (char *)buf + done,
				(size_t)(left.end - left.start));

			if (!n) {
				/* Up to where the core goes on. */
				struct hf_range gap = left;

				gap.end = hf_min_u64(
					left.end, hf_core_file_next(
						&core->file, left.start));
				n = read_mapped(core, &gap, (char *)buf + done);
			}
			if (!n)
				return done;
			left.start += n;
			done += n;
		}
	}
	return done;
}

static int core_open_file(void *arg, const char *path,
			  const struct hf_range *mapping)
{
	const struct core *core = arg;
	const struct hf_core_mapped *mapped =
		mapping ? hf_core_mapped_at(&core->notes, mapping->start) :
			  NULL;
	const struct hf_core_elf *elf =
		mapped ? hf_core_elfs_at(&core->elfs, mapped->path) : NULL;
	char name[64];

	if (!elf || elf->fd < 0)
		return mapping ? -1 : hf_core_elfs_open(&core->elfs, path);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", elf->fd);
	return open(name, O_RDONLY | O_CLOEXEC);
}

static void core_destroy(void *arg)
{
	struct core *core = arg;

	if (!core)
		return;
	hf_core_elfs_deinit(&core->elfs);
	hf_core_notes_deinit(&core->notes);
	hf_core_file_close(&core->file);
	free(core->note_bytes);
	free(core);
}

HF_DEFINE_AUTO(struct core *, core, core_destroy)

static const struct hf_image_ops core_ops = {
	.read = core_read,
	.open_file = core_open_file,
	.destroy = core_destroy,
};

/* Notes that the file ends before: without the first there are no threads; of
 * those behind the memory the core says that it is truncated. */
static struct hf_error *check_notes(struct hf_core_file *file,
				    const char *path)
{
	size_t num = 0;

	for (size_t i = 0; i < file->notes.num; i++) {
		if (file->notes.data[i].end <= file->size) {
			file->notes.data[num++] = file->notes.data[i];
			continue;
		}
		if (i == 0)
			return hf_error_fix(
				hf_bad_data("'%s' is truncated within its "
					    "notes: what its threads were "
					    "doing is lost", path),
				"nothing can be made of it; take another");
		file->lost_notes = true;
	}
	file->notes.num = num;
	return NULL;
}

static struct hf_error *read_notes(struct core *core, const char *path)
{
	const struct hf_core_file *file = &core->file;
	uint64_t total = 0, done = 0;

	for (size_t i = 0; i < file->notes.num; i++) {
		const struct hf_range *range = &file->notes.data[i];

		total += range->end - range->start;
	}
	if (total > MAX_NOTES_BYTES)
		return hf_bad_data("'%s' has %" PRIu64 " bytes of notes", path,
				   total);
	core->note_bytes = malloc(total + 1);
	if (!core->note_bytes)
		return &hf_enomem;
	for (size_t i = 0; i < file->notes.num; i++) {
		const struct hf_range *range = &file->notes.data[i];

		for (uint64_t at = range->start; at < range->end;) {
			ssize_t n = pread(file->fd, core->note_bytes + done,
					  range->end - at, (off_t)at);

			if (n < 0 && errno == EINTR)
				continue;
			if (n <= 0)
				return hf_error_os(n < 0 ? errno : EIO,
						   "cannot read '%s'", path);
			at += (uint64_t)n;
			done += (uint64_t)n;
		}
	}
	return hf_core_notes_parse(core->note_bytes, total, &core->notes);
}

static struct hf_error *refuse_truncated(const char *path,
					 const struct hf_range *missing,
					 size_t num, uint64_t bytes)
{
	char text[MAX_NAMED_RANGES * 48 + 32] = "notes at its end";
	int len = 0;

	for (size_t i = 0; i < num && i < MAX_NAMED_RANGES; i++)
		len += snprintf(text + len, sizeof(text) - (size_t)len,
				"%s0x%" PRIx64 "-0x%" PRIx64, i ? ", " : "",
				missing[i].start, missing[i].end);
	if (num > MAX_NAMED_RANGES)
		snprintf(text + len, sizeof(text) - (size_t)len,
			 " and %zu more", num - MAX_NAMED_RANGES);
	return hf_error_fix(
		hf_error_cause(hf_bad_data("'%s' is truncated: %" PRIu64
					   " bytes of memory are not there",
					   path, bytes),
			       "missing: %s", text),
		"use --partial to look at what is there");
}

/* Memory that the headers promise and the file has not. */
static struct hf_error *check_length(struct core *core, const char *path,
				     bool partial, struct hf_image *image,
				     struct hf_core_info *info)
{
	HF_AUTO_FREE struct hf_range *missing = NULL;
	struct hf_error *err;
	char text[160];
	size_t num;

	err = hf_core_file_missing(&core->file, &missing, &num);
	if (err || (!num && !core->file.lost_notes))
		return err;
	for (size_t i = 0; i < num; i++)
		info->missing_bytes += missing[i].end - missing[i].start;
	if (!partial)
		return refuse_truncated(path, missing, num,
					info->missing_bytes);
	info->truncated = true;
	snprintf(text, sizeof(text), "the core is truncated: %" PRIu64
		 " bytes of memory are not in it, from 0x%" PRIx64 " on",
		 info->missing_bytes, num ? missing[0].start : 0);
	return hf_image_add_loss(image, text);
}

/* A guess by habits: only for people to read. */
static void guess_writer(const struct core *core, struct hf_core_info *info)
{
	const char *writer = "unknown";

	if (core->notes.has_image)
		writer = "heapfork";
	else if (!core->notes.process.auxv_bytes)
		writer = "unknown";
	else if (core->notes.num_damaged)
		writer = "unknown";
	else
		writer = "kernel or debugger";
	snprintf(info->writer, sizeof(info->writer), "%s", writer);
}

static struct hf_error *add_contents(struct core *core, const char *path,
				     const struct hf_core_open_options *options,
				     struct hf_image *image,
				     struct hf_core_info *info)
{
	const char *exe_path = hf_core_exe_path(&core->notes);
	struct hf_error *err;

	err = check_length(core, path, options->partial, image, info);
	if (!err)
		err = hf_core_elfs_find(options, &core->file,
					core->notes.mapped.data,
					core->notes.mapped.num, exe_path,
					&core->elfs);
	if (!err)
		err = hf_core_segments_add(image, &core->file, &core->notes,
					   &core->elfs, &info->missing_bytes);
	for (size_t i = 0; i < core->notes.threads.num && !err; i++)
		err = hf_image_add_thread(image, &core->notes.threads.data[i]);
	if (!err && core->notes.is_stripped)
		err = hf_image_add_loss(image, "the core was stripped: only "
					"what stacks need is in it, no heap");
	if (!err && !core->notes.threads.num)
		err = hf_image_add_loss(image, "the core has no threads: "
					"stacks and registers are no roots");
	return err ? err : hf_image_freeze(image);
}

struct hf_error *hf_core_image_open(const char *path,
				    const struct hf_core_open_options *options,
				    struct hf_core_info *info_ret,
				    struct hf_image **ret)
{
	HF_AUTO(core) struct core *core = calloc(1, sizeof(*core));
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	struct hf_core_info info = { 0 };
	struct core *borrowed = core;
	struct hf_error *err;

	if (!core)
		return &hf_enomem;
	core->file.fd = -1;
	err = hf_core_file_open(path, options->scratch_dir, options->partial,
				options->progress, &core->file);
	if (!err)
		err = check_notes(&core->file, path);
	if (!err)
		err = read_notes(core, path);
	if (!err)
		err = hf_image_create(&core_ops, HF_TAKE(core), &image);
	if (err)
		return err;
	err = add_contents(borrowed, path, options, image, &info);
	if (err && err->code == HF_ERROR_BAD_DATA && !err->cause)
		err = hf_error_prefix(err, "'%s'", path);
	if (err)
		return err;
	info.process = borrowed->notes.process;
	info.capture = HF_TAKE(borrowed->notes.capture);
	guess_writer(borrowed, &info);
	*info_ret = info;
	*ret = HF_TAKE(image);
	return NULL;
}

void hf_core_info_deinit(struct hf_core_info *info)
{
	free(info->capture);
	info->capture = NULL;
}
