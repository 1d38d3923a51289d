/* Fake malloc: small glibc heaps of any version, written by hand.
 * SPDX-License-Identifier: MIT */
#ifndef HF_TESTS_SUPPORT_FAKE_MALLOC_H
#define HF_TESTS_SUPPORT_FAKE_MALLOC_H

#include "indexer/glibc/malloc_layout.h"
#include "tests/support/fake_image.h"

/* One main arena with memory from brk, one arena of a thread with two heaps,
 * one mmapped chunk and one aligned one, one thread with a tcache. All at
 * fixed addresses: */
enum {
	FAKE_MALLOC_PAGE = 4096,
	FAKE_MALLOC_HEAP_PAGES = 8,  /* of each of the three heaps */
	FAKE_MALLOC_MMAP_PAGES = 6,
	FAKE_MALLOC_ARENA_OFFSET = 0,
	FAKE_MALLOC_MP_OFFSET = 3072,
};
#define FAKE_MALLOC_LIBC UINT64_C(0x7f0000000000) /* arena and mp_: a page */
#define FAKE_MALLOC_TLS UINT64_C(0x7f0000002000)  /* a page; fs_base at end */
#define FAKE_MALLOC_BRK UINT64_C(0x555500000000)
#define FAKE_MALLOC_HEAP1 UINT64_C(0x7f1004000000) /* older, with the state */
#define FAKE_MALLOC_HEAP2 UINT64_C(0x7f1008000000) /* newer, with top */
#define FAKE_MALLOC_MMAP UINT64_C(0x7f2000000000)

enum fake_chunk {
	FAKE_USED,
	FAKE_FREE,   /* in the bin of unsorted chunks */
	FAKE_FAST,   /* in a fastbin; in use before 2.43 only, then FAKE_USED */
	FAKE_TCACHE, /* in the tcache; FAKE_USED where there is none */
};

enum fake_heap { FAKE_BRK, FAKE_HEAP1, FAKE_HEAP2, FAKE_NUM_HEAPS };

struct fake_malloc;

struct fake_malloc *fake_malloc_create(const struct hf_malloc_layout *layout);
/** Its image too. */
void fake_malloc_destroy(struct fake_malloc *fake);

/** Append a chunk. @return the address of its header. */
uint64_t fake_malloc_add(struct fake_malloc *fake, enum fake_heap heap,
			 uint64_t bytes, enum fake_chunk kind);

/** Fill every heap with a fixed mix of chunks of all kinds and sizes. */
void fake_malloc_fill(struct fake_malloc *fake);

/** Write tops, fenceposts, arenas, mp_, tcache and mappings. Memory may be
 * poked afterwards, and before the freeze. */
void fake_malloc_finish(struct fake_malloc *fake);

struct fake_image *fake_malloc_memory(struct fake_malloc *fake);
/** Freezes at the first call. */
struct hf_image *fake_malloc_image(struct fake_malloc *fake);

/** Blocks in use, without the tcache; the two mmapped ones count. */
uint64_t fake_malloc_num_used(const struct fake_malloc *fake);
uint64_t fake_malloc_num_cached(const struct fake_malloc *fake);
/** Free chunks, tops not counted. */
uint64_t fake_malloc_num_free(const struct fake_malloc *fake);
/** Address of the tcache's user bytes; 0: none. */
uint64_t fake_malloc_tcache(const struct fake_malloc *fake);
/** Address of the second arena. */
uint64_t fake_malloc_arena(const struct fake_malloc *fake);

HF_DEFINE_AUTO(struct fake_malloc *, fake_malloc, fake_malloc_destroy)

#endif
