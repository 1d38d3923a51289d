/* Free huge pages: how much memory the kernel has in pieces of 2 MiB or more.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_FREE_HUGE_H
#define HF_FORK_AGENT_FREE_HUGE_H

#include "util/error.h"

enum { HF_HUGE_BYTES = 2 * 1024 * 1024 };

/**
 * Add up what the text of /proc/buddyinfo says of free pieces of 2 MiB and
 * more, in all zones but the one for ancient devices (DMA).
 *
 * @param text NUL-terminated.
 * @return BAD_DATA if a line is not one of this file.
 */
struct hf_error *hf_free_huge_parse(const char *text, uint64_t *bytes_ret)
	HF_MUST_CHECK;

/** Of this machine, now. */
struct hf_error *hf_free_huge_read(uint64_t *bytes_ret) HF_MUST_CHECK;

#endif
