/* Chunk index: every 64th entry of the chunk table, with its address.
 * SPDX-License-Identifier: MIT */
#include "indexer/glibc/chunk_index.h"

enum { EVERY = 64 };

static struct hf_error *add_region(struct hf_chunk_index *index,
				   const struct hf_glibc_heap *heap,
				   const struct hf_malloc_region *region)
{
	struct hf_chunk_mark mark = { region->first, region->first_entry };
	size_t end = region->first_entry + region->num_entries;
	struct hf_error *err;

	while (mark.entry < end) {
		err = hf_array_append(&index->marks, mark);
		if (!err)
			err = hf_work_turn(heap->work);
		if (err)
			return err;
		for (size_t i = 0; i < EVERY && mark.entry < end; i++)
			mark.addr += hf_chunk_table_size(index->table,
							 mark.entry++);
	}
	return NULL;
}

struct hf_error *hf_chunk_index_init(struct hf_chunk_index *index,
				     const struct hf_glibc_heap *heap,
				     const struct hf_chunk_table *table)
{
	*index = (struct hf_chunk_index){ .table = table };
	for (size_t i = 0; i < heap->regions.num; i++) {
		struct hf_error *err = add_region(index, heap,
						  &heap->regions.data[i]);

		if (err)
			return err;
	}
	return NULL;
}

void hf_chunk_index_deinit(struct hf_chunk_index *index)
{
	hf_array_deinit(&index->marks);
}

bool hf_chunk_index_find(const struct hf_chunk_index *index, uint64_t addr,
			 size_t *entry_ret)
{
	size_t low = 0, high = index->marks.num, end;
	struct hf_chunk_mark at;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (index->marks.data[mid].addr <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == 0)
		return false;
	at = index->marks.data[low - 1];
	end = low < index->marks.num ? index->marks.data[low].entry :
				       index->table->entries.num;
	for (; at.entry < end && at.addr < addr; at.entry++)
		at.addr += hf_chunk_table_size(index->table, at.entry);
	if (at.entry == end || at.addr != addr)
		return false;
	*entry_ret = at.entry;
	return true;
}
