/* PC table: a number for each program counter that was met.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_STACKS_PC_TABLE_H
#define HF_INDEXER_STACKS_PC_TABLE_H

#include "util/error.h"

/* Thousands of threads stand in a few functions: what is costly to find out
 * about an address is found out once. All zero is an empty table. */
struct hf_pc_table {
	struct hf_pc_slot *slots;  /* a power of two of them, half empty */
	size_t num_slots, num;
};

/** Where the number of pc is kept, or NULL: not met. */
const uint32_t *hf_pc_table_find(const struct hf_pc_table *table, uint64_t pc);
/** pc must not be in the table. */
struct hf_error *hf_pc_table_add(struct hf_pc_table *table, uint64_t pc,
				 uint32_t number) HF_MUST_CHECK;
void hf_pc_table_deinit(struct hf_pc_table *table);

#endif
