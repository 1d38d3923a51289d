/* Report: areas and blocks of a walked heap, on their way to the sink.
 * SPDX-License-Identifier: MIT */
#include "indexer/glibc/report.h"

static struct hf_error *flush(struct hf_report *report)
{
	struct hf_error *err = NULL;

	if (report->num)
		err = report->sink->blocks(report->sink->arg, report->batch,
					   report->num);
	report->num = 0;
	return err;
}

static struct hf_error *put(struct hf_report *report, struct hf_area *area,
			    uint32_t area_id, uint64_t addr,
			    uint64_t size_bytes, enum hf_block_state state,
			    bool suspect)
{
	switch (state) {
	case HF_BLOCK_LIVE:
	case HF_BLOCK_INTERNAL:
		area->used_bytes += size_bytes;
		break;
	case HF_BLOCK_CACHED:
		area->cached_bytes += size_bytes;
		break;
	case HF_BLOCK_FREE:
		area->free_bytes += size_bytes;
		break;
	}
	report->batch[report->num++] = (struct hf_block){
		.addr = addr, .size_bytes = size_bytes, .area_id = area_id,
		.state = state, .suspect = suspect,
	};
	if (report->num < sizeof(report->batch) / sizeof(report->batch[0]))
		return NULL;
	return flush(report);
}

static struct hf_error *report_region(struct hf_report *report,
				      const struct hf_malloc_region *region,
				      const struct hf_chunk_table *table,
				      uint32_t first_arena, bool suspect,
				      bool is_first_of_arena)
{
	const struct hf_heap_sink *sink = report->sink;
	struct hf_area area = {
		.kind = is_first_of_arena ? HF_AREA_ARENA : HF_AREA_HEAP,
		.arena = first_arena + region->arena,
		.suspect = suspect,
		.start = region->start, .end = region->end,
	};
	uint64_t addr = region->first;
	struct hf_error *err;
	uint32_t id;

	err = sink->area(sink->arg, &area, &id);
	if (err)
		return err;
	for (size_t i = 0; i < region->num_entries; i++) {
		size_t entry = region->first_entry + i;
		uint64_t bytes = hf_chunk_table_size(table, entry);
		uint64_t mem = addr + HF_CHUNK_HEADER;
		uint64_t usable = bytes - 8;

		/* Only where damage cut it off is it the last one. */
		if (usable > region->end - mem)
			usable = region->end - mem;
		addr += bytes;
		err = hf_work_turn(report->work);
		if (err)
			return err;
		if (usable == 0)
			continue;
		switch (hf_chunk_table_state(table, entry)) {
		case HF_CHUNK_LIVE:
			err = put(report, &area, id, mem, usable,
				  HF_BLOCK_LIVE, false);
			break;
		case HF_CHUNK_SUSPECT:
			err = put(report, &area, id, mem, usable,
				  HF_BLOCK_LIVE, true);
			break;
		case HF_CHUNK_INTERNAL:
			err = put(report, &area, id, mem, usable,
				  HF_BLOCK_INTERNAL, false);
			break;
		case HF_CHUNK_CACHED:
			err = put(report, &area, id, mem, usable,
				  HF_BLOCK_CACHED, false);
			break;
		case HF_CHUNK_FREE:
			err = put(report, &area, id, mem, usable,
				  HF_BLOCK_FREE, false);
			break;
		case HF_CHUNK_TOP:
			/* No next chunk whose prev_size it could use. */
			usable = bytes - HF_CHUNK_HEADER;
			area.trim_bytes = usable;
			err = put(report, &area, id, mem, usable,
				  HF_BLOCK_FREE, false);
			break;
		case HF_CHUNK_FENCE:
		case HF_CHUNK_GAP:
			break;
		}
		if (err)
			return err;
	}
	err = flush(report);
	if (!err)
		sink->area_totals(sink->arg, id, &area);
	return err;
}

static struct hf_error *report_mmapped(struct hf_report *report,
				       const struct hf_glibc_heap *heap,
				       uint32_t first_arena)
{
	const struct hf_heap_sink *sink = report->sink;
	uint32_t overhead = heap->layout.mmap_tail ? 8 : HF_CHUNK_HEADER;

	for (size_t i = 0; i < heap->mmapped.num; i++) {
		const struct hf_mmapped_chunk *chunk = &heap->mmapped.data[i];
		struct hf_area area = {
			.kind = HF_AREA_MMAP, .arena = first_arena,
			.start = chunk->start, .end = chunk->end,
			.used_bytes = chunk->size_bytes - overhead,
		};
		struct hf_block block = {
			.addr = chunk->chunk + HF_CHUNK_HEADER,
			.size_bytes = area.used_bytes, .state = HF_BLOCK_LIVE,
			.suspect = chunk->suspect,
		};
		struct hf_error *err = hf_work_turn(report->work);

		if (!err)
			err = sink->area(sink->arg, &area, &block.area_id);
		if (!err)
			err = sink->blocks(sink->arg, &block, 1);
		if (err)
			return err;
	}
	return NULL;
}

struct hf_error *hf_report_heap(struct hf_report *report,
				const struct hf_glibc_heap *heap,
				const struct hf_chunk_table *table,
				uint32_t first_arena)
{
	/* The first area of an arena is the one that holds its malloc_state;
	 * of the main arena, the lowest. */
	bool saw_main = false;

	for (size_t i = 0; i < heap->regions.num; i++) {
		const struct hf_malloc_region *region = &heap->regions.data[i];
		uint64_t state = heap->arenas.data[region->arena].addr;
		bool is_first = region->is_heap ?
					state - region->start <
						region->end - region->start :
					!saw_main;
		struct hf_error *err;

		saw_main |= !region->is_heap;
		err = report_region(report, region, table, first_arena,
				    heap->arenas.data[region->arena].suspect,
				    is_first);
		if (err)
			return err;
	}
	return report_mmapped(report, heap, first_arena);
}
