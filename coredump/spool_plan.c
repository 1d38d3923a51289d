/* Spool plan: what of an image is copied, in which order.
 * SPDX-License-Identifier: MIT */
#include "coredump/spool_plan.h"

#include <string.h>
#include <sys/mman.h>

#include "coredump/image_internal.h"

/* What the program can write to comes first, because its next write copies a
 * page; among that what is private and anonymous, because it can be dropped
 * from a child. */
enum rank {
	RANK_HEAP,    /* private anonymous, writable: heaps, stacks */
	RANK_DATA,    /* written pages of files, writable */
	RANK_QUIET,   /* not writable (now): read-only after relocation */
	RANK_SHARED,  /* not of the instant anyway */
	NUM_RANKS,
	RANK_NEVER,
};

/* Of files that cannot be opened. A program's text may well be that large; a
 * private mapping of a database is not meant. */
static const uint64_t max_unopened_bytes = UINT64_C(256) << 20;

static bool is_private_anon(const struct hf_segment *segment)
{
	return segment->kind == HF_SEGMENT_ANON ||
	       segment->kind == HF_SEGMENT_BRK ||
	       segment->kind == HF_SEGMENT_STACK;
}

static enum rank rank_of(const struct hf_segment *segment)
{
	if (segment->kind == HF_SEGMENT_SPECIAL)
		return RANK_NEVER;
	if (segment->kind == HF_SEGMENT_SHARED)
		return RANK_SHARED;
	if (segment->late)
		return RANK_NEVER;
	if (!(segment->prot & PROT_WRITE))
		return RANK_QUIET;
	return is_private_anon(segment) ? RANK_HEAP : RANK_DATA;
}

/* Must all of the segment be copied, also what is in no resident range? */
static bool is_unopened(const struct hf_mapped_files *files,
			const struct hf_segment *segment, size_t i)
{
	return segment->absent == HF_ABSENT_FILE &&
	       segment->kind != HF_SEGMENT_SHARED && !segment->late &&
	       (segment->prot & PROT_READ) &&
	       hf_mapped_files_fd(files, i) < 0;
}

static struct hf_error *add(struct hf_spool_plan *plan, struct hf_range range,
			    size_t segment, bool is_anon)
{
	const struct hf_spool_step step = { range, segment, is_anon };

	plan->num_bytes += range.end - range.start;
	return hf_array_append(&plan->steps, step);
}

static struct hf_error *add_segment(struct hf_spool_plan *plan,
				    const struct hf_image *image,
				    const struct hf_mapped_files *files,
				    size_t i)
{
	const struct hf_segment *segment = &image->segments.data[i];
	struct hf_error *err = NULL;

	if (is_unopened(files, segment, i))
		return add(plan, (struct hf_range){ segment->start,
						    segment->end }, i, false);
	for (size_t r = hf_image_resident_after(image, segment->start);
	     r < image->resident.num && !err &&
	     image->resident.data[r].start < segment->end; r++)
		err = add(plan, image->resident.data[r], i,
			  is_private_anon(segment));
	return err;
}

/* Shared memory whose file is open need not be copied. May it? */
static bool copies_shared(const struct hf_image *image,
			  const struct hf_mapped_files *files,
			  uint64_t max_bytes, uint64_t unopened_bytes)
{
	uint64_t sum = unopened_bytes;

	for (size_t i = 0; i < image->segments.num; i++) {
		const struct hf_segment *segment = &image->segments.data[i];

		if (rank_of(segment) == RANK_NEVER ||
		    is_unopened(files, segment, i))
			continue;
		sum += segment->resident_bytes;
	}
	return sum <= max_bytes;
}

struct hf_error *hf_spool_plan_make(const struct hf_image *image,
				    const struct hf_mapped_files *files,
				    uint64_t max_bytes,
				    struct hf_spool_plan *ret)
{
	HF_AUTO(hf_spool_plan) struct hf_spool_plan plan = { 0 };
	const struct hf_segment *segments = image->segments.data;
	uint64_t unopened_bytes = 0;
	struct hf_error *err = NULL;
	bool with_shared;

	for (size_t i = 0; i < image->segments.num; i++)
		if (is_unopened(files, &segments[i], i))
			unopened_bytes += segments[i].end - segments[i].start;
	if (unopened_bytes > max_unopened_bytes) {
		*ret = (struct hf_spool_plan){
			.unopened_bytes = unopened_bytes,
		};
		return NULL;
	}
	with_shared = copies_shared(image, files, max_bytes, unopened_bytes);
	for (int rank = 0; rank < NUM_RANKS; rank++) {
		for (size_t i = 0; i < image->segments.num && !err; i++) {
			if ((int)rank_of(&segments[i]) != rank)
				continue;
			if (rank == RANK_SHARED && !with_shared &&
			    hf_mapped_files_fd(files, i) >= 0)
				continue;
			err = add_segment(&plan, image, files, i);
		}
	}
	if (err)
		return err;
	*ret = plan;
	memset(&plan, 0, sizeof(plan));
	return NULL;
}

void hf_spool_plan_deinit(struct hf_spool_plan *plan)
{
	hf_array_deinit(&plan->steps);
}
