/* Window: a small cache for scattered reads of an image.
 * SPDX-License-Identifier: MIT */
#include "coredump/window.h"

#include <assert.h>
#include <string.h>

#include "coredump/image_internal.h"

/* A slot holds an aligned 64 KiB of the target. Not all of its 16 pages need
 * be readable: a bit for each says whether it is, so that a slot which covers
 * a hole is as cheap as any other, and so is asking for the hole again. */

enum {
	SLOT_BYTES = 65536,
	SLOT_PAGES = SLOT_BYTES / HF_PAGE_BYTES,
};

#define NO_SLOT UINT64_MAX /* not a multiple of SLOT_BYTES */

struct slot {
	uint64_t base;     /* address of its first byte, or NO_SLOT */
	uint32_t readable; /* bit n: page n is */
};

struct hf_window {
	const struct hf_image *image; /* borrowed */
	size_t num_slots;             /* power of two */
	struct slot *slots;
	char *bytes;                  /* num_slots * SLOT_BYTES */
};

struct hf_error *hf_window_create(const struct hf_image *image,
				  size_t num_slots, struct hf_window **ret)
{
	HF_AUTO(hf_window) struct hf_window *window =
		calloc(1, sizeof(*window));
	size_t size;

	assert(num_slots && !(num_slots & (num_slots - 1)));
	if (!window || __builtin_mul_overflow(num_slots, SLOT_BYTES, &size))
		return &hf_enomem;
	window->image = image;
	window->num_slots = num_slots;
	window->slots = calloc(num_slots, sizeof(*window->slots));
	window->bytes = malloc(size);
	if (!window->slots || !window->bytes)
		return &hf_enomem;
	for (size_t i = 0; i < num_slots; i++)
		window->slots[i].base = NO_SLOT;
	*ret = HF_TAKE(window);
	return NULL;
}

void hf_window_destroy(struct hf_window *window)
{
	if (!window)
		return;
	free(window->slots);
	free(window->bytes);
	free(window);
}

static void fill(const struct hf_window *window, struct slot *slot,
		 uint64_t base, char *bytes)
{
	size_t off = 0;

	slot->base = base;
	slot->readable = 0;
	while (off < SLOT_BYTES) {
		size_t first = off / HF_PAGE_BYTES;
		size_t got = hf_image_read_some(window->image, base + off,
						bytes + off, SLOT_BYTES - off);
		size_t last = (off + got) / HF_PAGE_BYTES;

		for (size_t page = first; page < last; page++)
			slot->readable |= 1u << page;
		/* Page `last`, if any, could not be read to its end. */
		off = (last + 1) * HF_PAGE_BYTES;
	}
}

static struct slot *find(struct hf_window *window, uint64_t addr,
			 const char **bytes_ret)
{
	uint64_t base = addr & ~(uint64_t)(SLOT_BYTES - 1);
	size_t i = base / SLOT_BYTES & (window->num_slots - 1);
	char *bytes = window->bytes + i * SLOT_BYTES;

	if (window->slots[i].base != base)
		fill(window, &window->slots[i], base, bytes);
	*bytes_ret = bytes;
	return &window->slots[i];
}

bool hf_window_peek(struct hf_window *window, uint64_t addr, void *buf,
		    size_t len)
{
	uint64_t at = addr, end;

	assert(len <= SLOT_BYTES);
	if (!len)
		return true;
	if (__builtin_add_overflow(addr, len, &end) || end > HF_ADDRESS_END)
		return false;
	while (at < end) {
		const char *bytes;
		const struct slot *slot = find(window, at, &bytes);
		uint64_t stop = hf_min_u64(end, slot->base + SLOT_BYTES);
		size_t off = at - slot->base, last = stop - slot->base - 1;
		/* Bits of the pages from that of `off` to that of `last`. */
		uint32_t want = (2u << last / HF_PAGE_BYTES) -
				(1u << off / HF_PAGE_BYTES);

		if ((slot->readable & want) != want)
			return false;
		memcpy((char *)buf + (at - addr), bytes + off, stop - at);
		at = stop;
	}
	return true;
}

bool hf_window_peek_u64(struct hf_window *window, uint64_t addr,
			uint64_t *ret)
{
	/* The common case, for walks over millions of words: in its slot, and
	 * in one page of it. */
	size_t i = addr / SLOT_BYTES & (window->num_slots - 1);
	size_t off = addr % SLOT_BYTES;
	const struct slot *slot = &window->slots[i];

	if (slot->base == addr - off &&
	    off % HF_PAGE_BYTES <= HF_PAGE_BYTES - sizeof(*ret) &&
	    slot->readable & 1u << off / HF_PAGE_BYTES) {
		memcpy(ret, window->bytes + i * SLOT_BYTES + off, sizeof(*ret));
		return true;
	}
	return hf_window_peek(window, addr, ret, sizeof(*ret));
}
