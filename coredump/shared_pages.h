/* Which pages of a shared mapping exist, although the child never mapped them.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_SHARED_PAGES_H
#define HF_COREDUMP_SHARED_PAGES_H

#include "coredump/image.h"
#include "coredump/parent.h"
#include "coredump/proc_maps.h"

/**
 * Find pages of a MAP_SHARED mapping that are there to be read without making
 * any. What cannot be found out is left out; it is no error.
 *
 * @param proc_fd of /proc/PID of the child.
 * @param found called with ranges in any order, some of them twice.
 */
struct hf_error *hf_shared_pages_find(int proc_fd,
				      const struct hf_parent *parent,
				      const struct hf_mapping *mapping,
				      struct hf_error *(*found)(void *arg,
							struct hf_range range),
				      void *arg) HF_MUST_CHECK;

#endif
