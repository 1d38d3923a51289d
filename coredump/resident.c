/* Which pages of a process are there: PAGEMAP_SCAN, or pagemap.
 * SPDX-License-Identifier: MIT */
#include "coredump/resident.h"

#include <errno.h>
#include <linux/types.h>
#include <sys/ioctl.h>

#include "coredump/image_internal.h"

/* PAGEMAP_SCAN (Linux 6.7, include/uapi/linux/fs.h) skips empty page tables
 * and answers in ranges, so a mapping of 64 GB with a few pages costs a
 * millisecond; pagemap has 8 bytes for each page, there or not. Headers of
 * older kernels lack it, so it is written down here. */

struct scan_region {
	__u64 start, end;  /* [start, end) */
	__u64 categories;
};

struct scan_arg {
	__u64 size;               /* of this struct */
	__u64 flags;
	__u64 start, end;         /* [start, end) */
	__u64 walk_end;           /* out: where the walk stopped */
	__u64 vec, vec_len;       /* struct scan_region [vec_len] */
	__u64 max_pages;
	__u64 category_inverted;
	__u64 category_mask;      /* all of these, after the inversion */
	__u64 category_anyof_mask;
	__u64 return_mask;
};

#define SCAN_IOCTL _IOWR('f', 16, struct scan_arg)

enum scan_category {
	PAGE_IS_FILE = 1 << 2,    /* or shared */
	PAGE_IS_PRESENT = 1 << 3,
	PAGE_IS_SWAPPED = 1 << 4, /* also of migration and marker entries */
	PAGE_IS_PFNZERO = 1 << 5,
	PAGE_IS_HUGE = 1 << 6,    /* mapped by one entry of 2 MiB */
	PAGE_IS_GUARD = 1 << 8,   /* since 6.15; before, guard pages look
				   * swapped */
};

/* Documentation/admin-guide/mm/pagemap.rst */
#define PAGEMAP_PRESENT (UINT64_C(1) << 63)
#define PAGEMAP_SWAPPED (UINT64_C(1) << 62)
#define PAGEMAP_FILE (UINT64_C(1) << 61)
#define PAGEMAP_GUARD (UINT64_C(1) << 58)

enum {
	NUM_REGIONS = 4096,
	NUM_ENTRIES = 65536,
};

struct hf_resident {
	int fd;                      /* borrowed */
	bool has_scan;
	uint64_t not_these;          /* categories that exclude a page */
	struct scan_region *regions; /* NUM_REGIONS, if has_scan */
	uint64_t *entries;           /* NUM_ENTRIES, else */
};

static int scan(const struct hf_resident *resident, struct scan_arg *arg,
		uint64_t start, uint64_t end, uint64_t not_these)
{
	*arg = (struct scan_arg){
		.size = sizeof(*arg),
		.start = start,
		.end = end,
		.vec = (uintptr_t)resident->regions,
		.vec_len = NUM_REGIONS,
		.category_inverted = not_these,
		.category_mask = not_these,
		.category_anyof_mask = PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
		/* One category for all keeps the ranges long. */
		.return_mask = 0,
	};
	return ioctl(resident->fd, SCAN_IOCTL, arg);
}

struct hf_error *hf_resident_create(int pagemap_fd, bool no_scan,
				    struct hf_resident **ret)
{
	HF_AUTO(hf_resident) struct hf_resident *resident =
		calloc(1, sizeof(*resident));
	struct scan_arg arg;

	if (!resident)
		return &hf_enomem;
	resident->fd = pagemap_fd;
	resident->regions = calloc(NUM_REGIONS, sizeof(*resident->regions));
	if (!resident->regions)
		return &hf_enomem;
	/* An empty range is answered, or refused with the reason. */
	resident->not_these = PAGE_IS_GUARD;
	if (!no_scan && scan(resident, &arg, 0, HF_PAGE_BYTES,
			     PAGE_IS_GUARD) >= 0) {
		resident->has_scan = true;
	} else if (!no_scan && scan(resident, &arg, 0, HF_PAGE_BYTES, 0) >= 0) {
		resident->has_scan = true;
		resident->not_these = 0;
	} else {
		resident->entries = calloc(NUM_ENTRIES,
					   sizeof(*resident->entries));
		if (!resident->entries)
			return &hf_enomem;
	}
	*ret = HF_TAKE(resident);
	return NULL;
}

void hf_resident_destroy(struct hf_resident *resident)
{
	if (!resident)
		return;
	free(resident->regions);
	free(resident->entries);
	free(resident);
}

bool hf_resident_has_scan(const struct hf_resident *resident)
{
	return resident->has_scan;
}

static struct hf_error *find_by_scan(struct hf_resident *resident,
				     struct hf_range range, unsigned int skip,
				     struct hf_error *(*found)(void *arg,
							struct hf_range range),
				     void *arg)
{
	uint64_t at = range.start, not_these = resident->not_these;

	if (skip & HF_RESIDENT_SKIP_ZERO)
		not_these |= PAGE_IS_PFNZERO;
	if (skip & HF_RESIDENT_SKIP_FILE)
		not_these |= PAGE_IS_FILE;
	if (skip & HF_RESIDENT_SKIP_HUGE)
		not_these |= PAGE_IS_HUGE;
	while (at < range.end) {
		struct scan_arg scan_arg;
		int num = scan(resident, &scan_arg, at, range.end, not_these);

		if (num < 0 && errno == EINTR)
			continue;
		if (num < 0)
			return hf_error_os(errno, "cannot scan the page map");
		for (int i = 0; i < num; i++) {
			struct hf_error *err = found(arg, (struct hf_range){
				resident->regions[i].start,
				resident->regions[i].end });

			if (err)
				return err;
		}
		if (scan_arg.walk_end <= at)
			break;
		at = scan_arg.walk_end;
	}
	return NULL;
}

static struct hf_error *find_by_pagemap(struct hf_resident *resident,
					struct hf_range range,
					unsigned int skip,
					struct hf_error *(*found)(void *arg,
							struct hf_range range),
					void *arg)
{
	const uint64_t not_these = PAGEMAP_GUARD |
		(skip & HF_RESIDENT_SKIP_FILE ? PAGEMAP_FILE : 0);
	uint64_t at = range.start, first = 0;
	bool inside = false;

	while (at < range.end) {
		uint64_t num = hf_min_u64((range.end - at) / HF_PAGE_BYTES,
					  NUM_ENTRIES);
		ssize_t got = pread(resident->fd, resident->entries, num * 8,
				    at / HF_PAGE_BYTES * 8);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return hf_error_os(errno, "cannot read the page map");
		num = got / 8;
		if (!num)
			break;
		for (uint64_t i = 0; i < num; i++, at += HF_PAGE_BYTES) {
			uint64_t entry = resident->entries[i];
			bool here = entry & (PAGEMAP_PRESENT |
					     PAGEMAP_SWAPPED) &&
				    !(entry & not_these);

			if (here && !inside) {
				first = at;
			} else if (!here && inside) {
				struct hf_error *err = found(
					arg, (struct hf_range){ first, at });

				if (err)
					return err;
			}
			inside = here;
		}
	}
	return inside ? found(arg, (struct hf_range){ first, at }) : NULL;
}

struct hf_error *hf_resident_find(struct hf_resident *resident,
				  struct hf_range range, unsigned int skip,
				  struct hf_error *(*found)(void *arg,
							struct hf_range range),
				  void *arg)
{
	if (resident->has_scan)
		return find_by_scan(resident, range, skip, found, arg);
	return find_by_pagemap(resident, range, skip, found, arg);
}

struct hf_error *hf_resident_find_small(struct hf_resident *resident,
					struct hf_range range,
					struct hf_error *(*found)(void *arg,
							struct hf_range range),
					void *arg)
{
	if (resident->has_scan)
		return find_by_scan(resident, range, HF_RESIDENT_SKIP_HUGE,
				    found, arg);
	return find_by_pagemap(resident, range, 0, found, arg);
}
