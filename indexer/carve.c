/* Carve: cut claimed ranges out of free memory, in one pass over both.
 * SPDX-License-Identifier: MIT */
#include "indexer/carve.h"

static int compare_claims(const void *a, const void *b)
{
	const struct hf_claim *x = a, *y = b;

	if (x->range.start != y->range.start)
		return x->range.start < y->range.start ? -1 : 1;
	/* The longer first: it is the aggregate around the shorter. */
	if (x->range.end != y->range.end)
		return x->range.end > y->range.end ? -1 : 1;
	return x->data < y->data ? -1 : x->data > y->data;
}

size_t hf_claims_normalize(struct hf_claim *claims, size_t num)
{
	uint64_t end = 0;
	size_t kept = 0;

	if (num)
		qsort(claims, num, sizeof(*claims), compare_claims);
	for (size_t i = 0; i < num; i++) {
		struct hf_claim claim = claims[i];

		if (claim.range.start < end)
			claim.range.start = end;
		if (claim.range.start >= claim.range.end)
			continue;
		end = claim.range.end;
		claims[kept++] = claim;
	}
	return kept;
}

static struct hf_error *keep_free(struct hf_ranges *left, uint64_t start,
				  uint64_t end)
{
	struct hf_range range = { start, end };

	return start < end ? hf_array_append(&left->list, range) : NULL;
}

struct hf_error *hf_carve(struct hf_ranges *free_ranges,
			  const struct hf_claim *claims, size_t num,
			  struct hf_error *(*took)(void *arg, uint32_t data,
						   struct hf_range part),
			  void *arg)
{
	struct hf_ranges left = { 0 };
	struct hf_error *err = NULL;
	size_t c = 0;

	for (size_t i = 0; !err && i < free_ranges->list.num; i++) {
		struct hf_range piece = free_ranges->list.data[i];

		while (!err && c < num && claims[c].range.start < piece.end) {
			struct hf_range part = claims[c].range;

			if (part.end <= piece.start) {
				c++;
				continue;
			}
			if (part.start < piece.start)
				part.start = piece.start;
			if (part.end > piece.end)
				part.end = piece.end;
			err = keep_free(&left, piece.start, part.start);
			if (!err && took)
				err = took(arg, claims[c].data, part);
			piece.start = part.end;
			/* A claim may reach into the next free piece. */
			if (claims[c].range.end > piece.end)
				break;
			c++;
		}
		if (!err)
			err = keep_free(&left, piece.start, piece.end);
	}
	if (err) {
		hf_array_deinit(&left.list);
		return err;
	}
	hf_array_deinit(&free_ranges->list);
	*free_ranges = left;
	return NULL;
}

uint64_t hf_resident_bytes(const struct hf_image *image,
			   struct hf_range range)
{
	size_t num, low = 0, high;
	const struct hf_range *resident = hf_image_resident(image, &num);
	uint64_t bytes = 0;

	/* The first resident range that ends behind the start. */
	for (high = num; low < high;) {
		size_t middle = low + (high - low) / 2;

		if (resident[middle].end <= range.start)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < num && resident[low].start < range.end; low++) {
		uint64_t start = resident[low].start, end = resident[low].end;

		if (start < range.start)
			start = range.start;
		if (end > range.end)
			end = range.end;
		bytes += end - start;
	}
	return bytes;
}
