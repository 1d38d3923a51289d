/* PC table: a number for each program counter that was met.
 * SPDX-License-Identifier: MIT */
#include "indexer/stacks/pc_table.h"

enum { FIRST_SLOTS = 1024 };

struct hf_pc_slot {
	uint64_t pc;
	uint32_t number;
	bool used;
};

/* The slot of pc, or the empty one where it belongs. */
static struct hf_pc_slot *slot_of(struct hf_pc_slot *slots, size_t num_slots,
				  uint64_t pc)
{
	/* 2^64 divided by the golden ratio spreads neighbours. */
	size_t at = (size_t)((pc * UINT64_C(0x9e3779b97f4a7c15)) >> 32) &
		    (num_slots - 1);

	while (slots[at].used && slots[at].pc != pc)
		at = (at + 1) & (num_slots - 1);
	return &slots[at];
}

const uint32_t *hf_pc_table_find(const struct hf_pc_table *table, uint64_t pc)
{
	const struct hf_pc_slot *slot;

	if (!table->num)
		return NULL;
	slot = slot_of(table->slots, table->num_slots, pc);
	return slot->used ? &slot->number : NULL;
}

static struct hf_error *grow(struct hf_pc_table *table)
{
	size_t num_slots = table->num_slots ? table->num_slots * 2
					    : FIRST_SLOTS;
	struct hf_pc_slot *slots = calloc(num_slots, sizeof(*slots));

	if (!slots)
		return &hf_enomem;
	for (size_t i = 0; i < table->num_slots; i++)
		if (table->slots[i].used)
			*slot_of(slots, num_slots, table->slots[i].pc) =
				table->slots[i];
	free(table->slots);
	table->slots = slots;
	table->num_slots = num_slots;
	return NULL;
}

struct hf_error *hf_pc_table_add(struct hf_pc_table *table, uint64_t pc,
				 uint32_t number)
{
	if (table->num * 2 >= table->num_slots) {
		struct hf_error *err = grow(table);

		if (err)
			return err;
	}
	*slot_of(table->slots, table->num_slots, pc) =
		(struct hf_pc_slot){ pc, number, true };
	table->num++;
	return NULL;
}

void hf_pc_table_deinit(struct hf_pc_table *table)
{
	free(table->slots);
	*table = (struct hf_pc_table){ 0 };
}
