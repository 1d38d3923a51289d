/* Core segments: the mappings of a core, as an image has them.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_CORE_CORE_SEGMENTS_H
#define HF_COREDUMP_CORE_CORE_SEGMENTS_H

#include "coredump/core/core_elf.h"

/** The mapped file with addr, or NULL. */
const struct hf_core_mapped *
hf_core_mapped_at(const struct hf_core_notes *notes, uint64_t addr);

/** Start of the first mapped file above addr; HF_ADDRESS_END: none. */
uint64_t hf_core_mapped_next(const struct hf_core_notes *notes, uint64_t addr);

/** Path of the main program in the core, or NULL; borrowed of the notes. */
const char *hf_core_exe_path(const struct hf_core_notes *notes);

/**
 * Add segments, resident ranges and losses to an image that is not frozen.
 *
 * @param missing_bytes bytes that the process had and nobody has any more are
 * added.
 */
struct hf_error *hf_core_segments_add(struct hf_image *image,
				      const struct hf_core_file *file,
				      const struct hf_core_notes *notes,
				      const struct hf_core_elfs *elfs,
				      uint64_t *missing_bytes) HF_MUST_CHECK;

#endif
