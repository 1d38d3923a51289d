/* Image: one readable, frozen address space.
 * SPDX-License-Identifier: MIT */
#include "coredump/image.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "coredump/image_internal.h"
#include "coredump/module.h"
#include "coredump/thread_ranges.h"

struct hf_error *hf_image_create(const struct hf_image_ops *ops, void *arg,
				 struct hf_image **ret)
{
	struct hf_image *image = calloc(1, sizeof(*image));

	if (!image) {
		if (ops->destroy)
			ops->destroy(arg);
		return &hf_enomem;
	}
	image->ops = ops;
	image->arg = arg;
	*ret = image;
	return NULL;
}

void hf_image_destroy(struct hf_image *image)
{
	if (!image)
		return;
	if (image->ops->destroy)
		image->ops->destroy(image->arg);
	for (size_t i = 0; i < image->threads.num; i++)
		free(image->threads.data[i].xstate);
	for (size_t i = 0; i < image->texts.num; i++)
		free(image->texts.data[i]);
	hf_array_deinit(&image->segments);
	hf_array_deinit(&image->resident);
	hf_array_deinit(&image->modules);
	hf_array_deinit(&image->threads);
	hf_array_deinit(&image->losses);
	hf_array_deinit(&image->texts);
	free(image);
}

struct hf_error *hf_image_add_text(struct hf_image *image, const char *text,
				   size_t len, const char **ret)
{
	struct hf_error *err = hf_array_reserve(&image->texts, 1);
	char *copy;

	if (err)
		return err;
	copy = strndup(text, len);
	if (!copy)
		return &hf_enomem;
	image->texts.data[image->texts.num++] = copy;
	*ret = copy;
	return NULL;
}

struct hf_error *hf_image_add_segment(struct hf_image *image,
				      const struct hf_segment *segment)
{
	struct hf_segment copy = *segment;
	struct hf_error *err;

	assert(!image->frozen);
	if (segment->start >= segment->end || segment->end > HF_ADDRESS_END ||
	    (segment->start | segment->end) % HF_PAGE_BYTES)
		return hf_bad_data("segment 0x%" PRIx64 "-0x%" PRIx64
				   " is no range of user pages",
				   segment->start, segment->end);
	if (segment->path) {
		err = hf_image_add_text(image, segment->path,
					strlen(segment->path), &copy.path);
		if (err)
			return err;
	}
	copy.module_id = HF_NO_MODULE;
	copy.resident_bytes = 0;
	return hf_array_append(&image->segments, copy);
}

struct hf_error *hf_image_add_resident(struct hf_image *image,
				       struct hf_range range)
{
	assert(!image->frozen);
	if (range.start >= range.end || (range.start | range.end) % HF_PAGE_BYTES)
		return hf_bad_data("resident range 0x%" PRIx64 "-0x%" PRIx64
				   " is no range of pages",
				   range.start, range.end);
	/* Scans add neighbours one after the other. */
	if (image->resident.num) {
		struct hf_range *last =
			&image->resident.data[image->resident.num - 1];

		if (last->end == range.start) {
			last->end = range.end;
			return NULL;
		}
	}
	return hf_array_append(&image->resident, range);
}

struct hf_error *hf_image_add_thread(struct hf_image *image,
				     const struct hf_thread *thread)
{
	struct hf_thread copy = *thread;
	struct hf_error *err = hf_array_reserve(&image->threads, 1);

	assert(!image->frozen);
	if (err)
		return err;
	copy.name[sizeof(copy.name) - 1] = '\0';
	copy.stack = copy.tls = (struct hf_range){ 0 };
	copy.on_other_stack = false;
	copy.xstate = NULL;
	copy.xstate_bytes = 0;
	if (thread->xstate && thread->xstate_bytes) {
		copy.xstate = malloc(thread->xstate_bytes);
		if (!copy.xstate)
			return &hf_enomem;
		memcpy(copy.xstate, thread->xstate, thread->xstate_bytes);
		copy.xstate_bytes = thread->xstate_bytes;
	}
	image->threads.data[image->threads.num++] = copy;
	return NULL;
}

struct hf_error *hf_image_add_loss(struct hf_image *image, const char *text)
{
	const char *copy;
	struct hf_error *err =
		hf_image_add_text(image, text, strlen(text), &copy);

	return err ? err : hf_array_append(&image->losses, copy);
}

static int compare_segments(const void *a, const void *b)
{
	const struct hf_segment *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static int compare_ranges(const void *a, const void *b)
{
	const struct hf_range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static struct hf_error *sort_segments(struct hf_image *image)
{
	struct hf_segment *all = image->segments.data;

	if (!image->segments.num)
		return NULL;
	qsort(all, image->segments.num, sizeof(*all), compare_segments);
	for (size_t i = 1; i < image->segments.num; i++) {
		if (all[i].start < all[i - 1].end)
			return hf_bad_data("segments 0x%" PRIx64 "-0x%" PRIx64
					   " and 0x%" PRIx64 "-0x%" PRIx64
					   " overlap", all[i - 1].start,
					   all[i - 1].end, all[i].start,
					   all[i].end);
	}
	return NULL;
}

/* Sort and merge the resident ranges, cut them at the borders of segments,
 * and drop what lies in none or in one that is never read. */
static struct hf_error *sort_resident(struct hf_image *image)
{
	HF_AUTO_FREE struct hf_range *old = HF_TAKE(image->resident.data);
	size_t num_old = image->resident.num, s = 0;
	struct hf_segment *segments = image->segments.data;
	uint64_t done = 0; /* everything below is in image->resident */

	image->resident.num = image->resident.capacity = 0;
	if (num_old)
		qsort(old, num_old, sizeof(*old), compare_ranges);
	for (size_t i = 0; i < num_old; i++) {
		uint64_t at = hf_max_u64(old[i].start, done);

		while (at < old[i].end) {
			struct hf_range *last = image->resident.num ?
				&image->resident.data[image->resident.num - 1] :
				NULL;
			struct hf_range range;
			struct hf_error *err;

			while (s < image->segments.num && segments[s].end <= at)
				s++;
			if (s == image->segments.num)
				return NULL;
			range.start = hf_max_u64(at, segments[s].start);
			range.end = hf_min_u64(old[i].end, segments[s].end);
			if (range.start >= range.end)
				break;
			at = done = range.end;
			if (segments[s].kind == HF_SEGMENT_SPECIAL)
				continue;
			segments[s].resident_bytes += range.end - range.start;
			if (last && last->end == range.start &&
			    range.start != segments[s].start) {
				last->end = range.end;
				continue;
			}
			err = hf_array_append(&image->resident, range);
			if (err)
				return err;
		}
	}
	return NULL;
}

struct hf_error *hf_image_freeze(struct hf_image *image)
{
	struct hf_error *err;

	assert(!image->frozen);
	err = sort_segments(image);
	if (!err)
		err = sort_resident(image);
	if (err)
		return err;
	image->frozen = true;
	err = hf_modules_find(image);
	if (!err)
		err = hf_thread_ranges_fill(image);
	return err;
}

const struct hf_segment *hf_image_segments(const struct hf_image *image,
					   size_t *num_ret)
{
	*num_ret = image->segments.num;
	return image->segments.data;
}

const struct hf_range *hf_image_resident(const struct hf_image *image,
					 size_t *num_ret)
{
	*num_ret = image->resident.num;
	return image->resident.data;
}

const struct hf_module *hf_image_modules(const struct hf_image *image,
					 size_t *num_ret)
{
	*num_ret = image->modules.num;
	return image->modules.data;
}

const struct hf_thread *hf_image_threads(const struct hf_image *image,
					 size_t *num_ret)
{
	*num_ret = image->threads.num;
	return image->threads.data;
}

const char *const *hf_image_losses(const struct hf_image *image,
				   size_t *num_ret)
{
	*num_ret = image->losses.num;
	return image->losses.data;
}

size_t hf_image_segment_after(const struct hf_image *image, uint64_t addr)
{
	size_t low = 0, high = image->segments.num;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (image->segments.data[mid].end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

size_t hf_image_resident_after(const struct hf_image *image, uint64_t addr)
{
	size_t low = 0, high = image->resident.num;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (image->resident.data[mid].end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

const struct hf_segment *hf_image_find_segment(const struct hf_image *image,
					       uint64_t addr)
{
	size_t i = hf_image_segment_after(image, addr);

	if (i == image->segments.num || image->segments.data[i].start > addr)
		return NULL;
	return &image->segments.data[i];
}

const struct hf_module *hf_image_find_module(const struct hf_image *image,
					     uint64_t addr)
{
	const struct hf_segment *segment = hf_image_find_segment(image, addr);
	const struct hf_module *module;

	if (!segment || segment->module_id == HF_NO_MODULE)
		return NULL;
	/* The kernel may have merged .bss with anonymous memory behind it. */
	module = &image->modules.data[segment->module_id];
	return addr - module->start < module->end - module->start ? module :
								    NULL;
}
