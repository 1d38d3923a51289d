/* What a fork leaves out of the child: found in its parent.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_LEFT_OUT_H
#define HF_COREDUMP_LEFT_OUT_H

#include "coredump/parent.h"
#include "util/array.h"

struct hf_left_out {
	HF_ARRAY(struct hf_mapping) list; /* ascending; paths point to text */
	char *text;
};

/**
 * Find the parts of the parent's MADV_DONTFORK mappings (and of those that a
 * driver marked so) that are not in the child. Detailed looks at the parent
 * are taken only if it has memory that the child has not.
 *
 * @param parent must be there.
 * @return NULL, NO_MEMORY, or why it cannot be found out.
 */
struct hf_error *hf_left_out_find(const struct hf_parent *parent,
				  const struct hf_proc_maps *child,
				  struct hf_left_out *ret) HF_MUST_CHECK;
void hf_left_out_deinit(struct hf_left_out *left_out);

HF_DEFINE_AUTO(struct hf_left_out *, hf_left_out, hf_left_out_deinit)

/** Has the parent all of this mapping still? */
bool hf_left_out_is_mapped(const struct hf_parent *parent,
			   const struct hf_mapping *mapping);

#endif
