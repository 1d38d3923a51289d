/* What a mapping is to an image: heap, stack, file, shared, special.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_SEGMENT_KIND_H
#define HF_COREDUMP_SEGMENT_KIND_H

#include "coredump/image.h"
#include "coredump/proc_maps.h"

/** The segment of a mapping; its path is borrowed from the mapping. */
struct hf_segment hf_segment_of_mapping(const struct hf_mapping *mapping);

/** Shared memory that has no file, or one in memory, by its name in maps. */
bool hf_path_is_plain_shared(const char *path);

#endif
