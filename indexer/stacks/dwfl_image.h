/* An image's modules for libdwfl.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_STACKS_DWFL_IMAGE_H
#define HF_INDEXER_STACKS_DWFL_IMAGE_H

#include <elfutils/libdwfl.h>

#include "coredump/image.h"

struct hf_dwfl_link; /* what the callbacks know of a module */

struct hf_dwfl_image {
	Dwfl *dwfl;
	struct hf_dwfl_link *links;
};

/**
 * Report every module whose file is to be had; its debug file is looked for
 * when it is needed. The vdso, which has no file, is taken from memory. The
 * image must live as long as the result.
 */
struct hf_error *hf_dwfl_image_init(const struct hf_image *image,
				    struct hf_dwfl_image *ret) HF_MUST_CHECK;
/** Safe on an all-zero one. */
void hf_dwfl_image_deinit(struct hf_dwfl_image *dwfl_image);

#endif
