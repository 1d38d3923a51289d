/* Glibc heap: what the parts of the reader share. Private to this folder.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_GLIBC_GLIBC_HEAP_H
#define HF_INDEXER_GLIBC_GLIBC_HEAP_H

#include "coredump/image.h"
#include "indexer/anomaly.h"
#include "indexer/glibc/malloc_layout.h"
#include "indexer/glibc/pages.h"
#include "indexer/glibc/work.h"
#include "util/array.h"

#define HF_GLIBC_READER "glibc-malloc"

/** A struct malloc_state, copied. Index 0 is main_arena. */
struct hf_malloc_arena {
	uint64_t addr;
	uint64_t top;          /* chunk; 0: none yet */
	uint64_t top_bytes;    /* its size */
	uint64_t system_mem;   /* bytes it says it took from the system */
	bool noncontiguous;    /* some segments are from mmap */
	bool locked;           /* a thread had its lock */
	bool suspect;          /* a thread was at work in it: its lists may be
				* half changed */
	uint64_t fastbins[HF_MALLOC_MAX_FASTBINS]; /* chunks */
	struct {
		uint64_t fd, bk; /* chunks, or the header of the bin */
	} bins[HF_MALLOC_NUM_BINS]; /* index 0 is not used */
};

/** A run of chunks: the brk heap, a segment from mmap, a thread's heap. */
struct hf_malloc_region {
	uint32_t arena;        /* index in arenas */
	bool is_heap;          /* has a heap_info; else of the main arena */
	bool open_end;         /* end is only a limit until it was walked */
	uint64_t start, end;   /* what malloc owns, headers included */
	uint64_t first;        /* first chunk */
	uint64_t top;          /* the arena's top, if it is in here, else 0 */
	/* Filled in by the walk: */
	size_t first_entry;    /* in the chunk table */
	size_t num_entries;
	uint64_t foreign_bytes; /* taken by others with sbrk, in between */
};

/** A chunk with its own mapping. */
struct hf_mmapped_chunk {
	uint64_t start, end;  /* of the mapping */
	uint64_t chunk;       /* its header */
	uint64_t size_bytes;  /* of the chunk, as in its header */
	bool suspect;         /* a thread in malloc was at work on it */
};

/** The values of mp_ that matter; zero when it was not found. */
struct hf_malloc_parameters {
	uint64_t addr;         /* 0: not found */
	uint64_t sbrk_base;
	uint64_t n_mmaps;
	uint64_t mmapped_mem;
	uint64_t hp_pagesize;
	uint64_t tcache_count;
};

struct hf_glibc_heap {
	const struct hf_image *image;    /* borrowed */
	const struct hf_module *module;  /* borrowed from image */
	struct hf_anomalies *anomalies;  /* borrowed; may be NULL */
	struct hf_pages *pages;
	struct hf_work *work;            /* borrowed; counts every loop */
	struct hf_malloc_layout layout;
	uint64_t main_arena;             /* address */
	struct hf_malloc_parameters parameters;
	const bool *is_inside;           /* each thread of the image; borrowed;
					  * NULL: not known */
	HF_ARRAY(uint64_t) held;         /* words of the threads inside; see
					  * suspects.h */
	HF_ARRAY(struct hf_malloc_arena) arenas;
	HF_ARRAY(struct hf_malloc_region) regions;  /* sorted by start */
	HF_ARRAY(struct hf_mmapped_chunk) mmapped;  /* sorted by start */
	HF_ARRAY(struct hf_range) extents; /* private rw memory, merged */
};

/** A reader for hf_glibc_reader.walk and close, for a malloc whose place and
 * layout are known already. @param mp 0: not known.
 * @return NULL, BAD_DATA if the layout is not valid, or NO_MEMORY. */
struct hf_error *hf_glibc_open_at(const struct hf_image *image,
				  struct hf_anomalies *anomalies,
				  const struct hf_malloc_layout *layout,
				  uint64_t main_arena, uint64_t mp,
				  void **ret) HF_MUST_CHECK;

/** Turns of all loops in the last walk: what a heap costs. */
uint64_t hf_glibc_work(const void *reader);

static inline uint64_t hf_chunk_align(uint64_t addr)
{
	return (addr + HF_CHUNK_ALIGN - 1) & ~(uint64_t)(HF_CHUNK_ALIGN - 1);
}

#endif
