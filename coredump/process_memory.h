/* The bytes of a process: process_vm_readv, or /proc/PID/mem.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_PROCESS_MEMORY_H
#define HF_COREDUMP_PROCESS_MEMORY_H

#include <sys/types.h>

#include "coredump/image.h"

struct hf_process_memory {
	pid_t pid;
	int mem_fd;      /* /proc/PID/mem, or -1; owned */
	bool no_readv;   /* process_vm_readv is forbidden. Set once, by the
			  * first that finds out; atomic accesses only */
};

/** As read of struct hf_image_ops. May be called by several threads. */
size_t hf_process_memory_read(struct hf_process_memory *memory,
			      const struct hf_range *ranges,
			      size_t num_ranges, void *buf);

#endif
