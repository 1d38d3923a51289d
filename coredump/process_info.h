/* Process info: what a core says about the process as a whole.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_PROCESS_INFO_H
#define HF_COREDUMP_PROCESS_INFO_H

#include <sys/types.h>

#include "util/error.h"

enum { HF_PROCESS_ARGS_BYTES = 80, HF_AUXV_MAX_BYTES = 4096 };

/** All zero is a process of which nothing is known. */
struct hf_process_info {
	pid_t pid, parent, group, session;
	uid_t uid;               /* real */
	gid_t gid;
	char state;              /* as in /proc/PID/stat; 0: not known */
	int8_t nice;
	uint64_t flags;          /* PF_* of the kernel */
	char name[16];           /* comm, NUL-terminated */
	char args[HF_PROCESS_ARGS_BYTES]; /* start of the command line, blanks
				  * between arguments, NUL-terminated */
	uint8_t auxv[HF_AUXV_MAX_BYTES]; /* Elf64_auxv_t, as the kernel gave
				  * them to the program */
	size_t auxv_bytes;
};

/**
 * Read it from /proc/PID. What cannot be read stays zero; only a process that
 * is not there is an error.
 */
struct hf_error *hf_process_info_read(pid_t pid, struct hf_process_info *ret)
	HF_MUST_CHECK;

/** The value of an AT_* entry of auxv, or false. */
bool hf_process_info_auxv(const struct hf_process_info *info, uint64_t type,
			  uint64_t *ret);

#endif
