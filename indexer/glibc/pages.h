/* Pages: a small cache for following links through a heap.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_GLIBC_PAGES_H
#define HF_INDEXER_GLIBC_PAGES_H

#include "coredump/image.h"

/* Lists of free chunks hop about at random: a 64 KiB window would copy two
 * thousand times what is looked at. Slots of one page are the right size for
 * them; runs of chunks are read in large pieces (chunks.c). */

struct hf_pages;

struct hf_error *hf_pages_create(const struct hf_image *image,
				 struct hf_pages **ret) HF_MUST_CHECK;
void hf_pages_destroy(struct hf_pages *pages);

/** Copy len bytes, or false when any of them is not readable. */
bool hf_pages_peek(struct hf_pages *pages, uint64_t addr, void *buf,
		   size_t len);

static inline bool hf_pages_peek_u64(struct hf_pages *pages, uint64_t addr,
				     uint64_t *ret)
{
	return hf_pages_peek(pages, addr, ret, sizeof(*ret));
}

HF_DEFINE_AUTO(struct hf_pages *, hf_pages, hf_pages_destroy)

#endif
