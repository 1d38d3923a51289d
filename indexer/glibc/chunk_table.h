/* Chunk table: every chunk of every region, four bytes each.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_GLIBC_CHUNK_TABLE_H
#define HF_INDEXER_GLIBC_CHUNK_TABLE_H

#include "indexer/glibc/malloc_layout.h"
#include "util/array.h"

/* Chunks of a region lie one after the other without gaps, so their sizes are
 * enough: an address is the sum of the sizes before it. What is not a chunk
 * (fenceposts, damage, memory that others took with sbrk) has an entry too.
 *
 *   entry:  31                       3 2     0
 *          | size in units of 16 bytes | state |
 *
 * Size 0 stands for one that does not fit; it is in `big`. */

enum hf_chunk_state {
	HF_CHUNK_LIVE,
	HF_CHUNK_CACHED,   /* in a tcache or a fastbin */
	HF_CHUNK_FREE,     /* the next chunk's PREV_INUSE is clear */
	HF_CHUNK_INTERNAL, /* a tcache_perthread_struct */
	HF_CHUNK_TOP,
	HF_CHUNK_FENCE,    /* fencepost: no memory for anyone */
	HF_CHUNK_GAP,      /* not chunks: damaged, or not malloc's */
	HF_CHUNK_SUSPECT,  /* live, but a thread was stopped at work on it */
};

/** A free chunk's links into its bin, as found in the target. */
struct hf_free_chunk {
	uint64_t addr;     /* of the header */
	uint64_t fd, bk;
	uint32_t size_units;
	bool visited;      /* found again by following the bins */
};

/** The first word of the user's bytes of a chunk that may be in a fastbin or a
 * tcache: lists of millions of them are followed here, not in the target. */
struct hf_chunk_link {
	uint64_t addr;     /* of the header */
	uint64_t stored;   /* the word, as in the target */
	uint64_t size_units : 8;
	uint64_t entry : 56; /* of the chunk */
};

/** Where the links of a page begin. */
struct hf_link_page {
	uint64_t addr;
	size_t first;
};

struct hf_big_chunk {
	size_t entry;
	uint64_t size_bytes;
};

enum { HF_CHUNK_LINK_UNITS = 128 }; /* larger chunks have no links here */

struct hf_chunk_table {
	HF_ARRAY(uint32_t) entries;
	HF_ARRAY(struct hf_big_chunk) big;     /* ascending by entry */
	HF_ARRAY(struct hf_free_chunk) frees;  /* in order of the walk */
	HF_ARRAY(struct hf_chunk_link) links;      /* ascending by addr... */
	HF_ARRAY(struct hf_link_page) link_pages;  /* ...if regions are */
	HF_ARRAY(uint64_t) tcaches; /* user addresses of chunks that look like
				     * a tcache with something in it */
};

void hf_chunk_table_deinit(struct hf_chunk_table *table);

/** @param size_bytes multiple of 16, not 0. */
struct hf_error *hf_chunk_table_append(struct hf_chunk_table *table,
				       uint64_t size_bytes,
				       enum hf_chunk_state state)
	HF_MUST_CHECK;

static inline enum hf_chunk_state
hf_chunk_table_state(const struct hf_chunk_table *table, size_t entry)
{
	return table->entries.data[entry] & 7;
}

static inline void hf_chunk_table_set_state(struct hf_chunk_table *table,
					    size_t entry,
					    enum hf_chunk_state state)
{
	uint32_t *word = &table->entries.data[entry];

	*word = (*word & ~(uint32_t)7) | state;
}

uint64_t hf_chunk_table_big_size(const struct hf_chunk_table *table,
				 size_t entry);

static inline uint64_t
hf_chunk_table_size(const struct hf_chunk_table *table, size_t entry)
{
	uint32_t units = table->entries.data[entry] >> 3;

	return units ? (uint64_t)units * HF_CHUNK_ALIGN :
		       hf_chunk_table_big_size(table, entry);
}

/** Add a link of the last entry, a chunk at addr. */
struct hf_error *hf_chunk_table_add_link(struct hf_chunk_table *table,
					 uint64_t addr, uint64_t size_bytes,
					 uint64_t stored) HF_MUST_CHECK;

/** The link of the chunk at addr, or NULL: it has none in the table. */
const struct hf_chunk_link *
hf_chunk_table_find_link(const struct hf_chunk_table *table, uint64_t addr);

/** Change the size of the last entry, which is how damage is cut out. */
struct hf_error *hf_chunk_table_resize_last(struct hf_chunk_table *table,
					    uint64_t size_bytes)
	HF_MUST_CHECK;

#endif
