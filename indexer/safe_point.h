/* Safe point: what a capture asks about the allocators of its target.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_SAFE_POINT_H
#define HF_INDEXER_SAFE_POINT_H

#include "fork-agent/safe_point.h"

/* The heap readers of the registry say where the code and the locks of their
 * allocators are (`places`). That is found once for each set of modules, in
 * the running process, and used at every stop. */

struct hf_safe_point_finder;

struct hf_error *hf_safe_point_finder_create(struct hf_safe_point_finder **ret)
	HF_MUST_CHECK;
void hf_safe_point_finder_destroy(struct hf_safe_point_finder *finder);

/** For hf_capture_options: lives as long as the finder. */
const struct hf_safe_point *
hf_safe_point_finder_ops(const struct hf_safe_point_finder *finder);

HF_DEFINE_AUTO(struct hf_safe_point_finder *, hf_safe_point_finder,
	       hf_safe_point_finder_destroy)

#endif
