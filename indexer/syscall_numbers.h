/* What the table of system calls is made of: see cmake/syscall_names.awk.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_SYSCALL_NUMBERS_H
#define HF_INDEXER_SYSCALL_NUMBERS_H

#include <asm/unistd_64.h>

#endif
