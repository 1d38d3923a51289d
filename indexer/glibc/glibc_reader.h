/* Glibc reader: the heap of glibc's malloc in an image.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_GLIBC_GLIBC_READER_H
#define HF_INDEXER_GLIBC_GLIBC_READER_H

#include "indexer/heap_reader.h"

/* Areas: the memory from brk and every segment that stands in for it, every
 * heap of a thread's arena with its headers (not the reserve behind it), and
 * every mmapped chunk. Arena 0 is main_arena, the others count in the order of
 * glibc's list; several libcs in one process (dlmopen) count on.
 *
 * Blocks: chunks in use are live; what is in a tcache or a fastbin is cached;
 * what is in the bins is free, and so is `top` of each arena; the tcaches
 * themselves are internal. Sizes are what malloc_usable_size() says. */

/** Name "glibc-malloc". open() returns NOT_FOUND when there is no glibc, or
 * when its malloc was never used; UNSUPPORTED when its version is not known
 * and neither debug information nor its structure tell the layout. */
extern const struct hf_heap_reader_ops hf_glibc_reader;

/** What open() may use; for tests, which take the harder ways. */
struct hf_glibc_options {
	bool no_symbols;  /* find main_arena and mp_ by their structure */
	bool no_dwarf;    /* use the table of layouts */
	bool no_version;  /* find out which layout it is by its structure */
	const struct hf_progress *progress; /* borrowed; may be NULL */
};

/** As hf_glibc_reader.open, with options. */
struct hf_error *hf_glibc_open(const struct hf_image *image,
			       struct hf_anomalies *anomalies,
			       const struct hf_glibc_options *options,
			       void **ret) HF_MUST_CHECK;

#endif
