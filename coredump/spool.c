/* Spool: the bytes of an image, copied once, so that its process may go.
 * SPDX-License-Identifier: MIT */
#include "coredump/spool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "coredump/image_internal.h"
#include "coredump/mapped_files.h"
#include "coredump/spool_plan.h"

/* The copy is a list of pieces: [start, end) of the image, and where their
 * bytes are in the store, one after the other in the order in which they were
 * read. When all is copied the list is sorted by address, for good. */

enum {
	BATCH_BYTES = 4 << 20, /* read and looked through at a time */
	BATCH_PARTS = 1024,
	HUGE_PAGE_BYTES = 2 << 20,
	STORED_BYTES = 16 << 20, /* between two calls of `stored` */
};

/* Instead of an offset in the store: */
#define ALL_ZERO UINT64_MAX       /* every byte is */
#define UNREADABLE (UINT64_MAX - 1) /* nobody has them */

struct piece {
	uint64_t start, end;
	uint64_t offset;
};

struct spool {
	const struct hf_image *image;      /* whose bytes these are */
	const struct hf_image_ops *below;  /* what it read with before */
	void *below_arg;                   /* owned */
	struct hf_mapped_files *files;
	struct hf_spool_store *store;      /* NULL: discarded */
	HF_ARRAY(struct piece) pieces;
	bool is_whole;                     /* the process may be gone */
};

static void spool_free(struct spool *spool)
{
	if (!spool)
		return;
	hf_mapped_files_close(spool->files);
	hf_spool_store_destroy(spool->store);
	hf_array_deinit(&spool->pieces);
	free(spool);
}

HF_DEFINE_AUTO(struct spool *, spool, spool_free)

static void spool_destroy(void *arg)
{
	struct spool *spool = arg;

	if (spool->below->destroy)
		spool->below->destroy(spool->below_arg);
	spool_free(spool);
}

/* Index of the first piece that ends above addr. */
static size_t piece_after(const struct spool *spool, uint64_t addr)
{
	size_t low = 0, high = spool->pieces.num;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (spool->pieces.data[mid].end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* A part of a piece. */
static size_t read_piece(const struct spool *spool, const struct piece *piece,
			 struct hf_range range, void *buf)
{
	size_t len = range.end - range.start;

	if (piece->offset == UNREADABLE)
		return 0;
	if (piece->offset == ALL_ZERO) {
		memset(buf, 0, len);
		return len;
	}
	return hf_spool_store_read(spool->store, piece->offset +
				   (range.start - piece->start), buf, len);
}

/* What is in no piece. */
static size_t read_rest(const struct spool *spool, struct hf_range range,
			void *buf)
{
	const struct hf_image *image = spool->image;
	size_t i = hf_image_segment_after(image, range.start);
	const struct hf_segment *segment = &image->segments.data[i];

	if (i == image->segments.num || segment->start > range.start)
		return 0;
	if (!spool->is_whole ||
	    (segment->late && segment->kind != HF_SEGMENT_SHARED))
		return spool->below->read(spool->below_arg, &range, 1, buf);
	if (segment->absent != HF_ABSENT_FILE)
		return 0;
	range.end = hf_min_u64(range.end, segment->end);
	return hf_mapped_files_read(spool->files, image, i, range, buf);
}

static size_t spool_read(void *arg, const struct hf_range *ranges,
			 size_t num_ranges, void *buf)
{
	const struct spool *spool = arg;
	size_t p = 0, done = 0;

	if (!spool->store)
		return 0;
	for (size_t i = 0; i < num_ranges; i++) {
		uint64_t at = ranges[i].start;

		while (at < ranges[i].end) {
			const struct piece *piece;
			struct hf_range part = { at, ranges[i].end };
			size_t got;

			/* Mostly it is the same one, or the next. */
			if (p < spool->pieces.num &&
			    spool->pieces.data[p].end <= at)
				p++;
			if (p == spool->pieces.num ||
			    spool->pieces.data[p].start > at ||
			    spool->pieces.data[p].end <= at)
				p = piece_after(spool, at);
			piece = p < spool->pieces.num ?
				&spool->pieces.data[p] : NULL;
			if (piece && piece->start <= at) {
				part.end = hf_min_u64(part.end, piece->end);
				got = read_piece(spool, piece, part,
						 (char *)buf + done);
			} else {
				if (piece)
					part.end = hf_min_u64(part.end,
							      piece->start);
				got = read_rest(spool, part,
						(char *)buf + done);
			}
			done += got;
			at += got;
			if (at < part.end)
				return done;
		}
	}
	return done;
}

static int spool_open_file(void *arg, const char *path,
			   const struct hf_range *mapping)
{
	const struct spool *spool = arg;
	int fd = -1;

	if (mapping) {
		size_t i = hf_image_segment_after(spool->image,
						  mapping->start);

		fd = hf_mapped_files_reopen(spool->files, i);
	}
	if (fd < 0 && spool->below->open_file)
		fd = spool->below->open_file(spool->below_arg, path, mapping);
	return fd;
}

static const struct hf_image_ops spool_ops = {
	.read = spool_read,
	.open_file = spool_open_file,
	.destroy = spool_destroy,
};

/* A copy under way. */
struct copier {
	struct spool *spool;
	const struct hf_spool_options *options;
	struct hf_spool_report *report;
	const struct hf_spool_plan *plan;
	struct hf_range parts[BATCH_PARTS];     /* to be read next */
	const struct hf_spool_step *step_of[BATCH_PARTS];
	size_t num_parts;
	size_t num_bytes;                       /* of the parts */
	HF_ARRAY(struct hf_range) stored;       /* to be told */
	size_t stored_segment;                  /* of the last of them */
	uint64_t stored_bytes;                  /* that were copied of them */
	bool is_full;                           /* the store took no more */
};

static bool is_zero(const char *page)
{
	const uint64_t *words = (const void *)page;
	uint64_t any = 0;

	/* Most pages that are not zero begin so. */
	for (size_t i = 0; i < 8; i++)
		any |= words[i];
	if (any)
		return false;
	for (size_t i = 0; i < HF_PAGE_BYTES / sizeof(*words); i++)
		any |= words[i];
	return !any;
}

/* Pages [start, start + len) are at `bytes`: add pieces of them, and move what
 * is not zero down to *kept, which grows. */
static struct hf_error *add_pages(struct copier *copier, uint64_t start,
				  char *bytes, size_t len, char *room,
				  size_t *kept)
{
	struct spool *spool = copier->spool;
	uint64_t base = hf_spool_store_used(spool->store);
	size_t end;

	for (size_t at = 0; at < len; at = end) {
		bool zero = is_zero(bytes + at);
		struct piece piece = { .start = start + at };

		for (end = at + HF_PAGE_BYTES;
		     end < len && is_zero(bytes + end) == zero;)
			end += HF_PAGE_BYTES;
		piece.end = start + end;
		piece.offset = zero ? ALL_ZERO : base + *kept;
		if (zero) {
			copier->report->zero_bytes += end - at;
		} else {
			if (room + *kept != bytes + at)
				memmove(room + *kept, bytes + at, end - at);
			*kept += end - at;
		}

		struct hf_error *err = hf_array_append(&spool->pieces, piece);

		if (err)
			return err;
	}
	return NULL;
}

/* The pages up to `end` of a step have been copied. */
static struct hf_error *note_stored(struct copier *copier,
				    const struct hf_spool_step *step,
				    struct hf_range range)
{
	uint64_t len = range.end - range.start;

	copier->report->copied_bytes += len;
	if (!step->is_private_anon || !copier->options->stored)
		return NULL;
	copier->stored_bytes += len;
	if (copier->stored.num && copier->stored_segment == step->segment) {
		copier->stored.data[copier->stored.num - 1].end = range.end;
		return NULL;
	}
	copier->stored_segment = step->segment;
	return hf_array_append(&copier->stored, range);
}

static struct hf_error *tell_stored(struct copier *copier)
{
	struct hf_error *err = NULL;

	if (copier->stored.num)
		err = copier->options->stored(copier->options->arg,
					      copier->stored.data,
					      copier->stored.num);
	copier->stored.num = 0;
	copier->stored_bytes = 0;
	return err;
}

/* The first `got` bytes of the parts are at `room`: keep them.
 * @param num_ret parts that are done; the next one was cut. */
static struct hf_error *keep(struct copier *copier, char *room, size_t got,
			     size_t *num_ret)
{
	struct spool *spool = copier->spool;
	size_t kept = 0, off = 0, first_piece = spool->pieces.num, i;
	uint64_t zero_bytes = copier->report->zero_bytes, offset;
	struct hf_error *err = NULL;

	for (i = 0; i < copier->num_parts && off < got && !err; i++) {
		struct hf_range *part = &copier->parts[i];
		size_t len = hf_min_u64(part->end - part->start, got - off);

		err = add_pages(copier, part->start, room + off, len, room,
				&kept);
		off += len;
	}
	if (!err && kept)
		err = hf_spool_store_keep(spool->store, kept, &offset);
	if (err) {
		copier->is_full = err->code != HF_ERROR_NO_MEMORY;
		spool->pieces.num = first_piece;
		copier->report->zero_bytes = zero_bytes;
		return err;
	}
	for (i = 0, off = 0; i < copier->num_parts && off < got; i++) {
		struct hf_range *part = &copier->parts[i];
		size_t len = hf_min_u64(part->end - part->start, got - off);
		struct hf_range done = { part->start, part->start + len };

		err = note_stored(copier, copier->step_of[i], done);
		if (err)
			return err;
		part->start += len;
		off += len;
		if (part->start < part->end)
			break;
	}
	*num_ret = i;
	return NULL;
}

/* Drop the first `num` parts. */
static void consume(struct copier *copier, size_t num)
{
	copier->num_parts -= num;
	memmove(copier->parts, copier->parts + num,
		copier->num_parts * sizeof(*copier->parts));
	memmove(copier->step_of, copier->step_of + num,
		copier->num_parts * sizeof(*copier->step_of));
}

/* Read the parts; pages that cannot be read are noted as such. */
static struct hf_error *flush(struct copier *copier)
{
	struct spool *spool = copier->spool;

	while (copier->num_parts) {
		char *room = hf_spool_store_room(spool->store);
		size_t got = spool->below->read(spool->below_arg,
						copier->parts,
						copier->num_parts, room);
		size_t num = 0;
		struct hf_error *err = keep(copier, room,
					    got & -(size_t)HF_PAGE_BYTES,
					    &num);

		if (err)
			return err;
		consume(copier, num);
		if (!copier->num_parts)
			break;

		if (copier->options->unreadable)
			err = copier->options->unreadable(
				copier->options->arg);
		if (err)
			return err;

		struct hf_range *part = &copier->parts[0];
		struct piece bad = { part->start, part->start + HF_PAGE_BYTES,
				     UNREADABLE };

		err = hf_array_append(&spool->pieces, bad);
		if (err)
			return err;
		part->start = bad.end;
		if (part->start == part->end)
			consume(copier, 1);
	}
	copier->num_bytes = 0;
	return NULL;
}

static struct hf_error *end_batch(struct copier *copier)
{
	struct hf_error *err = flush(copier);

	if (!err && copier->stored_bytes >= STORED_BYTES)
		err = tell_stored(copier);
	if (!err)
		err = hf_progress_update(copier->options->progress, "copy",
					 copier->report->copied_bytes,
					 copier->plan->num_bytes);
	return err;
}

static struct hf_error *copy_step(struct copier *copier,
				  const struct hf_spool_step *step)
{
	uint64_t at = step->range.start;

	while (at < step->range.end) {
		struct hf_range part = { at, step->range.end };
		uint64_t left = BATCH_BYTES - copier->num_bytes;
		struct hf_error *err = NULL;

		if (part.end - part.start > left) {
			part.end = at + left;
			/* Not in the middle of a huge page: dropping a part of
			 * one would split it. */
			if ((part.end & -(uint64_t)HUGE_PAGE_BYTES) > at)
				part.end &= -(uint64_t)HUGE_PAGE_BYTES;
			left = part.end - at; /* this batch is over */
		}
		copier->step_of[copier->num_parts] = step;
		copier->parts[copier->num_parts++] = part;
		copier->num_bytes += part.end - part.start;
		at = part.end;
		if (part.end - part.start == left ||
		    copier->num_parts == BATCH_PARTS)
			err = end_batch(copier);
		if (err)
			return err;
	}
	return NULL;
}

static int compare_pieces(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static struct hf_error *copy(struct copier *copier)
{
	struct spool *spool = copier->spool;
	struct hf_spool_report *report = copier->report;
	struct hf_error *err = NULL;

	for (size_t i = 0; i < copier->plan->steps.num && !err; i++)
		err = copy_step(copier, &copier->plan->steps.data[i]);
	if (!err)
		err = end_batch(copier);
	spool->is_whole = !err;
	if (copier->is_full) {
		/* What it has is good, and the rest stays below. */
		snprintf(report->why, sizeof(report->why), "%s",
			 err->message);
		hf_error_ignore(err);
		err = tell_stored(copier);
	}
	if (err)
		return err;
	if (spool->pieces.num)
		qsort(spool->pieces.data, spool->pieces.num,
		      sizeof(*spool->pieces.data), compare_pieces);
	report->is_whole = spool->is_whole;
	report->place = hf_spool_store_place(spool->store);
	report->stored_bytes = hf_spool_store_used(spool->store);
	report->table_bytes = spool->pieces.capacity *
			      sizeof(*spool->pieces.data);
	return NULL;
}

static void find_place(const struct hf_spool_options *options,
		       const struct hf_spool_plan *plan,
		       struct hf_spool_report *report)
{
	report->planned_bytes = plan->num_bytes;
	if (plan->unopened_bytes)
		snprintf(report->why, sizeof(report->why),
			 "the process maps files of %" PRIu64 " MiB that "
			 "cannot be opened", plan->unopened_bytes >> 20);
	else if (plan->num_bytes <= options->memory_max)
		report->place = HF_SPOOL_MEMORY;
	else if (options->dir)
		report->place = HF_SPOOL_FILE;
	else
		snprintf(report->why, sizeof(report->why),
			 "a copy may take %" PRIu64 " MiB, and there are "
			 "%" PRIu64 " MiB for it", plan->num_bytes >> 20,
			 options->memory_max >> 20);
}

/* Room for what was planned, if there is any. @return NULL in *ret if not. */
static struct hf_error *make_store(const struct hf_spool_options *options,
				   const struct hf_spool_plan *plan,
				   struct hf_spool_report *report,
				   struct hf_spool_store **ret)
{
	struct hf_error *err;

	*ret = NULL;
	find_place(options, plan, report);
	if (report->place == HF_SPOOL_NOWHERE)
		return NULL;
	err = hf_spool_store_create(report->place, plan->num_bytes,
				    BATCH_BYTES, options->dir, ret);
	if (!err)
		return NULL;
	report->place = HF_SPOOL_NOWHERE;
	snprintf(report->why, sizeof(report->why), "%s", err->message);
	hf_error_ignore(err);
	return NULL;
}

struct hf_error *hf_spool_image(struct hf_image *image,
				const struct hf_spool_options *options,
				struct hf_spool_report *report_ret)
{
	HF_AUTO(hf_spool_plan) struct hf_spool_plan plan = { 0 };
	HF_AUTO(spool) struct spool *spool = calloc(1, sizeof(*spool));
	HF_AUTO_FREE struct copier *copier = calloc(1, sizeof(*copier));
	struct hf_error *err;

	*report_ret = (struct hf_spool_report){ 0 };
	if (!spool || !copier)
		return &hf_enomem;
	spool->image = image;
	spool->below = image->ops;
	spool->below_arg = image->arg;
	err = hf_mapped_files_open(image, options->max_files, &spool->files);
	if (!err)
		err = hf_spool_plan_make(image, spool->files,
					 options->memory_max, &plan);
	if (!err)
		err = make_store(options, &plan, report_ret, &spool->store);
	if (err || !spool->store)
		return err;
	*copier = (struct copier){
		.spool = spool,
		.options = options,
		.report = report_ret,
		.plan = &plan,
	};
	err = copy(copier);
	hf_array_deinit(&copier->stored);
	if (err)
		return err;
	image->ops = &spool_ops;
	image->arg = HF_TAKE(spool);
	return NULL;
}

void hf_spool_discard(struct hf_image *image)
{
	struct spool *spool = image->arg;

	if (image->ops != &spool_ops)
		return;
	hf_spool_store_destroy(HF_TAKE(spool->store));
}
