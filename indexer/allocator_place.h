/* Allocator place: where an allocator's code and locks are in a process.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_ALLOCATOR_PLACE_H
#define HF_INDEXER_ALLOCATOR_PLACE_H

#include <string.h>

#include "coredump/image.h"
#include "util/array.h"

/* With this, and with the registers of all threads, hf_allocator_watch says
 * whether a stop has caught an allocator in the middle of something. Nothing
 * in here moves while a program runs; only the list of arenas grows. */

struct hf_allocator_place {
	const char *allocator;  /* name of its heap reader; static */
	struct hf_range code;   /* its functions; empty: not known */
	struct hf_range module; /* all code of the module they are in: what
				 * they call on the way (memcpy, munmap) */
	uint64_t *returns;      /* bit i: a call in `code` ends at its byte i;
				 * owned; NULL: not known */
	/* Arenas: a list whose last entry leads back to the first. New ones
	 * are put in behind the first. */
	uint64_t first_arena;   /* 0: it has no such list */
	uint32_t next_offset;   /* of the address of the next one */
	uint32_t lock_offset;   /* of a 32-bit word: not 0 while it is held */
};

typedef HF_ARRAY(struct hf_allocator_place) hf_allocator_places;

static inline void hf_allocator_places_deinit(hf_allocator_places *places)
{
	for (size_t i = 0; i < places->num; i++)
		free(places->data[i].returns);
	hf_array_deinit(places);
}

/** Whether addr follows a call in the allocator's code. */
static inline bool
hf_allocator_place_returns_to(const struct hf_allocator_place *place,
			      uint64_t addr)
{
	uint64_t byte = addr - place->code.start;

	return place->returns && byte < place->code.end - place->code.start &&
	       (place->returns[byte / 64] >> byte % 64 & 1);
}

#endif
