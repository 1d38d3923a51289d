/* Ways of reading a process that a test wants to forbid.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_PROCESS_IMAGE_INTERNAL_H
#define HF_COREDUMP_PROCESS_IMAGE_INTERNAL_H

#include "coredump/process_image.h"

enum hf_process_image_flags {
	HF_PROCESS_IMAGE_NO_SCAN = 1 << 0, /* as on Linux before 6.7 */
	HF_PROCESS_IMAGE_NO_MEM = 1 << 1,  /* as if /proc/PID/mem could not be
					    * opened */
	HF_PROCESS_IMAGE_SELF = 1 << 2,    /* no fork: see
					    * hf_process_image_open_self */
};

struct hf_error *hf_process_image_open_flags(pid_t pid,
					     const struct hf_thread *threads,
					     size_t num_threads,
					     unsigned int flags,
					     struct hf_image **ret)
	HF_MUST_CHECK;

#endif
