/* Fake malloc: writes what glibc would have in its memory.
 * SPDX-License-Identifier: MIT */
#include "tests/support/fake_malloc.h"

#include <stdio.h>

struct heap {
	uint64_t start, end;
	uint64_t next;         /* where the next chunk goes */
	uint64_t last_free;    /* size of the chunk before, if it is free */
};

struct fake_malloc {
	struct hf_malloc_layout layout;
	struct fake_image *memory;
	struct hf_image *image;            /* owned by memory */
	struct heap heaps[FAKE_NUM_HEAPS];
	uint64_t arenas[2];                /* addresses */
	uint64_t fast[2][HF_MALLOC_MAX_FASTBINS];
	uint64_t unsorted_first[2], unsorted_last[2];
	uint64_t tcache;
	uint64_t tcache_entries[HF_TCACHE_MAX_BINS];
	uint16_t tcache_counts[HF_TCACHE_MAX_BINS];
	uint64_t used, cached, free;
};

enum {
	PREV_INUSE = 1,
	IS_MMAPPED = 2,
	NON_MAIN_ARENA = 4,
	TCACHE_COUNT = 7,
};

static void require(bool condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "fake malloc: %s\n", what);
	abort();
}

static void poke(struct fake_malloc *fake, uint64_t addr, uint64_t value)
{
	fake_image_poke_u64(fake->memory, addr, value);
}

static uint64_t link_of(const struct fake_malloc *fake, uint64_t addr,
			uint64_t target)
{
	return fake->layout.safe_linking ? target ^ (addr >> 12) : target;
}

/* The header of the bin of unsorted chunks. */
static uint64_t unsorted(const struct fake_malloc *fake, int arena)
{
	return fake->arenas[arena] + fake->layout.bins - HF_CHUNK_HEADER;
}

struct fake_malloc *fake_malloc_create(const struct hf_malloc_layout *layout)
{
	const uint64_t heap_bytes =
		(uint64_t)FAKE_MALLOC_HEAP_PAGES * FAKE_MALLOC_PAGE;
	struct fake_malloc *fake = calloc(1, sizeof(*fake));
	const struct {
		uint64_t start, pages;
	} segments[] = {
		{ FAKE_MALLOC_LIBC, 1 },
		{ FAKE_MALLOC_TLS, 1 },
		{ FAKE_MALLOC_HEAP1, FAKE_MALLOC_HEAP_PAGES },
		{ FAKE_MALLOC_HEAP2, FAKE_MALLOC_HEAP_PAGES },
		{ FAKE_MALLOC_MMAP, FAKE_MALLOC_MMAP_PAGES },
	};

	require(fake, "no memory");
	fake->layout = *layout;
	fake->memory = fake_image_create();
	fake_image_add_brk(fake->memory, FAKE_MALLOC_BRK,
			   FAKE_MALLOC_BRK + heap_bytes);
	for (size_t i = 0; i < sizeof(segments) / sizeof(segments[0]); i++)
		fake_image_add_anon(fake->memory, segments[i].start,
				    segments[i].start +
					    segments[i].pages *
						    FAKE_MALLOC_PAGE);
	fake->arenas[0] = FAKE_MALLOC_LIBC + FAKE_MALLOC_ARENA_OFFSET;
	fake->arenas[1] = FAKE_MALLOC_HEAP1 + layout->heap_info_bytes;
	fake->heaps[FAKE_BRK].start = FAKE_MALLOC_BRK;
	fake->heaps[FAKE_BRK].next = FAKE_MALLOC_BRK;
	fake->heaps[FAKE_HEAP1].start = FAKE_MALLOC_HEAP1;
	fake->heaps[FAKE_HEAP1].next =
		(fake->arenas[1] + layout->state_bytes + 15) & ~UINT64_C(15);
	fake->heaps[FAKE_HEAP2].start = FAKE_MALLOC_HEAP2;
	fake->heaps[FAKE_HEAP2].next =
		FAKE_MALLOC_HEAP2 + layout->heap_info_bytes;
	for (int i = 0; i < FAKE_NUM_HEAPS; i++)
		fake->heaps[i].end = fake->heaps[i].start + heap_bytes;
	for (int i = 0; i < 2; i++)
		fake->unsorted_first[i] = fake->unsorted_last[i] =
			unsorted(fake, i);
	if (layout->tcache != HF_TCACHE_NONE) {
		uint64_t chunk = fake_malloc_add(fake, FAKE_BRK,
						 hf_tcache_chunk_bytes(layout),
						 FAKE_USED);

		fake->tcache = chunk + HF_CHUNK_HEADER;
		fake->used--;
	}
	return fake;
}

void fake_malloc_destroy(struct fake_malloc *fake)
{
	if (!fake)
		return;
	fake_image_destroy(fake->memory);
	free(fake);
}

uint64_t fake_malloc_add(struct fake_malloc *fake, enum fake_heap heap_id,
			 uint64_t bytes, enum fake_chunk kind)
{
	const struct hf_malloc_layout *layout = &fake->layout;
	struct heap *heap = &fake->heaps[heap_id];
	int arena = heap_id == FAKE_BRK ? 0 : 1;
	uint64_t chunk = heap->next, mem = chunk + HF_CHUNK_HEADER;
	uint64_t flags = 0, bin = bytes / 16 - 2;

	require(bytes >= HF_CHUNK_MIN && bytes % 16 == 0, "size");
	require(heap->end - chunk >= bytes + 32, "heap is full");
	if (kind == FAKE_FAST && bin >= layout->num_fastbins)
		kind = FAKE_USED;
	if (kind == FAKE_TCACHE && (!fake->tcache || bin >= 64 ||
				    fake->tcache_counts[bin] == TCACHE_COUNT))
		kind = FAKE_USED;
	if (heap->last_free)
		poke(fake, chunk, heap->last_free);
	else
		flags |= PREV_INUSE;
	if (arena == 1 && kind != FAKE_FREE)
		flags |= NON_MAIN_ARENA;
	poke(fake, chunk + 8, bytes | flags);
	heap->last_free = 0;
	heap->next += bytes;
	switch (kind) {
	case FAKE_USED:
		fake->used++;
		poke(fake, mem, UINT64_C(0x4141414141414141));
		break;
	case FAKE_FREE:
		heap->last_free = bytes;
		fake->free++;
		poke(fake, mem, unsorted(fake, arena));
		poke(fake, mem + 8, fake->unsorted_last[arena]);
		if (fake->unsorted_first[arena] == unsorted(fake, arena))
			fake->unsorted_first[arena] = chunk;
		else
			poke(fake, fake->unsorted_last[arena] + 16, chunk);
		fake->unsorted_last[arena] = chunk;
		break;
	case FAKE_FAST:
		fake->cached++;
		poke(fake, mem, link_of(fake, mem, fake->fast[arena][bin]));
		fake->fast[arena][bin] = chunk;
		break;
	case FAKE_TCACHE:
		fake->cached++;
		poke(fake, mem, link_of(fake, mem, fake->tcache_entries[bin]));
		poke(fake, mem + 8, UINT64_C(0x1122334455667788));
		fake->tcache_entries[bin] = mem;
		fake->tcache_counts[bin]++;
		break;
	}
	return chunk;
}

void fake_malloc_fill(struct fake_malloc *fake)
{
	for (int heap = 0; heap < FAKE_NUM_HEAPS; heap++) {
		for (uint64_t i = 0; i < 60; i++) {
			static const enum fake_chunk kinds[] = {
				FAKE_USED, FAKE_FREE, FAKE_USED, FAKE_FAST,
				FAKE_TCACHE, FAKE_USED, FAKE_USED,
			};

			fake_malloc_add(fake, heap, 32 + 16 * (i * 7 % 23),
					kinds[i % 7]);
		}
	}
}

static void write_arena(struct fake_malloc *fake, int arena, uint64_t top,
			uint64_t system_mem)
{
	const struct hf_malloc_layout *layout = &fake->layout;
	uint64_t addr = fake->arenas[arena];

	poke(fake, addr, 0);
	poke(fake, addr + layout->top, top);
	poke(fake, addr + layout->next, fake->arenas[1 - arena]);
	poke(fake, addr + layout->system_mem, system_mem);
	for (uint32_t i = 0; i < layout->num_fastbins; i++)
		poke(fake, addr + layout->fastbins + 8 * i,
		     fake->fast[arena][i]);
	for (uint32_t i = 0; i < HF_MALLOC_NUM_BINS - 1; i++) {
		uint64_t bin = addr + layout->bins + 16 * i;

		poke(fake, bin, i ? bin - 16 : fake->unsorted_first[arena]);
		poke(fake, bin + 8, i ? bin - 16 : fake->unsorted_last[arena]);
	}
}

static void write_top(struct fake_malloc *fake, enum fake_heap heap_id)
{
	struct heap *heap = &fake->heaps[heap_id];

	/* A free chunk before top would be part of it. */
	if (heap->last_free)
		fake_malloc_add(fake, heap_id, HF_CHUNK_MIN, FAKE_USED);
	poke(fake, heap->next + 8, (heap->end - heap->next) | PREV_INUSE);
}

/* One chunk up to the fenceposts of the older heap, and them. */
static void write_fenceposts(struct fake_malloc *fake)
{
	struct heap *heap = &fake->heaps[FAKE_HEAP1];
	uint64_t left = heap->end - heap->next - 32;

	fake_malloc_add(fake, FAKE_HEAP1, left - 64, FAKE_FREE);
	fake_malloc_add(fake, FAKE_HEAP1, 64, FAKE_USED);
	poke(fake, heap->end - 32 + 8, 0x10 | PREV_INUSE);
	poke(fake, heap->end - 16, 0x10);
	poke(fake, heap->end - 16 + 8, PREV_INUSE);
}

static void write_heap_infos(struct fake_malloc *fake)
{
	for (int i = FAKE_HEAP1; i <= FAKE_HEAP2; i++) {
		uint64_t addr = fake->heaps[i].start;

		poke(fake, addr, fake->arenas[1]);
		poke(fake, addr + 8,
		     i == FAKE_HEAP2 ? fake->heaps[FAKE_HEAP1].start : 0);
		poke(fake, addr + 16, fake->heaps[i].end - addr);
	}
}

static void write_tcache(struct fake_malloc *fake)
{
	const struct hf_malloc_layout *layout = &fake->layout;

	for (uint32_t i = 0; i < layout->tcache_num; i++) {
		uint16_t count = fake->tcache_counts[i];

		if (layout->tcache == HF_TCACHE_SLOTS)
			count = TCACHE_COUNT - count;
		fake_image_poke(fake->memory,
				fake->tcache + i * layout->tcache_count_bytes,
				&count, layout->tcache_count_bytes);
		poke(fake, fake->tcache + layout->tcache_entries + 8 * i,
		     fake->tcache_entries[i]);
	}
	poke(fake, FAKE_MALLOC_TLS + FAKE_MALLOC_PAGE - 72, fake->tcache);
}

/* Two pages with a chunk at their start; then four of which memalign took
 * the chunk at 4096 - 16. */
static void write_mappings(struct fake_malloc *fake)
{
	uint64_t first = FAKE_MALLOC_MMAP;
	uint64_t second = first + 2 * FAKE_MALLOC_PAGE;
	uint64_t bytes = 4 * FAKE_MALLOC_PAGE - fake->layout.mmap_tail;
	uint64_t lead = FAKE_MALLOC_PAGE - HF_CHUNK_HEADER;

	poke(fake, first, 0);
	poke(fake, first + 8, (2 * FAKE_MALLOC_PAGE - fake->layout.mmap_tail) |
				      IS_MMAPPED);
	poke(fake, second, 0);
	poke(fake, second + 8, bytes | IS_MMAPPED);
	poke(fake, second + lead, lead);
	poke(fake, second + lead + 8, (bytes - lead) | IS_MMAPPED);
	fake->used += 2;
}

static void write_mp(struct fake_malloc *fake)
{
	const struct hf_malloc_layout *layout = &fake->layout;
	uint64_t mp = FAKE_MALLOC_LIBC + FAKE_MALLOC_MP_OFFSET;
	uint64_t bytes = (uint64_t)FAKE_MALLOC_MMAP_PAGES * FAKE_MALLOC_PAGE;
	const uint32_t n_mmaps[3] = { 2, 65536, 2 };

	fake_image_poke(fake->memory, mp + layout->n_mmaps, n_mmaps,
			sizeof(n_mmaps));
	poke(fake, mp + layout->mmapped_mem, bytes);
	poke(fake, mp + layout->mmapped_mem + 8, bytes);
	poke(fake, mp + layout->sbrk_base, FAKE_MALLOC_BRK);
	if (layout->tcache_bins != HF_NO_OFFSET) {
		poke(fake, mp + layout->tcache_bins, 64);
		poke(fake, mp + layout->tcache_bins + 8, 1032);
		poke(fake, mp + layout->tcache_count, TCACHE_COUNT);
	}
}

void fake_malloc_finish(struct fake_malloc *fake)
{
	const struct heap *brk = &fake->heaps[FAKE_BRK];
	const struct heap *heap1 = &fake->heaps[FAKE_HEAP1];
	const struct heap *heap2 = &fake->heaps[FAKE_HEAP2];

	write_top(fake, FAKE_BRK);
	write_fenceposts(fake);
	write_top(fake, FAKE_HEAP2);
	write_arena(fake, 0, brk->next, brk->end - brk->start);
	write_arena(fake, 1, heap2->next, heap1->end - heap1->start +
						  heap2->end - heap2->start);
	write_heap_infos(fake);
	write_mappings(fake);
	write_mp(fake);
	if (fake->tcache)
		write_tcache(fake);
	fake_image_add_thread_at(fake->memory, 1, FAKE_MALLOC_TLS + 256,
				 FAKE_MALLOC_TLS + FAKE_MALLOC_PAGE - 8);
}

struct fake_image *fake_malloc_memory(struct fake_malloc *fake)
{
	return fake->memory;
}

struct hf_image *fake_malloc_image(struct fake_malloc *fake)
{
	if (!fake->image)
		fake->image = fake_image_freeze(fake->memory);
	return fake->image;
}

uint64_t fake_malloc_num_used(const struct fake_malloc *fake)
{
	return fake->used;
}

uint64_t fake_malloc_num_cached(const struct fake_malloc *fake)
{
	return fake->cached;
}

uint64_t fake_malloc_num_free(const struct fake_malloc *fake)
{
	return fake->free;
}

uint64_t fake_malloc_tcache(const struct fake_malloc *fake)
{
	return fake->tcache;
}

uint64_t fake_malloc_arena(const struct fake_malloc *fake)
{
	return fake->arenas[1];
}
