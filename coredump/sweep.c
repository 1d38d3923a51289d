/* Sweep: the readable bytes of address ranges, in order, in large pieces.
 * SPDX-License-Identifier: MIT */
#include "coredump/sweep.h"

#include "coredump/image_internal.h"

/* A batch is what one call of the image's read operation fetched: parts of
 * resident ranges, one after the other in the buffer. Parts that touch each
 * other in the target touch in the buffer as well, so they are handed out as
 * one piece unless a border of the given ranges lies between.
 *
 *   target   ..aaaa....bb.cc|dd....   | border of two ranges
 *   buffer   aaaabbccdd
 *   pieces   aaaa bb cc dd
 */

enum {
	BUFFER_BYTES = 1 << 20,
	MAX_PARTS = 1024, /* IOV_MAX */
};

struct hf_sweep {
	const struct hf_image *image;   /* borrowed */
	const struct hf_range *ranges;  /* borrowed */
	size_t num_ranges;
	size_t range_id;                /* being swept */
	size_t resident_id;             /* no resident range before it ends
					 * above `at` */
	uint64_t at;                    /* next byte to fetch */
	uint64_t missing_bytes;
	size_t batch_limit;             /* bytes of the next batch; small
					 * after unreadable pages */
	struct hf_range parts[MAX_PARTS];
	size_t range_of[MAX_PARTS];     /* range_id of each part */
	size_t num_parts, part_id;      /* of the batch; next to hand out */
	size_t part_off;                /* of that part in the buffer */
	uint64_t *buffer;               /* BUFFER_BYTES */
};

struct hf_error *hf_sweep_create(const struct hf_image *image,
				 struct hf_sweep **ret)
{
	HF_AUTO(hf_sweep) struct hf_sweep *sweep = calloc(1, sizeof(*sweep));

	if (!sweep)
		return &hf_enomem;
	sweep->image = image;
	sweep->buffer = aligned_alloc(HF_PAGE_BYTES, BUFFER_BYTES);
	if (!sweep->buffer)
		return &hf_enomem;
	*ret = HF_TAKE(sweep);
	return NULL;
}

void hf_sweep_destroy(struct hf_sweep *sweep)
{
	if (!sweep)
		return;
	free(sweep->buffer);
	free(sweep);
}

void hf_sweep_start(struct hf_sweep *sweep, const struct hf_range *ranges,
		    size_t num_ranges)
{
	sweep->ranges = ranges;
	sweep->num_ranges = num_ranges;
	sweep->range_id = 0;
	sweep->at = 0;
	sweep->missing_bytes = 0;
	sweep->batch_limit = BUFFER_BYTES;
	sweep->num_parts = sweep->part_id = sweep->part_off = 0;
	sweep->resident_id = num_ranges ?
		hf_image_resident_after(sweep->image, ranges[0].start) : 0;
}

uint64_t hf_sweep_missing_bytes(const struct hf_sweep *sweep)
{
	return sweep->missing_bytes;
}

/* The part of given range `id` that has whole words. */
static struct hf_range whole_words(const struct hf_sweep *sweep, size_t id)
{
	struct hf_range range = sweep->ranges[id];

	range.start = range.start > UINT64_MAX - 7 ? UINT64_MAX & ~UINT64_C(7) :
		      (range.start + 7) & ~UINT64_C(7);
	range.end &= ~UINT64_C(7);
	return range;
}

/* Bytes of [start, end), which is not resident, that a reader had a right to
 * expect: those of readable segments whose absent pages are missing. */
static uint64_t count_missing(const struct hf_image *image, uint64_t start,
			      uint64_t end)
{
	uint64_t bytes = 0;

	for (size_t i = hf_image_segment_after(image, start);
	     i < image->segments.num && image->segments.data[i].start < end;
	     i++) {
		const struct hf_segment *segment = &image->segments.data[i];

		if (segment->absent == HF_ABSENT_MISSING &&
		    segment->kind != HF_SEGMENT_SPECIAL && segment->prot)
			bytes += hf_min_u64(end, segment->end) -
				 hf_max_u64(start, segment->start);
	}
	return bytes;
}

/* List what the next batch reads, and step `at` behind it.
 * @return its bytes. */
static size_t plan(struct hf_sweep *sweep)
{
	const struct hf_image *image = sweep->image;
	size_t total = 0;

	sweep->num_parts = sweep->part_id = sweep->part_off = 0;
	while (sweep->range_id < sweep->num_ranges &&
	       sweep->num_parts < MAX_PARTS && total < sweep->batch_limit) {
		struct hf_range range = whole_words(sweep, sweep->range_id);
		const struct hf_range *resident;
		struct hf_range part;

		if (sweep->at < range.start)
			sweep->at = range.start;
		if (sweep->at >= range.end) {
			sweep->range_id++;
			continue;
		}
		/* One step is the common case; far jumps are searched. */
		if (sweep->resident_id < image->resident.num &&
		    image->resident.data[sweep->resident_id].end <= sweep->at)
			sweep->resident_id++;
		if (sweep->resident_id < image->resident.num &&
		    image->resident.data[sweep->resident_id].end <= sweep->at)
			sweep->resident_id = hf_image_resident_after(
				image, sweep->at);
		resident = sweep->resident_id < image->resident.num ?
			   &image->resident.data[sweep->resident_id] : NULL;
		if (!resident || resident->start >= range.end) {
			sweep->missing_bytes += count_missing(
				image, sweep->at, range.end);
			sweep->at = range.end;
			continue;
		}
		if (resident->start > sweep->at) {
			sweep->missing_bytes += count_missing(
				image, sweep->at, resident->start);
			sweep->at = resident->start;
		}
		part.start = sweep->at;
		part.end = part.start +
			   hf_min_u64(hf_min_u64(resident->end, range.end) -
				      part.start, sweep->batch_limit - total);
		sweep->range_of[sweep->num_parts] = sweep->range_id;
		sweep->parts[sweep->num_parts++] = part;
		total += part.end - part.start;
		sweep->at = part.end;
	}
	return total;
}

/* The batch came back short: keep what there is, skip the page that is not,
 * and go on behind it. */
static void cut_short(struct hf_sweep *sweep, size_t got)
{
	size_t i;

	for (i = 0; i < sweep->num_parts; i++) {
		struct hf_range *part = &sweep->parts[i];
		uint64_t bad, page_end;

		if (got >= part->end - part->start) {
			got -= part->end - part->start;
			continue;
		}
		bad = part->start + got;
		sweep->range_id = sweep->range_of[i];
		page_end = hf_min_u64(hf_page_down(bad) + HF_PAGE_BYTES,
				      whole_words(sweep, sweep->range_id).end);
		part->end = bad & ~UINT64_C(7);
		sweep->missing_bytes += page_end - part->end;
		sweep->num_parts = part->end > part->start ? i + 1 : i;
		sweep->at = page_end;
		sweep->resident_id =
			hf_image_resident_after(sweep->image, page_end);
		return;
	}
}

bool hf_sweep_next(struct hf_sweep *sweep, struct hf_piece *ret)
{
	size_t range_id, off;
	uint64_t addr, end;

	while (sweep->part_id == sweep->num_parts) {
		size_t total = plan(sweep), got;

		if (!sweep->num_parts)
			return false;
		got = sweep->image->ops->read(sweep->image->arg, sweep->parts,
					      sweep->num_parts, sweep->buffer);
		if (got < total) {
			/* Large batches for nothing would be wasteful where
			 * much is unreadable. */
			sweep->batch_limit = 16 * HF_PAGE_BYTES;
			cut_short(sweep, got);
		} else if (sweep->batch_limit < BUFFER_BYTES) {
			sweep->batch_limit *= 2;
		}
	}
	range_id = sweep->range_of[sweep->part_id];
	addr = sweep->parts[sweep->part_id].start;
	end = sweep->parts[sweep->part_id++].end;
	while (sweep->part_id < sweep->num_parts &&
	       sweep->parts[sweep->part_id].start == end &&
	       sweep->range_of[sweep->part_id] == range_id)
		end = sweep->parts[sweep->part_id++].end;
	off = sweep->part_off;
	sweep->part_off += end - addr;
	ret->addr = addr;
	ret->words = sweep->buffer + off / sizeof(*sweep->buffer);
	ret->len = end - addr;
	return true;
}
