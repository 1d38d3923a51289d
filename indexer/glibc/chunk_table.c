/* Chunk table: sizes and states of chunks in four bytes each.
 * SPDX-License-Identifier: MIT */
#include "indexer/glibc/chunk_table.h"

#include <inttypes.h>

enum { MAX_UNITS = (1 << 29) - 1 };

void hf_chunk_table_deinit(struct hf_chunk_table *table)
{
	hf_array_deinit(&table->entries);
	hf_array_deinit(&table->big);
	hf_array_deinit(&table->frees);
	hf_array_deinit(&table->links);
	hf_array_deinit(&table->link_pages);
	hf_array_deinit(&table->tcaches);
}

struct hf_error *hf_chunk_table_append(struct hf_chunk_table *table,
				       uint64_t size_bytes,
				       enum hf_chunk_state state)
{
	uint64_t units = size_bytes / HF_CHUNK_ALIGN;

	/* An entry of no size would be looked for among the big ones. */
	if (units == 0 || size_bytes % HF_CHUNK_ALIGN != 0)
		return hf_bad_data("a chunk of 0x%" PRIx64 " bytes",
				   size_bytes);
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
	if (low == table->big.num || table->big.data[low].entry != entry)
		return HF_CHUNK_ALIGN; /* append lets this not be */
	return table->big.data[low].size_bytes;
}

struct hf_error *hf_chunk_table_resize_last(struct hf_chunk_table *table,
					    uint64_t size_bytes)
{
	enum hf_chunk_state state;

	if (table->entries.num == 0)
		return hf_bad_data("no chunk to change");
	state = hf_chunk_table_state(table, table->entries.num - 1);
	if (table->entries.data[table->entries.num - 1] >> 3 == 0)
		table->big.num--;
	table->entries.num--;
	return hf_chunk_table_append(table, size_bytes, state);
}

enum { LINK_PAGE = 4096 };

struct hf_error *hf_chunk_table_add_link(struct hf_chunk_table *table,
					 uint64_t addr, uint64_t size_bytes,
					 uint64_t stored)
{
	struct hf_chunk_link link = {
		.addr = addr, .stored = stored,
		.size_units = size_bytes / HF_CHUNK_ALIGN,
		.entry = table->entries.num - 1,
	};
	struct hf_link_page page = {
		.addr = addr & ~(uint64_t)(LINK_PAGE - 1),
		.first = table->links.num,
	};
	struct hf_error *err;

	if (table->entries.num == 0 ||
	    size_bytes / HF_CHUNK_ALIGN >= HF_CHUNK_LINK_UNITS)
		return hf_bad_data("a link in a chunk of 0x%" PRIx64 " bytes",
				   size_bytes);
	if (table->link_pages.num == 0 ||
	    table->link_pages.data[table->link_pages.num - 1].addr !=
		    page.addr) {
		err = hf_array_append(&table->link_pages, page);
		if (err)
			return err;
	}
	return hf_array_append(&table->links, link);
}

const struct hf_chunk_link *
hf_chunk_table_find_link(const struct hf_chunk_table *table, uint64_t addr)
{
	uint64_t page = addr & ~(uint64_t)(LINK_PAGE - 1);
	size_t low = 0, high = table->link_pages.num;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (table->link_pages.data[mid].addr < page)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == table->link_pages.num ||
	    table->link_pages.data[low].addr != page)
		return NULL;
	for (size_t i = table->link_pages.data[low].first;
	     i < table->links.num && table->links.data[i].addr <= addr; i++) {
		if (table->links.data[i].addr == addr)
			return &table->links.data[i];
	}
	return NULL;
}
