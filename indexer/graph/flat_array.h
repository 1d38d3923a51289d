/* Flat arrays: large plain arrays, on huge pages where the kernel agrees.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_GRAPH_FLAT_ARRAY_H
#define HF_INDEXER_GRAPH_FLAT_ARRAY_H

#include <stddef.h>

#include "util/cleanup.h"

/* Random reads in arrays of gigabytes miss the TLB nearly every time; with
 * pages of 2 MiB the graph algorithms run about twice as fast. The memory
 * comes from malloc and goes back with free(). Beyond 32 MiB glibc gives each
 * array a mapping of its own: what is never touched takes no memory, and what
 * is freed goes back to the system at once. */

/** num elements, all zero. @return NULL without memory, or on overflow. */
void *hf_flat_zeroed(size_t num, size_t element_bytes);

/** num elements of any content. */
void *hf_flat_uninit(size_t num, size_t element_bytes);

/** Resize, keeping the content. @return NULL (array is kept) or the array. */
void *hf_flat_resize(void *array, size_t num, size_t element_bytes);

#endif
