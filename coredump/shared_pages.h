/* Which pages of a shared mapping exist, although the child never mapped them.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_SHARED_PAGES_H
#define HF_COREDUMP_SHARED_PAGES_H

#include "coredump/image.h"
#include "coredump/proc_maps.h"

struct hf_shared_pages;

/**
 * @param proc_fd of /proc/PID; borrowed.
 * @param no_scan as for hf_resident_create.
 */
struct hf_error *hf_shared_pages_create(int proc_fd, bool no_scan,
					struct hf_shared_pages **ret)
	HF_MUST_CHECK;
void hf_shared_pages_destroy(struct hf_shared_pages *shared);

/**
 * Find pages of a MAP_SHARED mapping that are there to be read without making
 * any. What cannot be found out is left out; it is no error.
 *
 * @param found called with ranges in any order, some of them twice.
 */
struct hf_error *hf_shared_pages_find(struct hf_shared_pages *shared,
				      const struct hf_mapping *mapping,
				      struct hf_error *(*found)(void *arg,
							struct hf_range range),
				      void *arg) HF_MUST_CHECK;

HF_DEFINE_AUTO(struct hf_shared_pages *, hf_shared_pages,
	       hf_shared_pages_destroy)

#endif
