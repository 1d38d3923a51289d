/* Malloc layout: where glibc's malloc keeps what, for each version.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_GLIBC_MALLOC_LAYOUT_H
#define HF_INDEXER_GLIBC_MALLOC_LAYOUT_H

#include "coredump/image.h"

/* All offsets in bytes; HF_NO_OFFSET where this version has no such field. */
enum { HF_NO_OFFSET = 0xffffffff };

/* What is the same in every version on x86-64. */
enum {
	HF_CHUNK_ALIGN = 16,
	HF_CHUNK_HEADER = 16,   /* prev_size and size, before the user's bytes */
	HF_CHUNK_MIN = 32,
	HF_MALLOC_NUM_BINS = 127,
	HF_MALLOC_MAX_FASTBINS = 10,
	HF_TCACHE_MAX_BINS = 76,
	HF_TCACHE_SMALL_BINS = 64,
};

/* The largest structs that a valid layout may have: no buffer for a copy of
 * one is smaller. */
enum {
	HF_MALLOC_STATE_MAX = 4096,
	HF_MALLOC_PAR_MAX = 1024,
	HF_HEAP_INFO_MAX = 1024,
	HF_TCACHE_BYTES_MAX = 1024,
};

enum hf_tcache_kind {
	HF_TCACHE_NONE,   /* before 2.26 */
	HF_TCACHE_COUNTS, /* 2.26 .. 2.41: counts[i] entries in list i */
	HF_TCACHE_SLOTS,  /* 2.42: num_slots[i] more fit into list i */
};

struct hf_malloc_layout {
	uint32_t version; /* 2.36 is 236; of the row of the table */

	/* struct malloc_state: an arena. The mutex is at 0. */
	uint32_t state_bytes;
	uint32_t flags;           /* bit 1: not contiguous */
	uint32_t fastbins;        /* HF_NO_OFFSET: it has none */
	uint32_t num_fastbins;
	uint32_t top;
	uint32_t bins;            /* bin i (1..126): fd at 16 * (i - 1) */
	uint32_t next;
	uint32_t system_mem;

	/* struct malloc_par: mp_ */
	uint32_t par_bytes;
	uint32_t hp_pagesize;     /* or HF_NO_OFFSET */
	uint32_t n_mmaps;         /* int; n_mmaps_max and max_n_mmaps follow */
	uint32_t mmapped_mem;     /* max_mmapped_mem follows */
	uint32_t sbrk_base;
	uint32_t tcache_bins;     /* or HF_NO_OFFSET */
	uint32_t tcache_count;    /* or HF_NO_OFFSET */

	/* struct _heap_info: ar_ptr, prev, size at 0, 8, 16 */
	uint32_t heap_info_bytes;

	/* struct tcache_perthread_struct: counts or num_slots at 0 */
	enum hf_tcache_kind tcache;
	uint32_t tcache_bytes;
	uint32_t tcache_count_bytes; /* of one count: 1 or 2 */
	uint32_t tcache_entries;
	uint32_t tcache_num;         /* lists */

	bool safe_linking;        /* next pointers are xored with their place */
	uint32_t mmap_tail;       /* bytes of a mapping after its chunk's end */
};

/**
 * The row for a version, e.g. 236.
 *
 * @param exact_ret false: the version is newer than the table, this is the
 * newest row. May be NULL.
 * @return NULL for versions before 2.17.
 */
const struct hf_malloc_layout *hf_malloc_layout_find(uint32_t version,
						     bool *exact_ret);

/**
 * Whether it may be used: every field lies within its struct, is aligned, and
 * overlaps no other one; no struct is larger than the limits above; chunks
 * behind a heap_info are aligned. All code that takes a layout relies on it.
 *
 * @return NULL, or what is wrong in a few words: static.
 */
const char *hf_malloc_layout_fault(const struct hf_malloc_layout *layout);

/** Versions that a module's malloc can be, the likeliest first. */
struct hf_malloc_versions {
	uint32_t version[16];   /* 236 for 2.36 */
	size_t num;
	char text[16];          /* "2.36"; empty if nothing says it */
	bool is_named;          /* by libc's own text: certain */
	uint32_t since, until;  /* else: one of these, [since, until) */
};

struct hf_work;

/**
 * Look for glibc in the read-only segments of a module: for its own text, "GNU
 * C Library ... release version X.YY"; else, in static programs, which do not
 * have it, for malloc's messages, which differ from version to version. A
 * development version X.YY.9000 counts as the next one.
 *
 * @param no_texts act as if the module did not name the version.
 * @param work counts the pieces looked at.
 * @return NULL, NOT_FOUND: no glibc malloc in there, or INTERRUPTED.
 */
struct hf_error *hf_malloc_versions_find(const struct hf_image *image,
					 const struct hf_module *module,
					 bool no_texts, struct hf_work *work,
					 struct hf_malloc_versions *ret)
	HF_MUST_CHECK;

/**
 * Replace everything in *layout that the debug information of libc tells: from
 * the module's own file, else from the separate debug file for its build id.
 * What DWARF does not say (safe linking, mmap_tail) stays.
 *
 * @return NULL; NOT_FOUND when there is no debug information of malloc.c, or
 * BAD_DATA when it lacks a field or tells a layout that is not valid; *layout
 * is unchanged then.
 */
struct hf_error *hf_malloc_layout_from_dwarf(const struct hf_image *image,
					     const struct hf_module *module,
					     struct hf_malloc_layout *layout)
	HF_MUST_CHECK;

/** As above, from one ELF file with debug information. */
struct hf_error *
hf_malloc_layout_from_file(int fd, struct hf_malloc_layout *layout)
	HF_MUST_CHECK;

/** Bytes of the chunk that holds a tcache_perthread_struct; 16 more when the
 * rest of the free chunk it was cut from would have been too small. */
static inline uint64_t
hf_tcache_chunk_bytes(const struct hf_malloc_layout *layout)
{
	return (layout->tcache_bytes + 8 + HF_CHUNK_ALIGN - 1) &
	       ~(uint64_t)(HF_CHUNK_ALIGN - 1);
}

/** Where the link of a fastbin or tcache list at link_addr leads to. */
static inline uint64_t hf_link_target(const struct hf_malloc_layout *layout,
				      uint64_t link_addr, uint64_t stored)
{
	return layout->safe_linking ? stored ^ (link_addr >> 12) : stored;
}

static inline bool hf_is_tcache_chunk(const struct hf_malloc_layout *layout,
				      uint64_t chunk_bytes)
{
	uint64_t bytes = hf_tcache_chunk_bytes(layout);

	return layout->tcache != HF_TCACHE_NONE &&
	       (chunk_bytes == bytes || chunk_bytes == bytes + HF_CHUNK_ALIGN);
}

#endif
