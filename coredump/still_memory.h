/* Still memory: the bytes of a process that stands, read without a trace.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_STILL_MEMORY_H
#define HF_COREDUMP_STILL_MEMORY_H

#include "coredump/process_memory.h"

/* A forked child may map pages as they are read. A process that stands itself
 * goes on, and must be as it was: to read a page of a file that it has not
 * mapped yet would be a fault of it, which adds to its page tables and its
 * resident size. The file has the same bytes, so they are read there.
 *
 * That needs the file: where it cannot be opened, or is not the one that is
 * mapped any more, the process is read. The vdso is read in this process. */

struct hf_still_memory;

/** @param image whose bytes these are; borrowed. Its files are opened with the
 * first read, when it is frozen.
 * @param memory of the process; borrowed. */
struct hf_error *
hf_still_memory_create(const struct hf_image *image,
		       const struct hf_process_memory *memory,
		       struct hf_still_memory **ret) HF_MUST_CHECK;
void hf_still_memory_destroy(struct hf_still_memory *still);

/** As read of struct hf_image_ops. May be called by several threads. */
size_t hf_still_memory_read(struct hf_still_memory *still,
			    const struct hf_range *ranges, size_t num_ranges,
			    void *buf);

HF_DEFINE_AUTO(struct hf_still_memory *, hf_still_memory,
	       hf_still_memory_destroy)

#endif
