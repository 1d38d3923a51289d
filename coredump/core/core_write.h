/* Write an image as an ELF core.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_CORE_CORE_WRITE_H
#define HF_COREDUMP_CORE_CORE_WRITE_H

#include "coredump/core/core_format.h"
#include "coredump/image.h"
#include "coredump/process_info.h"
#include "util/progress.h"

struct hf_core_write_options {
	uint32_t filter;          /* HF_CORE_*: which memory; 0 is 0 */
	bool with_dontdump;       /* also MADV_DONTDUMP memory */
	int zstd_level;           /* compress; 0: no */
	unsigned num_workers;     /* threads that compress; 0: one per CPU */
	uint64_t max_bytes;       /* largest file; more is NO_SPACE; 0: any */
	uint64_t keep_free_bytes; /* leave this much on the file system */
	const struct hf_process_info *process; /* borrowed */
	const struct hf_range *only; /* bytes to keep, ascending and disjoint:
				   * the rest of writable memory is left out,
				   * and the core marked as stripped; NULL:
				   * keep all. Borrowed */
	size_t num_only;
	const char *capture;      /* lines for HF_NOTE_CAPTURE, or NULL */
	const struct hf_progress *progress;
};

struct hf_core_summary {
	uint64_t num_segments;    /* PT_LOADs */
	uint64_t memory_bytes;    /* resident bytes that were to be written */
	uint64_t zero_bytes;      /* of them: pages of zeros, left as holes */
	uint64_t missing_bytes;   /* of them: could not be read */
	uint64_t file_bytes;      /* length of the file */
	uint64_t disk_bytes;      /* what it takes there: without holes */
};

/** How large the file will be, without reading memory: its length, and the
 * most it can take on disk (uncompressed). */
struct hf_error *
hf_core_write_estimate(const struct hf_image *image,
		       const struct hf_core_write_options *options,
		       struct hf_core_summary *ret) HF_MUST_CHECK;

/**
 * Write the core to an empty, seekable file. Untouched and zero pages become
 * holes; a large gap in a mapping becomes a PT_LOAD without bytes. The page
 * cache is relieved of what was written.
 *
 * @param name of the file, for messages.
 * @return NULL, NO_SPACE (limits, or disk full), INTERRUPTED, OS. The file's
 * content is then to be thrown away.
 */
struct hf_error *hf_core_write(const struct hf_image *image, int fd,
			       const char *name,
			       const struct hf_core_write_options *options,
			       struct hf_core_summary *ret) HF_MUST_CHECK;

#endif
