/* Pages: a direct-mapped cache of single pages.
 * SPDX-License-Identifier: MIT */
#include "indexer/glibc/pages.h"

#include <string.h>

/* Pages that follow each other have slots that do. When a miss comes where the
 * last read ended, twice as many are read at once: a search of all pages of a
 * large memory, or a long chain, would otherwise take one system call each. */

enum {
	PAGE = 4096,
	NUM_SLOTS = 1024, /* 4 MiB */
	MAX_AHEAD = 64,
};

struct hf_pages {
	const struct hf_image *image; /* borrowed */
	uint64_t addr[NUM_SLOTS];     /* of the page in the slot, + 1; 0: none */
	uint16_t len[NUM_SLOTS];      /* readable bytes from its start */
	uint64_t next;                /* page after the last read */
	uint64_t ahead;               /* pages in that read */
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
	pages->next = 0;
	pages->ahead = 1;
	*ret = pages;
	return NULL;
}

void hf_pages_destroy(struct hf_pages *pages)
{
	free(pages);
}

/* Read the page into its slot, and perhaps some that follow. */
static void fill(struct hf_pages *pages, uint64_t page)
{
	size_t slot = (page / PAGE) % NUM_SLOTS, got;
	uint64_t num = 1;

	if (page == pages->next && page != 0)
		num = pages->ahead * 2;
	if (num > MAX_AHEAD)
		num = MAX_AHEAD;
	if (num > NUM_SLOTS - slot)
		num = NUM_SLOTS - slot;
	if (num > (UINT64_MAX - page) / PAGE)
		num = 1;
	for (uint64_t i = 0; i < num; i++)
		pages->addr[slot + i] = 0;
	got = hf_image_read_some(pages->image, page, pages->bytes[slot],
				 num * PAGE);
	for (uint64_t i = 0; i < num; i++) {
		size_t len = got < PAGE ? got : PAGE;

		/* Behind the first unreadable page nothing is known. */
		if (i > 0 && len == 0) {
			num = i;
			break;
		}
		pages->addr[slot + i] = page + i * PAGE + 1;
		pages->len[slot + i] = len;
		got -= len;
	}
	pages->ahead = num;
	pages->next = page + num * PAGE;
}

bool hf_pages_peek(struct hf_pages *pages, uint64_t addr, void *buf,
		   size_t len)
{
	uint8_t *to = buf;

	while (len > 0) {
		uint64_t page = addr & ~(uint64_t)(PAGE - 1);
		size_t slot = (page / PAGE) % NUM_SLOTS;
		size_t offset = addr - page, part = PAGE - offset;

		if (pages->addr[slot] != page + 1)
			fill(pages, page);
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
