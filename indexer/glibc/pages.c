/* Pages: a direct-mapped cache of single pages.
 * SPDX-License-Identifier: MIT */
#include "indexer/glibc/pages.h"

#include <string.h>

enum {
	PAGE = 4096,
	NUM_SLOTS = 1024, /* 4 MiB */
};

struct hf_pages {
	const struct hf_image *image; /* borrowed */
	uint64_t addr[NUM_SLOTS];     /* of the page in the slot, + 1; 0: none */
	uint16_t len[NUM_SLOTS];      /* readable bytes from its start */
	uint8_t bytes[NUM_SLOTS][PAGE];
};

struct hf_error *hf_pages_create(const struct hf_image *image,
				 struct hf_pages **ret)
{
	struct hf_pages *pages = malloc(sizeof(*pages));

	if (!pages)
		return &hf_enomem;
	pages->image = image;
	memset(pages->addr, 0, sizeof(pages->addr));
	*ret = pages;
	return NULL;
}

void hf_pages_destroy(struct hf_pages *pages)
{
	free(pages);
}

bool hf_pages_peek(struct hf_pages *pages, uint64_t addr, void *buf,
		   size_t len)
{
	uint8_t *to = buf;

	while (len > 0) {
		uint64_t page = addr & ~(uint64_t)(PAGE - 1);
		size_t slot = (page / PAGE) % NUM_SLOTS;
		size_t offset = addr - page, part = PAGE - offset;

		if (pages->addr[slot] != page + 1) {
			pages->len[slot] = hf_image_read_some(
				pages->image, page, pages->bytes[slot], PAGE);
			pages->addr[slot] = page + 1;
		}
		if (part > len)
			part = len;
		if (offset + part > pages->len[slot])
			return false;
		memcpy(to, pages->bytes[slot] + offset, part);
		to += part;
		len -= part;
		if (__builtin_add_overflow(addr, part, &addr) && len > 0)
			return false;
	}
	return true;
}
