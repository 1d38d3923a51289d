/* Spool plan: what of an image is copied, in which order.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_SPOOL_PLAN_H
#define HF_COREDUMP_SPOOL_PLAN_H

#include "coredump/mapped_files.h"
#include "util/array.h"

struct hf_spool_step {
	struct hf_range range; /* in one segment; all of it is copied */
	size_t segment;
	bool is_private_anon;
};

struct hf_spool_plan {
	HF_ARRAY(struct hf_spool_step) steps; /* in this order */
	uint64_t num_bytes;
	uint64_t unopened_bytes; /* of files that cannot be opened: they would
				  * have to be copied, and are too many (not
				  * in num_bytes); else 0 */
};

/**
 * @param files of the image.
 * @param max_bytes shared memory whose file is open is copied only if all of
 * it fits in so many bytes with the rest; else it is left to the file.
 */
struct hf_error *hf_spool_plan_make(const struct hf_image *image,
				    const struct hf_mapped_files *files,
				    uint64_t max_bytes,
				    struct hf_spool_plan *ret) HF_MUST_CHECK;
void hf_spool_plan_deinit(struct hf_spool_plan *plan);

/** HF_AUTO(hf_spool_plan) for a struct hf_spool_plan on the stack. */
static inline void hf_auto_hf_spool_plan(void *plan)
{
	hf_spool_plan_deinit(plan);
}

#endif
