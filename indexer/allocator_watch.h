/* Allocator watch: is a stopped process in the middle of its allocators?
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_ALLOCATOR_WATCH_H
#define HF_INDEXER_ALLOCATOR_WATCH_H

#include "indexer/heap_reader.h"

/* A thread is inside when
 *
 *   its program counter is in the allocator's code;
 *   it waits in a futex call for the lock of an arena;
 *   it asks the kernel for memory (mmap, munmap, brk, ...), and close to the
 *   top of its stack is an address that follows a call in that code;
 *   it runs elsewhere in the allocator's module (memcpy, the way into a system
 *   call), and the top of its stack is such an address.
 *
 * The last two look at words, not at frames, but only at threads that are there
 * for moments: a stale word cannot make a thread that sleeps in poll() look
 * as if it were in malloc for ever. */

/** How to read the process: as `read` of struct hf_image_ops. */
struct hf_allocator_memory {
	size_t (*read)(void *arg, const struct hf_range *ranges,
		       size_t num_ranges, void *buf);
	void *arg;
};

struct hf_allocator_findings {
	uint32_t num_inside; /* threads */
	uint32_t num_locked; /* arenas */
	pid_t tid_inside;    /* the first of them; 0: none */
};

struct hf_allocator_watch;

struct hf_error *hf_allocator_watch_create(struct hf_allocator_watch **ret)
	HF_MUST_CHECK;
void hf_allocator_watch_destroy(struct hf_allocator_watch *watch);

/** Replace all places; theirs become the watch's, also after an error. */
struct hf_error *hf_allocator_watch_set(struct hf_allocator_watch *watch,
					hf_allocator_places *places)
	HF_MUST_CHECK;

size_t hf_allocator_watch_num_places(const struct hf_allocator_watch *watch);

/** Walk the lists of arenas, so that a look has to read no more than new
 * ones. The process may be running. Bounded, whatever the lists say. */
struct hf_error *
hf_allocator_watch_find_arenas(struct hf_allocator_watch *watch,
			       const struct hf_allocator_memory *memory)
	HF_MUST_CHECK;

/**
 * All threads stand. Allocates nothing; makes some reads for each 1000 arenas,
 * and one for each 64 threads whose stack has to be looked at.
 *
 * @param is_inside num_threads entries, filled in; may be NULL.
 */
void hf_allocator_watch_look(struct hf_allocator_watch *watch,
			     const struct hf_allocator_memory *memory,
			     const struct hf_thread *threads,
			     size_t num_threads, bool *is_inside,
			     struct hf_allocator_findings *ret);

/** Addresses of arenas whose lock was held at the last look; borrowed. */
const uint64_t *
hf_allocator_watch_locked(const struct hf_allocator_watch *watch,
			  size_t *num_ret);

/**
 * All of the above for an image, and the allocator of one heap reader.
 *
 * @param is_known_ret whether the reader knows any place; if not, nothing was
 * looked at.
 * @param is_inside an entry for each thread of the image.
 */
struct hf_error *
hf_allocator_look_at_image(const struct hf_image *image,
			   const struct hf_heap_reader_ops *ops,
			   const struct hf_progress *progress,
			   bool *is_known_ret, bool *is_inside,
			   struct hf_allocator_findings *ret) HF_MUST_CHECK;

HF_DEFINE_AUTO(struct hf_allocator_watch *, hf_allocator_watch,
	       hf_allocator_watch_destroy)

#endif
