/* Block sink: keeps and checks what a heap reader reports.
 * SPDX-License-Identifier: MIT */
#include "tests/support/block_sink.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/test_main.h"

static void check(bool condition, const char *what, uint64_t addr)
{
	if (condition)
		return;
	fprintf(stderr, "block sink: %s at 0x%" PRIx64 "\n", what, addr);
	abort();
}

static struct hf_error *put_area(void *arg, const struct hf_area *area,
				 uint32_t *id_ret)
{
	struct block_sink *sink = arg;

	check(area->start < area->end, "empty area", area->start);
	*id_ret = sink->areas.num;
	return hf_array_append(&sink->areas, *area);
}

static void put_totals(void *arg, uint32_t id, const struct hf_area *totals)
{
	struct block_sink *sink = arg;

	check(id < sink->areas.num, "totals of no area", id);
	sink->areas.data[id].used_bytes = totals->used_bytes;
	sink->areas.data[id].free_bytes = totals->free_bytes;
	sink->areas.data[id].cached_bytes = totals->cached_bytes;
	sink->areas.data[id].trim_bytes = totals->trim_bytes;
}

static struct hf_error *put_blocks(void *arg, const struct hf_block *blocks,
				   size_t num)
{
	struct block_sink *sink = arg;
	struct hf_error *err = hf_array_reserve(&sink->blocks, num);

	if (err)
		return err;
	for (size_t i = 0; i < num; i++) {
		const struct hf_block *last =
			sink->blocks.num ?
				&sink->blocks.data[sink->blocks.num - 1] :
				NULL;
		const struct hf_area *area;

		check(blocks[i].area_id < sink->areas.num, "no area",
		      blocks[i].addr);
		area = &sink->areas.data[blocks[i].area_id];
		check(blocks[i].addr >= area->start &&
			      blocks[i].addr <= area->end &&
			      blocks[i].size_bytes <=
				      area->end - blocks[i].addr,
		      "block outside of its area", blocks[i].addr);
		check(!last || last->area_id != blocks[i].area_id ||
			      last->addr < blocks[i].addr,
		      "not in order", blocks[i].addr);
		sink->blocks.data[sink->blocks.num++] = blocks[i];
	}
	return NULL;
}

void block_sink_init(struct block_sink *sink, struct hf_anomalies *anomalies)
{
	memset(sink, 0, sizeof(*sink));
	sink->sink = (struct hf_heap_sink){
		.area = put_area, .area_totals = put_totals,
		.blocks = put_blocks, .arg = sink, .anomalies = anomalies,
	};
}

void block_sink_deinit(struct block_sink *sink)
{
	hf_array_deinit(&sink->blocks);
	hf_array_deinit(&sink->areas);
}

static int compare_blocks(const void *a, const void *b)
{
	const struct hf_block *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

void block_sink_finish(struct block_sink *sink)
{
	struct hf_area *sums = calloc(sink->areas.num + 1, sizeof(*sums));

	check(sums != NULL, "no memory", 0);
	if (sink->blocks.num)
		qsort(sink->blocks.data, sink->blocks.num,
		      sizeof(sink->blocks.data[0]), compare_blocks);
	for (size_t i = 0; i < sink->blocks.num; i++) {
		const struct hf_block *block = &sink->blocks.data[i];
		struct hf_area *sum = &sums[block->area_id];

		check(i == 0 || block[-1].addr + block[-1].size_bytes <=
					block->addr,
		      "overlapping blocks", block->addr);
		switch ((enum hf_block_state)block->state) {
		case HF_BLOCK_LIVE:
		case HF_BLOCK_INTERNAL:
			sum->used_bytes += block->size_bytes;
			break;
		case HF_BLOCK_CACHED:
			sum->cached_bytes += block->size_bytes;
			break;
		case HF_BLOCK_FREE:
			sum->free_bytes += block->size_bytes;
			break;
		}
	}
	for (size_t i = 0; i < sink->areas.num; i++) {
		const struct hf_area *area = &sink->areas.data[i];

		check(sums[i].used_bytes == area->used_bytes, "used_bytes",
		      area->start);
		check(sums[i].cached_bytes == area->cached_bytes,
		      "cached_bytes", area->start);
		check(sums[i].free_bytes == area->free_bytes, "free_bytes",
		      area->start);
		check(area->trim_bytes <= area->free_bytes, "trim_bytes",
		      area->start);
	}
	free(sums);
}
