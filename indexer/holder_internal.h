/* What the parts of the search for root holders share.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_HOLDER_INTERNAL_H
#define HF_INDEXER_HOLDER_INTERNAL_H

#include "indexer/carve.h"
#include "indexer/holder.h"

/** Holders in the making: not sorted yet. */
struct hf_holder_list {
	HF_ARRAY(struct hf_holder) list;
};

void hf_holder_list_deinit(struct hf_holder_list *holders);

/** Append; takes holder->name, also on failure (a NULL name is NO_MEMORY). */
struct hf_error *hf_holder_list_take(struct hf_holder_list *holders,
				     const struct hf_holder *holder)
	HF_MUST_CHECK;

/** Carve the data of all modules out of free memory: one holder for each
 * variable with a symbol, one for each stretch of a section between them. */
struct hf_error *hf_holders_of_modules(const struct hf_image *image,
				       struct hf_ranges *free_ranges,
				       struct hf_holder_list *holders,
				       const struct hf_progress *progress)
	HF_MUST_CHECK;

/**
 * Carve the stacks (by their frames) and TLS blocks of all threads out of free
 * memory, and add their registers. The part of a thread's own stack below its stack pointer
 * is carved, too, and held by nobody: what lies there is dead.
 */
struct hf_error *hf_holders_of_threads(const struct hf_image *image,
				       const struct hf_stacks *stacks,
				       struct hf_ranges *free_ranges,
				       struct hf_holder_list *holders)
	HF_MUST_CHECK;

#endif
