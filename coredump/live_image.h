/* The image of a process that runs on: to find in it what does not move.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_LIVE_IMAGE_H
#define HF_COREDUMP_LIVE_IMAGE_H

#include "coredump/image.h"
#include "coredump/proc_maps.h"

/**
 * An image without threads of a process that nobody has stopped: code, read-only
 * data and the addresses of variables can be found in it; what is read of a
 * heap may contradict itself. All memory counts as resident, and is looked at
 * when it is read: pages that the process has not touched are zero, and stay
 * untouched. Shared and device memory is not in it, and files have no
 * symbols. Needs the rights that ptrace needs.
 *
 * @param maps of the process; needed for this call only.
 */
struct hf_error *hf_live_image_open(pid_t pid, const struct hf_proc_maps *maps,
				    struct hf_image **ret) HF_MUST_CHECK;

#endif
