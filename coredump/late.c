/* Late memory: what a fork leaves out, copied from the parent that runs on.
 * SPDX-License-Identifier: MIT */
#include "coredump/late.h"

#include <string.h>

enum { PAGE_BYTES = 4096, READ_BYTES = 1 << 20 };

/* Memory of our own for the copy; what is beyond is read when it is needed. */
static const uint64_t copy_max = UINT64_C(1) << 30;

struct hf_error *hf_late_add(struct hf_late *late, struct hf_range range)
{
	return hf_array_append(&late->ranges, range);
}

/* The first of the ranges that ends behind addr; num if there is none. */
static size_t first_behind(const struct hf_range *ranges, size_t num,
			   uint64_t addr)
{
	size_t low = 0, high = num;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (ranges[mid].end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

bool hf_late_has(const struct hf_late *late, uint64_t addr)
{
	size_t i = first_behind(late->ranges.data, late->ranges.num, addr);

	return i < late->ranges.num && late->ranges.data[i].start <= addr;
}

static int compare_ranges(const void *a, const void *b)
{
	const struct hf_range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* A further piece of the copy, in one with the last if they touch. */
static struct hf_error *add_piece(struct hf_late *late, uint64_t start,
				  uint64_t end)
{
	struct hf_range piece = { start, end };

	if (late->pieces.num &&
	    late->pieces.data[late->pieces.num - 1].end == start) {
		late->pieces.data[late->pieces.num - 1].end = end;
		return NULL;
	}
	return hf_array_append(&late->pieces, piece);
}

static struct hf_error *copy_range(struct hf_late *late,
				   const struct hf_process_memory *parent,
				   struct hf_range range, uint64_t *used)
{
	while (range.start < range.end) {
		struct hf_range part = range;
		struct hf_error *err;
		size_t got;

		if (part.end - part.start > READ_BYTES)
			part.end = part.start + READ_BYTES;
		got = hf_process_memory_read(parent, &part, 1,
					     late->bytes + *used);
		if (got) {
			err = add_piece(late, part.start, part.start + got);
			if (err)
				return err;
			*used += got;
		}
		range.start += got;
		/* A page that is gone: on behind it. */
		if (got < part.end - part.start)
			range.start = (range.start | (PAGE_BYTES - 1)) + 1;
	}
	return NULL;
}

static struct hf_error *number_pieces(struct hf_late *late)
{
	uint64_t offset = 0;

	late->offsets = calloc(late->pieces.num + 1, sizeof(*late->offsets));
	if (!late->offsets)
		return &hf_enomem;
	for (size_t i = 0; i < late->pieces.num; i++) {
		late->offsets[i] = offset;
		offset += late->pieces.data[i].end - late->pieces.data[i].start;
	}
	return NULL;
}

struct hf_error *hf_late_copy(struct hf_late *late,
			      const struct hf_process_memory *parent,
			      const struct hf_range *resident,
			      size_t num_resident)
{
	uint64_t total = 0, used = 0;
	size_t num = 0;
	struct hf_error *err = NULL;

	late->end = UINT64_MAX;
	if (!late->ranges.num)
		return NULL;
	qsort(late->ranges.data, late->ranges.num, sizeof(*late->ranges.data),
	      compare_ranges);
	/* A resident range lies in one segment, late or not. */
	for (; num < num_resident; num++) {
		if (!hf_late_has(late, resident[num].start))
			continue;
		if (resident[num].end - resident[num].start >
		    copy_max - total) {
			late->end = resident[num].start;
			break;
		}
		total += resident[num].end - resident[num].start;
	}
	late->bytes = malloc(total + 1);
	if (!late->bytes)
		return &hf_enomem;
	for (size_t i = 0; !err && i < num; i++)
		if (hf_late_has(late, resident[i].start))
			err = copy_range(late, parent, resident[i], &used);
	return err ? err : number_pieces(late);
}

size_t hf_late_read(const struct hf_late *late,
		    const struct hf_process_memory *parent,
		    struct hf_range range, void *buf)
{
	size_t i, len;

	if (range.start >= late->end)
		return hf_process_memory_read(parent, &range, 1, buf);
	i = first_behind(late->pieces.data, late->pieces.num, range.start);
	if (i == late->pieces.num || late->pieces.data[i].start > range.start)
		return 0;
	len = late->pieces.data[i].end - range.start;
	if (len > range.end - range.start)
		len = range.end - range.start;
	memcpy(buf,
	       late->bytes + late->offsets[i] +
		       (range.start - late->pieces.data[i].start),
	       len);
	return len;
}

void hf_late_deinit(struct hf_late *late)
{
	hf_array_deinit(&late->ranges);
	hf_array_deinit(&late->pieces);
	free(late->bytes);
	free(late->offsets);
}
