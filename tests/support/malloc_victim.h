/* Malloc victim: a stopped process, its image, and the truth about its heap.
 * SPDX-License-Identifier: MIT */
#ifndef HF_TESTS_SUPPORT_MALLOC_VICTIM_H
#define HF_TESTS_SUPPORT_MALLOC_VICTIM_H

#include "coredump/image.h"
#include "tests/support/alloc_log.h"

/** What the program says about itself; see malloc_log.c. */
struct malloc_victim_info {
	uint64_t arena, ordblks, hblks, hblkhd, fsmblks, uordblks, fordblks,
		keepcost;
};

struct malloc_victim;

/**
 * Start `argv` (NULL-terminated) with `env` ("NAME=value" texts, may be NULL)
 * added to a small environment, wait until it says that it is ready, stop all
 * its threads, and open its image. HF_ALLOC_LOG is set to a new file.
 *
 * @return NULL when the victim ended without a word; aborts on other trouble.
 */
struct malloc_victim *malloc_victim_start(const char *const *argv,
					  const char *const *env);
/** Kill it, and its parent if it is a child. */
void malloc_victim_destroy(struct malloc_victim *victim);

struct hf_image *malloc_victim_image(struct malloc_victim *victim);
const struct malloc_victim_info *
malloc_victim_info(const struct malloc_victim *victim);

/** Its live blocks, ascending by address. Borrowed. */
const struct alloc_log_entry *
malloc_victim_blocks(const struct malloc_victim *victim, size_t *num_ret);

#endif
