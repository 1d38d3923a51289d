/* Allocation log: the truth about a victim's heap, in a shared file.
 * SPDX-License-Identifier: MIT */
#ifndef HF_TESTS_SUPPORT_ALLOC_LOG_H
#define HF_TESTS_SUPPORT_ALLOC_LOG_H

#include <stdint.h>

/* alloc_log.c is preloaded into (or wrapped around malloc of) a victim. It
 * keeps the table of all blocks that are live at this moment in the file named
 * by HF_ALLOC_LOG; the test maps the file too. Nothing has to be asked of the
 * victim, and nothing goes through its heap. A child that the victim forks
 * goes on in a file of its own, with the suffix ".child". */

enum { ALLOC_LOG_CAPACITY = 1 << 21 }; /* entries; a power of two */

struct alloc_log_entry {
	uint64_t addr;      /* 0: never used, 1: freed */
	uint64_t requested; /* bytes */
	uint64_t usable;    /* bytes, by malloc_usable_size */
};

struct alloc_log {
	uint64_t num;       /* live entries */
	uint64_t full;      /* the table was too small: the log is no truth */
	uint32_t lock;
	struct alloc_log_entry entries[ALLOC_LOG_CAPACITY];
};

#endif
