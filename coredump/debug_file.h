/* The separate debug file of a module, found by build id.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_DEBUG_FILE_H
#define HF_COREDUMP_DEBUG_FILE_H

#include "coredump/image.h"

/**
 * Open /usr/lib/debug/.build-id/xx/yyy.debug, the target's or else our own; of
 * an image with folders of its own for debug files, there first.
 *
 * @return a descriptor the caller closes, or -1: there is none.
 */
int hf_debug_file_open(const struct hf_image *image,
		       const struct hf_module *module);

#endif
