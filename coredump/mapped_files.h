/* Mapped files: the files behind an image's mappings, kept open.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_MAPPED_FILES_H
#define HF_COREDUMP_MAPPED_FILES_H

#include "coredump/image.h"

/* Pages of a file that nobody wrote to are the file's, in memory and on disk.
 * With the file open they can be read when the process is gone, and need not
 * be copied: all of a program's text, and a database that it maps. */

struct hf_mapped_files;

/**
 * Open the file of each segment that has one, through the image. What cannot
 * be opened, or is not the very file that is mapped, is left out.
 *
 * @param image frozen; not kept.
 * @param max_files descriptors it may take.
 */
struct hf_error *hf_mapped_files_open(const struct hf_image *image,
				      size_t max_files,
				      struct hf_mapped_files **ret)
	HF_MUST_CHECK;
void hf_mapped_files_close(struct hf_mapped_files *files);

/** @param segment index in hf_image_segments.
 * @return a borrowed descriptor, or -1. */
int hf_mapped_files_fd(const struct hf_mapped_files *files, size_t segment);

/** The same file once more, with a position of its own; the caller closes it.
 * @return a descriptor, or -1. */
int hf_mapped_files_reopen(const struct hf_mapped_files *files,
			   size_t segment);

/**
 * Read a part of a segment as the file has it: zero behind its end, as long as
 * that is in its last page.
 *
 * @param range in the segment.
 * @return bytes copied; less than asked: the next byte does not exist.
 */
size_t hf_mapped_files_read(const struct hf_mapped_files *files,
			    const struct hf_image *image, size_t segment,
			    struct hf_range range, void *buf);

HF_DEFINE_AUTO(struct hf_mapped_files *, hf_mapped_files,
	       hf_mapped_files_close)

#endif
