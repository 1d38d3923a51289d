/* Block table: the live blocks of all readers, merged, sorted, frozen.
 * SPDX-License-Identifier: MIT */
#include "indexer/block_table.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* Readers report blocks in address order within an area, but areas in any
 * order. So the builder keeps runs: stretches of its arrays that ascend. The
 * freeze sorts the runs by their first address and copies them one after the
 * other; only if runs interleave, which damaged heaps can bring about, are
 * the blocks themselves sorted. */

struct run {
	uint64_t first_addr; /* of the run's first block */
	uint64_t last_addr;  /* of its last one */
	uint32_t first;      /* index of its first block */
	uint32_t num;
};

struct kept_block {
	uint64_t addr;
	uint64_t size_bytes;
	uint32_t area_id;
	uint8_t is_internal;
	uint8_t is_suspect;
};

struct hf_block_builder {
	HF_ARRAY(struct kept_block) blocks;
	HF_ARRAY(struct run) runs;
	HF_ARRAY(struct hf_block_area) areas;
	HF_ARRAY(struct hf_range) own;
	uint32_t reader_id; /* of the sink in use */
	uint64_t num_cached, cached_bytes;
	uint64_t num_free, free_bytes;
};

struct hf_error *hf_block_builder_create(struct hf_block_builder **ret)
{
	struct hf_block_builder *builder = calloc(1, sizeof(*builder));

	if (!builder)
		return &hf_enomem;
	*ret = builder;
	return NULL;
}

void hf_block_builder_destroy(struct hf_block_builder *builder)
{
	if (!builder)
		return;
	hf_array_deinit(&builder->blocks);
	hf_array_deinit(&builder->runs);
	hf_array_deinit(&builder->areas);
	hf_array_deinit(&builder->own);
	free(builder);
}

static struct hf_error *sink_area(void *arg, const struct hf_area *area,
				  uint32_t *id_ret)
{
	struct hf_block_builder *builder = arg;
	struct hf_block_area entry = { *area, builder->reader_id };
	struct hf_error *err = hf_array_append(&builder->areas, entry);

	if (err)
		return err;
	*id_ret = (uint32_t)builder->areas.num - 1;
	return NULL;
}

static void sink_area_totals(void *arg, uint32_t id,
			     const struct hf_area *totals)
{
	struct hf_block_builder *builder = arg;
	struct hf_area *area;

	assert(id < builder->areas.num);
	area = &builder->areas.data[id].area;
	area->used_bytes = totals->used_bytes;
	area->free_bytes = totals->free_bytes;
	area->cached_bytes = totals->cached_bytes;
	area->trim_bytes = totals->trim_bytes;
}

static struct hf_error *sink_own(void *arg, struct hf_range range)
{
	struct hf_block_builder *builder = arg;

	return hf_array_append(&builder->own, range);
}

static struct hf_error *keep_block(struct hf_block_builder *builder,
				   const struct hf_block *block)
{
	struct kept_block kept = {
		.addr = block->addr,
		.size_bytes = block->size_bytes,
		.area_id = block->area_id,
		.is_internal = block->state == HF_BLOCK_INTERNAL,
		.is_suspect = block->suspect,
	};
	struct run *run = NULL;
	struct hf_error *err;

	if (builder->blocks.num >= UINT32_MAX - 16)
		return hf_error_create(HF_ERROR_UNSUPPORTED,
				       "the heap has more than 2^32 blocks");
	if (builder->runs.num)
		run = &builder->runs.data[builder->runs.num - 1];
	if (!run || block->addr < run->last_addr) {
		struct run fresh = { block->addr, block->addr,
				     (uint32_t)builder->blocks.num, 0 };

		err = hf_array_append(&builder->runs, fresh);
		if (err)
			return err;
		run = &builder->runs.data[builder->runs.num - 1];
	}
	err = hf_array_append(&builder->blocks, kept);
	if (err)
		return err;
	run->last_addr = block->addr;
	run->num++;
	return NULL;
}

static struct hf_error *sink_blocks(void *arg, const struct hf_block *blocks,
				    size_t num)
{
	struct hf_block_builder *builder = arg;

	for (size_t i = 0; i < num; i++) {
		const struct hf_block *block = &blocks[i];
		struct hf_error *err;

		assert(block->area_id < builder->areas.num);
		switch ((enum hf_block_state)block->state) {
		case HF_BLOCK_CACHED:
			builder->num_cached++;
			builder->cached_bytes += block->size_bytes;
			break;
		case HF_BLOCK_FREE:
			builder->num_free++;
			builder->free_bytes += block->size_bytes;
			break;
		case HF_BLOCK_LIVE:
		case HF_BLOCK_INTERNAL:
			err = keep_block(builder, block);
			if (err)
				return err;
			break;
		}
	}
	return NULL;
}

struct hf_heap_sink hf_block_builder_sink(struct hf_block_builder *builder,
					  uint32_t reader_id,
					  struct hf_anomalies *anomalies,
					  const struct hf_progress *progress)
{
	builder->reader_id = reader_id;
	return (struct hf_heap_sink){
		.area = sink_area,
		.area_totals = sink_area_totals,
		.blocks = sink_blocks,
		.own = sink_own,
		.arg = builder,
		.anomalies = anomalies,
		.progress = progress,
	};
}

static int compare_runs(const void *a, const void *b)
{
	const struct run *x = a, *y = b;

	if (x->first_addr != y->first_addr)
		return x->first_addr < y->first_addr ? -1 : 1;
	return x->first < y->first ? -1 : x->first > y->first;
}

static int compare_blocks(const void *a, const void *b)
{
	const struct kept_block *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* The order of the blocks, as runs: sorted, and made not to interleave. */
static void order_runs(struct hf_block_builder *builder)
{
	bool interleave = false;

	if (!builder->runs.num)
		return;
	qsort(builder->runs.data, builder->runs.num, sizeof(struct run),
	      compare_runs);
	for (size_t i = 1; i < builder->runs.num; i++)
		interleave |= builder->runs.data[i].first_addr <=
			      builder->runs.data[i - 1].last_addr;
	if (!interleave)
		return;
	qsort(builder->blocks.data, builder->blocks.num,
	      sizeof(struct kept_block), compare_blocks);
	builder->runs.num = 1;
	builder->runs.data[0].first = 0;
	builder->runs.data[0].num = (uint32_t)builder->blocks.num;
}

static struct hf_error *allocate_table(size_t num, struct hf_block_table *ret)
{
	ret->addr = calloc(num + 1, sizeof(*ret->addr));
	ret->size_bytes = calloc(num + 1, sizeof(*ret->size_bytes));
	ret->area_id = calloc(num + 1, sizeof(*ret->area_id));
	ret->is_internal = calloc(num / 64 + 1, sizeof(*ret->is_internal));
	ret->is_suspect = calloc(num / 64 + 1, sizeof(*ret->is_suspect));
	if (ret->addr && ret->size_bytes && ret->area_id &&
	    ret->is_internal && ret->is_suspect)
		return NULL;
	hf_block_table_deinit(ret);
	return &hf_enomem;
}

struct hf_error *hf_block_builder_freeze(struct hf_block_builder *builder,
					 struct hf_anomalies *anomalies,
					 struct hf_block_table *ret)
{
	struct hf_block_table table = { 0 };
	struct hf_error *err = allocate_table(builder->blocks.num, &table);
	uint64_t end = 0;

	if (err)
		return err;
	order_runs(builder);
	for (size_t r = 0; r < builder->runs.num; r++) {
		const struct run *run = &builder->runs.data[r];

		for (uint32_t i = run->first; i < run->first + run->num; i++) {
			const struct kept_block *b = &builder->blocks.data[i];
			uint64_t b_end;

			if (b->addr % 8 ||
			    __builtin_add_overflow(b->addr, b->size_bytes,
						   &b_end)) {
				hf_anomaly_add(anomalies, NULL, "odd block",
					       b->addr, "%" PRIu64 " bytes",
					       b->size_bytes);
				continue;
			}
			if (table.num && b->addr < end) {
				hf_anomaly_add(anomalies, NULL,
					       "overlapping block", b->addr,
					       "inside the block at 0x%" PRIx64,
					       table.addr[table.num - 1]);
				continue;
			}
			table.addr[table.num] = b->addr;
			table.size_bytes[table.num] = b->size_bytes;
			table.area_id[table.num] = b->area_id;
			if (b->is_internal)
				table.is_internal[table.num / 64] |=
					UINT64_C(1) << (table.num % 64);
			if (b->is_suspect)
				table.is_suspect[table.num / 64] |=
					UINT64_C(1) << (table.num % 64);
			table.num_suspect += b->is_suspect;
			table.num++;
			/* Two empty blocks at one address overlap, too. */
			end = b_end > b->addr ? b_end : b->addr + 1;
		}
	}
	table.areas = HF_TAKE(builder->areas.data);
	table.num_areas = (uint32_t)builder->areas.num;
	builder->areas.num = builder->areas.capacity = 0;
	table.own = HF_TAKE(builder->own.data);
	table.num_own = (uint32_t)builder->own.num;
	builder->own.num = builder->own.capacity = 0;
	table.num_cached = builder->num_cached;
	table.cached_bytes = builder->cached_bytes;
	table.num_free = builder->num_free;
	table.free_bytes = builder->free_bytes;
	hf_array_deinit(&builder->blocks);
	hf_array_deinit(&builder->runs);
	*ret = table;
	return NULL;
}

void hf_block_table_deinit(struct hf_block_table *table)
{
	free(table->addr);
	free(table->size_bytes);
	free(table->area_id);
	free(table->is_internal);
	free(table->is_suspect);
	free(table->areas);
	free(table->own);
	memset(table, 0, sizeof(*table));
}
