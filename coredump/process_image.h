/* The image of a stopped process, read through /proc.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_PROCESS_IMAGE_H
#define HF_COREDUMP_PROCESS_IMAGE_H

#include "coredump/image.h"

/**
 * Open the memory of `pid`, which must not run while the image lives (for
 * heapfork it is the forked child). Segments come from /proc/PID/maps and
 * smaps flags, resident ranges from PAGEMAP_SCAN, or pagemap on kernels before
 * 6.7; bytes come from /proc/PID/mem, or process_vm_readv where that cannot be
 * opened. What its parent kept out of the fork is read from the parent, if it
 * is still there (hf_segment.late), else it is a loss (hf_image_losses).
 * Reading populates nothing, and leaves what a child shares with its
 * parent shared. Needs the rights that ptrace needs; takes none.
 *
 * @param threads copied; of the process that was forked, not of the child.
 */
struct hf_error *hf_process_image_open(pid_t pid,
				       const struct hf_thread *threads,
				       size_t num_threads,
				       struct hf_image **ret) HF_MUST_CHECK;

/** As hf_process_image_open, for a process that was not forked but stands
 * still itself while the image lives: all of its memory is of that instant,
 * also what it shares or keeps out of its forks. */
struct hf_error *hf_process_image_open_self(pid_t pid,
					    const struct hf_thread *threads,
					    size_t num_threads,
					    struct hf_image **ret)
	HF_MUST_CHECK;

#endif
