/* Chunk table: sizes and states of chunks in four bytes each.
 * SPDX-License-Identifier: MIT */
#include "indexer/glibc/chunk_table.h"

#include <assert.h>

enum { MAX_UNITS = (1 << 29) - 1 };

void hf_chunk_table_deinit(struct hf_chunk_table *table)
{
	hf_array_deinit(&table->entries);
	hf_array_deinit(&table->big);
	hf_array_deinit(&table->frees);
	hf_array_deinit(&table->tcaches);
}

struct hf_error *hf_chunk_table_append(struct hf_chunk_table *table,
				       uint64_t size_bytes,
				       enum hf_chunk_state state)
{
	uint64_t units = size_bytes / HF_CHUNK_ALIGN;

	assert(units > 0 && size_bytes % HF_CHUNK_ALIGN == 0);
	if (units > MAX_UNITS) {
		struct hf_big_chunk big = { table->entries.num, size_bytes };
		struct hf_error *err = hf_array_append(&table->big, big);

		if (err)
			return err;
		units = 0;
	}
	return hf_array_append(&table->entries, (uint32_t)(units << 3) | state);
}

uint64_t hf_chunk_table_big_size(const struct hf_chunk_table *table,
				 size_t entry)
{
	size_t low = 0, high = table->big.num;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (table->big.data[mid].entry < entry)
			low = mid + 1;
		else
			high = mid;
	}
	assert(low < table->big.num && table->big.data[low].entry == entry);
	return table->big.data[low].size_bytes;
}

struct hf_error *hf_chunk_table_resize_last(struct hf_chunk_table *table,
					    uint64_t size_bytes)
{
	enum hf_chunk_state state;

	assert(table->entries.num > 0);
	state = hf_chunk_table_state(table, table->entries.num - 1);
	if (table->entries.data[table->entries.num - 1] >> 3 == 0)
		table->big.num--;
	table->entries.num--;
	return hf_chunk_table_append(table, size_bytes, state);
}
