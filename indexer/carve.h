/* Carve: cut claimed ranges out of free memory, in one pass over both.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_CARVE_H
#define HF_INDEXER_CARVE_H

#include "coredump/image.h"
#include "util/array.h"

/** A claim on a range, by whoever explains it; `data` is the claimant's. */
struct hf_claim {
	struct hf_range range;
	uint32_t data;
};

struct hf_ranges {
	HF_ARRAY(struct hf_range) list; /* ascending, disjoint */
};

/** Sort by start and cut overlaps off the later claim; drops empty ones.
 * @return the number that is left. */
size_t hf_claims_normalize(struct hf_claim *claims, size_t num);

/**
 * Give every claim the parts of it that are still free.
 *
 * @param free_ranges in: free memory; out: what no claim took.
 * @param claims normalized.
 * @param took called for each part, in address order; may be NULL.
 */
struct hf_error *hf_carve(struct hf_ranges *free_ranges,
			  const struct hf_claim *claims, size_t num,
			  struct hf_error *(*took)(void *arg, uint32_t data,
						   struct hf_range part),
			  void *arg) HF_MUST_CHECK;

/** Bytes of `range` that are resident in the image. */
uint64_t hf_resident_bytes(const struct hf_image *image,
			   struct hf_range range);

#endif
