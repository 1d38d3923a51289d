/* Names of the system calls of x86-64.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_SYSCALL_NAME_H
#define HF_INDEXER_SYSCALL_NAME_H

#include <stddef.h>
#include <stdint.h>

/** "futex", as the kernel headers of the build name it; NULL: younger than
 * those, or none. The table is made of them at build time. */
const char *hf_syscall_name(uint64_t number);

#endif
