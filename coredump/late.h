/* Late memory: what a fork leaves out, copied from the parent that runs on.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_LATE_H
#define HF_COREDUMP_LATE_H

#include "coredump/process_memory.h"
#include "util/array.h"

/* The parent changes this memory, and gives some of it back, while the image
 * is being read. So it is copied at once, when the image is opened: a few
 * milliseconds after the fork, and the same bytes for every pass. */

struct hf_late {
	HF_ARRAY(struct hf_range) ranges; /* segments; sorted by hf_late_copy */
	HF_ARRAY(struct hf_range) pieces; /* copied, ascending */
	char *bytes;        /* of all pieces, one after the other */
	uint64_t *offsets;  /* of each piece in bytes */
	uint64_t end;       /* resident ranges from here on were not copied:
			     * there are too many bytes of them */
};

/** Note a range that is to be read from the parent. */
struct hf_error *hf_late_add(struct hf_late *late, struct hf_range range)
	HF_MUST_CHECK;

/** Whether addr is in a range that was added; after hf_late_copy. */
bool hf_late_has(const struct hf_late *late, uint64_t addr);

/**
 * Copy the resident bytes of all added ranges from the parent. Pages that it
 * has given back meanwhile are left out.
 *
 * @param resident sorted; of the whole image.
 */
struct hf_error *hf_late_copy(struct hf_late *late,
			      const struct hf_process_memory *parent,
			      const struct hf_range *resident,
			      size_t num_resident) HF_MUST_CHECK;

/** Read one range that hf_late_has.
 * @return bytes copied; less than asked: the next byte is gone. */
size_t hf_late_read(const struct hf_late *late,
		    const struct hf_process_memory *parent,
		    struct hf_range range, void *buf);

void hf_late_deinit(struct hf_late *late);

#endif
