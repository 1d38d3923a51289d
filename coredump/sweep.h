/* Sweep: the readable bytes of address ranges, in order, in large pieces.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_SWEEP_H
#define HF_COREDUMP_SWEEP_H

#include "coredump/image.h"

/* For scanning. Only resident bytes are delivered: untouched zero pages hold
 * no pointers, and missing ones cannot be read; what was missing is counted.
 * Many small resident pieces are fetched with one call. */

struct hf_sweep;

/** A run of readable bytes; `addr` and `len` are multiples of 8. */
struct hf_piece {
	uint64_t addr;          /* of the first byte in the target */
	const uint64_t *words;  /* borrowed until the next hf_sweep_next */
	size_t len;             /* bytes */
};

struct hf_error *hf_sweep_create(const struct hf_image *image,
				 struct hf_sweep **ret) HF_MUST_CHECK;
void hf_sweep_destroy(struct hf_sweep *sweep);

/**
 * Begin to sweep `ranges` (sorted, disjoint, borrowed until the sweep is over).
 * Starts are rounded up and ends down to 8 bytes.
 */
void hf_sweep_start(struct hf_sweep *sweep, const struct hf_range *ranges,
		    size_t num_ranges);

/**
 * The next piece, at most 1 MiB, in increasing address order. A piece never
 * crosses a boundary of the given ranges.
 *
 * @return false at the end.
 */
bool hf_sweep_next(struct hf_sweep *sweep, struct hf_piece *ret);

/** Bytes of the ranges that should have been readable, and were not. */
uint64_t hf_sweep_missing_bytes(const struct hf_sweep *sweep);

HF_DEFINE_AUTO(struct hf_sweep *, hf_sweep, hf_sweep_destroy)

#endif
