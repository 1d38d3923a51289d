/* Window: a small cache for scattered reads of an image.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_WINDOW_H
#define HF_COREDUMP_WINDOW_H

#include "coredump/image.h"

/* Direct-mapped slots of 64 KiB. A walk that goes upwards, or hops within
 * some megabytes, costs one read for each 64 KiB. One window per thread. */

struct hf_window;

/** @param num_slots power of two; memory is num_slots x 64 KiB. */
struct hf_error *hf_window_create(const struct hf_image *image,
				  size_t num_slots, struct hf_window **ret)
	HF_MUST_CHECK;
void hf_window_destroy(struct hf_window *window);

/** Copy len <= 65536 bytes, or false when any of them is not readable. */
bool hf_window_peek(struct hf_window *window, uint64_t addr, void *buf,
		    size_t len);
bool hf_window_peek_u64(struct hf_window *window, uint64_t addr,
			uint64_t *ret);

HF_DEFINE_AUTO(struct hf_window *, hf_window, hf_window_destroy)

#endif
