/* Core plan: which memory goes into a core, and where.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_CORE_CORE_PLAN_H
#define HF_COREDUMP_CORE_CORE_PLAN_H

#include "coredump/image.h"
#include "util/array.h"

/** A PT_LOAD. */
struct hf_core_piece {
	struct hf_range range;  /* of addresses; memsz */
	uint64_t file_bytes;    /* filesz: of its start; 0: none */
	uint64_t offset;        /* in the file */
	uint32_t segment_id;    /* of the image */
};

struct hf_core_plan {
	HF_ARRAY(struct hf_core_piece) pieces; /* ascending */
	uint64_t memory_bytes;  /* of all pieces that have to be read */
};

/**
 * @param filter HF_CORE_*.
 * @param with_dontdump also memory that the program marked MADV_DONTDUMP.
 * @param only of resident pages only those with bytes in these ranges
 * (ascending, disjoint); NULL: all.
 */
struct hf_error *hf_core_plan_make(const struct hf_image *image,
				   uint32_t filter, bool with_dontdump,
				   const struct hf_range *only,
				   size_t num_only,
				   struct hf_core_plan *ret) HF_MUST_CHECK;
void hf_core_plan_deinit(struct hf_core_plan *plan);

/** Give each piece its place, the first at `offset` (a multiple of a page).
 * @return the end of the last. */
uint64_t hf_core_plan_place(struct hf_core_plan *plan, uint64_t offset);

static inline void hf_auto_hf_core_plan(void *plan)
{
	hf_core_plan_deinit(plan);
}

#endif
