/* Block table: the live blocks of all readers, merged, sorted, frozen.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_BLOCK_TABLE_H
#define HF_INDEXER_BLOCK_TABLE_H

#include "indexer/heap_reader.h"
#include "util/array.h"

/** An area and the reader it belongs to. */
struct hf_block_area {
	struct hf_area area;
	uint32_t reader_id; /* index given to hf_block_table_sink */
};

/** Blocks that are not live are only counted. Live and internal ones are kept
 * in flat arrays; after the freeze index i is the rank by address. */
struct hf_block_table {
	uint32_t num;           /* live and internal blocks */
	uint64_t *addr;         /* num entries, ascending after the freeze */
	uint64_t *size_bytes;   /* num entries, usable sizes */
	uint32_t *area_id;      /* num entries, index in areas */
	uint64_t *is_internal;  /* bitmap: the allocator's own */
	uint64_t *is_suspect;   /* bitmap: see hf_block.suspect */
	uint32_t num_suspect;
	struct hf_block_area *areas;
	uint32_t num_areas;
	struct hf_range *own;   /* the allocators' own memory outside areas */
	uint32_t num_own;
	uint64_t num_cached, cached_bytes; /* freed, in caches */
	uint64_t num_free, free_bytes;     /* free blocks */
};

static inline bool hf_block_is_suspect(const struct hf_block_table *blocks,
				       uint32_t block)
{
	return blocks->is_suspect[block / 64] >> (block % 64) & 1;
}

struct hf_block_builder;

struct hf_error *hf_block_builder_create(struct hf_block_builder **ret)
	HF_MUST_CHECK;
void hf_block_builder_destroy(struct hf_block_builder *builder);

/** The sink through which reader `reader_id` fills the table. */
struct hf_heap_sink hf_block_builder_sink(struct hf_block_builder *builder,
					  uint32_t reader_id,
					  struct hf_anomalies *anomalies,
					  const struct hf_progress *progress);

/**
 * Sort, drop blocks that overlap an earlier one (counted as anomalies: no byte
 * is counted twice), and hand the table over. Destroys the builder's content.
 */
struct hf_error *hf_block_builder_freeze(struct hf_block_builder *builder,
					 struct hf_anomalies *anomalies,
					 struct hf_block_table *ret)
	HF_MUST_CHECK;
void hf_block_table_deinit(struct hf_block_table *table);

HF_DEFINE_AUTO(struct hf_block_builder *, hf_block_builder,
	       hf_block_builder_destroy)

#endif
