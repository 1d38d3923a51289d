/* Heap reader: what one allocator or runtime has in an image. THE interface.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_HEAP_READER_H
#define HF_INDEXER_HEAP_READER_H

#include "coredump/image.h"
#include "indexer/allocator_place.h"
#include "indexer/anomaly.h"
#include "util/progress.h"

/* To add a reader:
 *  1. a folder indexer/NAME with NAME_reader.c that defines the table below;
 *  2. an entry in indexer/heap_registry.c (order = order of asking);
 *  3. a victim in tests/victims that logs every live block, and a test that
 *     compares block for block;
 *  4. if a thread can be stopped in the middle of it: the `places` operation,
 *     so that a capture can wait for a better moment, and blocks that are
 *     suspect where it could not;
 *  5. a libFuzzer target that walks random bytes with it: a damaged heap is
 *     normal input. Count what is wrong in the anomalies, skip it, go on;
 *     no loop without a bound taken from the memory that is really there.
 */

enum hf_block_state {
	HF_BLOCK_LIVE,     /* the program holds it */
	HF_BLOCK_CACHED,   /* freed, in a per-thread or fast list */
	HF_BLOCK_FREE,     /* free in the allocator */
	HF_BLOCK_INTERNAL, /* live, but the allocator's own (glibc's tcache) */
};

/** One block. Ranges exclude the allocator's headers. */
struct hf_block {
	uint64_t addr;       /* what the program got from malloc */
	uint64_t size_bytes; /* usable size */
	uint32_t area_id;    /* from hf_heap_sink_ops.area */
	uint8_t state;       /* enum hf_block_state */
	bool suspect;        /* its state may be wrong: a thread was stopped
			      * while it changed what tells it */
};

enum hf_area_kind {
	HF_AREA_ARENA, /* the main heap of an allocator */
	HF_AREA_HEAP,  /* a further heap of an arena */
	HF_AREA_MMAP,  /* one block with its own mapping */
	HF_AREA_BLOCK, /* a block of a block-structured runtime heap */
};

/** A range of memory that a reader explains, headers and free space too. */
struct hf_area {
	enum hf_area_kind kind;
	uint32_t arena;         /* which arena of the reader, 0 = main */
	bool suspect;           /* free lists of its arena were being changed:
				 * its lock was held, or a thread inside the
				 * allocator was at work in it */
	uint64_t start, end;    /* [start, end) */
	uint64_t used_bytes;    /* usable bytes of live and internal blocks */
	uint64_t free_bytes;    /* free blocks and top */
	uint64_t cached_bytes;  /* freed blocks in caches */
	uint64_t trim_bytes;    /* of free_bytes: unused at the end (top) */
};

/** How sure a reader is of what it found. */
enum hf_confidence { HF_CONFIDENCE_LOW, HF_CONFIDENCE_MEDIUM,
		     HF_CONFIDENCE_HIGH };

struct hf_reader_info {
	const char *name;     /* "glibc-malloc"; static */
	char version[64];     /* of the allocator, as found in the target */
	char how[128];        /* where the anchors and the layout came from */
	enum hf_confidence confidence;
};

/** Where a reader puts what it finds. */
struct hf_heap_sink {
	/** @param id_ret to be used in the blocks of this area. The area's
	 * totals may still change until the walk returns: see area_totals. */
	struct hf_error *(*area)(void *arg, const struct hf_area *area,
				 uint32_t *id_ret);
	/** Replace used, free, cached and trim bytes of an area. */
	void (*area_totals)(void *arg, uint32_t id,
			    const struct hf_area *totals);
	/** A batch of blocks in increasing address order within an area. A
	 * few thousand at a time. */
	struct hf_error *(*blocks)(void *arg, const struct hf_block *blocks,
				   size_t num);
	void *arg;
	struct hf_anomalies *anomalies; /* damage goes here */
	const struct hf_progress *progress;
	/**
	 * Memory outside of all areas that is the allocator's own: its global
	 * state. Its lists point at and into blocks that the program may have
	 * lost, so it is no root. May be NULL.
	 */
	struct hf_error *(*own)(void *arg, struct hf_range range);
	/**
	 * For each thread of the image, whether it was stopped inside of this
	 * allocator, as hf_allocator_watch found out with the reader's places.
	 * May be NULL: not known.
	 */
	const bool *is_inside;
};

struct hf_heap_reader_ops {
	const char *name;
	/** @return NULL, or NOT_FOUND when the image has no such heap;
	 * UNSUPPORTED when it has one of an unknown version; INTERRUPTED. */
	struct hf_error *(*open)(const struct hf_image *image,
				 struct hf_anomalies *anomalies,
				 const struct hf_progress *progress,
				 void **ret);
	void (*info)(const void *reader, struct hf_reader_info *ret);
	/**
	 * Report every block: live, cached, free and internal. Damage is
	 * counted and skipped, it is not an error.
	 */
	struct hf_error *(*walk)(void *reader, const struct hf_heap_sink *sink);
	void (*close)(void *reader);
	/**
	 * Append where its code and locks are: one place, or several when the
	 * allocator is in the process more than once; none when it is not
	 * found. The image may be one of a process that runs on
	 * (coredump/live_image.h): rely only on what does not change, and be
	 * quick. May be NULL: a stop is then as good as any other.
	 */
	struct hf_error *(*places)(const struct hf_image *image,
				   const struct hf_progress *progress,
				   hf_allocator_places *ret);
};

#endif
