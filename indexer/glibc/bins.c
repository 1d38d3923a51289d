/* Bins: follow the lists of free chunks in our own memory.
 * SPDX-License-Identifier: MIT */
#include "indexer/glibc/free_lists.h"

#include <inttypes.h>

/* The walk has copied fd and bk of every free chunk, so the lists are followed
 * there. A list that is not as it should be does not change what is free: that
 * is said by PREV_INUSE. It is counted. */

static int compare_frees(const void *a, const void *b)
{
	const struct hf_free_chunk *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

static struct hf_free_chunk *find_free(struct hf_chunk_table *table,
				       uint64_t addr)
{
	size_t low = 0, high = table->frees.num;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (table->frees.data[mid].addr < addr)
			low = mid + 1;
		else
			high = mid;
	}
	if (low < table->frees.num && table->frees.data[low].addr == addr)
		return &table->frees.data[low];
	return NULL;
}

enum direction { FORWARDS, BACKWARDS };

/* Visit the chunks of a bin from its header on. @return false if the list
 * breaks before it comes back. */
static bool follow_bin(const struct hf_glibc_heap *heap,
		       struct hf_chunk_table *table,
		       const struct hf_malloc_arena *arena, uint32_t bin,
		       enum direction direction)
{
	uint64_t header = arena->addr + heap->layout.bins + 16 * (bin - 1) -
			  HF_CHUNK_HEADER;
	bool forwards = direction == FORWARDS;
	uint64_t addr = forwards ? arena->bins[bin].fd : arena->bins[bin].bk;
	uint64_t prev = header, back;

	/* Every step visits a chunk that was not visited before. */
	while (addr != header) {
		struct hf_free_chunk *chunk = find_free(table, addr);

		if (!hf_work_step(heap->work))
			return false;
		if (!chunk) {
			hf_anomaly_add(heap->anomalies, HF_GLIBC_READER,
				       "bin entry", header,
				       "bin %" PRIu32 ": 0x%" PRIx64
				       " is no free chunk", bin, addr);
			return false;
		}
		if (chunk->visited) {
			if (forwards)
				hf_anomaly_add(heap->anomalies,
					       HF_GLIBC_READER, "bin loop",
					       header, "bin %" PRIu32 ": 0x%"
					       PRIx64 " comes twice", bin,
					       addr);
			return false;
		}
		chunk->visited = true;
		back = forwards ? chunk->bk : chunk->fd;
		if (back != prev)
			hf_anomaly_add(heap->anomalies, HF_GLIBC_READER,
				       "bin links", addr,
				       "neighbour is 0x%" PRIx64 ", the link "
				       "says 0x%" PRIx64, prev, back);
		prev = addr;
		addr = forwards ? chunk->fd : chunk->bk;
	}
	back = forwards ? arena->bins[bin].bk : arena->bins[bin].fd;
	if (back != prev)
		hf_anomaly_add(heap->anomalies, HF_GLIBC_READER, "bin links",
			       header, "bin %" PRIu32 ": ends with 0x%" PRIx64
			       ", its header says 0x%" PRIx64, bin, prev,
			       back);
	return true;
}

static bool is_sorted(const struct hf_chunk_table *table)
{
	for (size_t i = 1; i < table->frees.num; i++) {
		if (table->frees.data[i - 1].addr > table->frees.data[i].addr)
			return false;
	}
	return true;
}

struct hf_error *hf_bins_check(const struct hf_glibc_heap *heap,
			       struct hf_chunk_table *table)
{
	if (!is_sorted(table))
		qsort(table->frees.data, table->frees.num,
		      sizeof(table->frees.data[0]), compare_frees);
	for (size_t a = 0; a < heap->arenas.num; a++) {
		const struct hf_malloc_arena *arena = &heap->arenas.data[a];

		if (!arena->top)
			continue;
		for (uint32_t bin = 1; bin < HF_MALLOC_NUM_BINS; bin++) {
			/* Of a broken list, what the other end leads to. */
			if (!follow_bin(heap, table, arena, bin, FORWARDS))
				follow_bin(heap, table, arena, bin, BACKWARDS);
		}
	}
	for (size_t i = 0; i < table->frees.num; i++) {
		const struct hf_free_chunk *chunk = &table->frees.data[i];
		struct hf_error *err = hf_work_turn(heap->work);

		if (err)
			return err;
		if (!chunk->visited)
			hf_anomaly_add(heap->anomalies, HF_GLIBC_READER,
				       "free chunk in no bin", chunk->addr,
				       "of 0x%" PRIx64 " bytes",
				       (uint64_t)chunk->size_units *
					       HF_CHUNK_ALIGN);
	}
	return hf_work_check(heap->work);
}
