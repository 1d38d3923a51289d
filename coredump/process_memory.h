/* The bytes of a process: /proc/PID/mem, or process_vm_readv.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_PROCESS_MEMORY_H
#define HF_COREDUMP_PROCESS_MEMORY_H

#include <sys/types.h>

#include "coredump/image.h"

struct hf_process_memory {
	pid_t pid;
	int mem_fd;      /* /proc/PID/mem, or -1 if it cannot be opened; owned */
};

/** As read of struct hf_image_ops. May be called by several threads. */
size_t hf_process_memory_read(const struct hf_process_memory *memory,
			      const struct hf_range *ranges,
			      size_t num_ranges, void *buf);

/** The same by process_vm_readv wherever that is allowed: many small ranges in
 * one call, for a process whose time is dear. Not for a forked child: see the
 * .c file. At most 1024 ranges. */
size_t hf_process_memory_gather(const struct hf_process_memory *memory,
				const struct hf_range *ranges,
				size_t num_ranges, void *buf);

#endif
