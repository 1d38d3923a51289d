/* Inside of an image: for the files of coredump/ only.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_IMAGE_INTERNAL_H
#define HF_COREDUMP_IMAGE_INTERNAL_H

#include "coredump/image.h"
#include "util/array.h"

enum {
	HF_PAGE_BYTES = 4096,
};

/* User addresses of x86-64 with 4-level page tables end here; what lies above
 * (vsyscall) is never part of an image. */
#define HF_ADDRESS_END (UINT64_C(1) << 47)

struct hf_image {
	const struct hf_image_ops *ops;       /* borrowed, constant */
	void *arg;                            /* owned, by ops->destroy */
	bool frozen;
	HF_ARRAY(struct hf_segment) segments; /* sorted once frozen */
	HF_ARRAY(struct hf_range) resident;   /* sorted and disjoint once
					       * frozen; each in one segment */
	HF_ARRAY(struct hf_module) modules;   /* sorted by start */
	HF_ARRAY(struct hf_thread) threads;   /* as added */
	HF_ARRAY(const char *) losses;        /* in texts */
	HF_ARRAY(char *) texts;               /* all paths, owned */
};

/** Index of the first resident range that ends above addr. */
size_t hf_image_resident_after(const struct hf_image *image, uint64_t addr);

/** Index of the first segment that ends above addr. */
size_t hf_image_segment_after(const struct hf_image *image, uint64_t addr);

/** Copy of `len` characters that lives as long as the image. */
struct hf_error *hf_image_add_text(struct hf_image *image, const char *text,
				   size_t len, const char **ret) HF_MUST_CHECK;

static inline uint64_t hf_page_down(uint64_t addr)
{
	return addr & ~(uint64_t)(HF_PAGE_BYTES - 1);
}

static inline uint64_t hf_min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t hf_max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

#endif
