/* The type of every block: vtable, the allocator's word, or its size class.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_BLOCK_TYPE_H
#define HF_INDEXER_BLOCK_TYPE_H

#include "indexer/type_table.h"
#include "util/progress.h"

/** How the type of a block was found. */
enum hf_type_rule {
	HF_RULE_SIZE,      /* size class: nothing better is known */
	HF_RULE_ALLOCATOR, /* the reader marked it as internal */
	HF_RULE_VTABLE,    /* first word is the vtable of a symbol */
	HF_RULE_RTTI,      /* first word leads to type information whose name
			    * is in memory (stripped programs) */
};

/**
 * @param first_word num of blocks entries, from the scan.
 * @param type_ret num of blocks entries, index in types.
 * @param rule_ret num of blocks entries, enum hf_type_rule.
 */
struct hf_error *hf_block_types(const struct hf_image *image,
				const struct hf_block_table *blocks,
				const uint64_t *first_word,
				struct hf_type_table *types,
				const struct hf_progress *progress,
				uint32_t *type_ret, uint8_t *rule_ret)
	HF_MUST_CHECK;

#endif
