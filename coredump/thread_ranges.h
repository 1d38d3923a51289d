/* Live stack and TLS of each thread, by its registers.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_THREAD_RANGES_H
#define HF_COREDUMP_THREAD_RANGES_H

#include "coredump/image.h"

/**
 * Fill in stack, tls and on_other_stack of all threads of an image whose
 * segments are sorted and whose modules are known. No two of the ranges
 * overlap.
 */
struct hf_error *hf_thread_ranges_fill(struct hf_image *image) HF_MUST_CHECK;

#endif
