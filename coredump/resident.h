/* Which pages of a process are there: PAGEMAP_SCAN, or pagemap.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_RESIDENT_H
#define HF_COREDUMP_RESIDENT_H

#include "coredump/image.h"

struct hf_resident;

/**
 * @param pagemap_fd of /proc/PID/pagemap; borrowed.
 * @param no_scan pretend that the kernel has no PAGEMAP_SCAN (before 6.7).
 */
struct hf_error *hf_resident_create(int pagemap_fd, bool no_scan,
				    struct hf_resident **ret) HF_MUST_CHECK;
void hf_resident_destroy(struct hf_resident *resident);

/** Whether there is PAGEMAP_SCAN: without it, looking at a mapping costs time
 * for its size, not for what is in it. */
bool hf_resident_has_scan(const struct hf_resident *resident);

/** Pages that are there, but not looked for. */
enum hf_resident_skip {
	HF_RESIDENT_SKIP_ZERO = 1 << 0, /* the kernel's zero page */
	HF_RESIDENT_SKIP_FILE = 1 << 1, /* of a file, unmodified; or shared */
	HF_RESIDENT_SKIP_HUGE = 1 << 2, /* mapped as huge pages */
};

/**
 * Find the pages in [range.start, range.end) that are in memory or in swap,
 * without touching any. Guard pages are not.
 *
 * @param skip of enum hf_resident_skip; without PAGEMAP_SCAN the zero page
 * and huge pages cannot be told.
 * @param found called with ascending ranges; its error ends the search.
 */
struct hf_error *hf_resident_find(struct hf_resident *resident,
				  struct hf_range range, unsigned int skip,
				  struct hf_error *(*found)(void *arg,
							struct hf_range range),
				  void *arg) HF_MUST_CHECK;

/**
 * As hf_resident_find, but leave out what huge pages map: 2 MiB by one entry.
 * A kernel without PAGEMAP_SCAN does not tell them apart, and finds all.
 */
struct hf_error *hf_resident_find_small(struct hf_resident *resident,
					struct hf_range range,
					struct hf_error *(*found)(void *arg,
							struct hf_range range),
					void *arg) HF_MUST_CHECK;

HF_DEFINE_AUTO(struct hf_resident *, hf_resident, hf_resident_destroy)

#endif
