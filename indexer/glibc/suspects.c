/* Suspects: what threads inside malloc were at work on.
 * SPDX-License-Identifier: MIT */
#include "indexer/glibc/suspects.h"

#include "indexer/glibc/chunk_index.h"

/* malloc.c changes its heap one store at a time, and a thread may be stopped
 * between any two. What that does to what the walk sees (glibc 2.17 .. 2.42):
 *
 *   malloc, free    one chunk is in use for one of the two, the program and
 *                   malloc, and free for the other
 *   stashing        _int_malloc moves chunks from a bin to the tcache: one is
 *                   in neither, and looks as if it were in use
 *   splitting top   the chunk has its size, or `top` has moved, but not both:
 *                   the walk cuts such a chunk at top (chunks.c)
 *   consolidation   malloc_consolidate takes a whole fastbin off its arena: all
 *                   of its chunks look as if they were in use. They hang on a
 *                   register: the next one to be merged
 *
 * So each of the doubtful chunks is one that a register of the thread, or a word
 * on top of its stack, points to: to its header or to the user's bytes; or it is
 * linked to one of these as in a fastbin. Of what is pointed to, live chunks are
 * suspect. Some are not doubtful at all: the caller's own, whose registers malloc
 * has saved. */

enum {
	RED_ZONE = 128,     /* below rsp, of a function that calls none */
	STACK_BYTES = 512,  /* the frames of malloc, free, and what they call */
	FD = 16,            /* offset of the link in a chunk */
	MAX_FAST_BYTES = 32 + 16 * (HF_MALLOC_MAX_FASTBINS - 1),
};

static struct hf_error *hold(struct hf_glibc_heap *heap, uint64_t word)
{
	/* Nothing of malloc's is in the first page, or not a user's. */
	if (word < 4096 || word >> 47 != 0 || word % 8 != 0)
		return NULL;
	return hf_array_append(&heap->held, word);
}

static struct hf_error *hold_thread(struct hf_glibc_heap *heap,
				    const struct hf_thread *thread)
{
	const struct user_regs_struct *regs = &thread->regs;
	const uint64_t registers[] = {
		regs->rax, regs->rbx, regs->rcx, regs->rdx, regs->rsi,
		regs->rdi, regs->rbp, regs->r8, regs->r9, regs->r10,
		regs->r11, regs->r12, regs->r13, regs->r14, regs->r15,
	};
	uint64_t words[(RED_ZONE + STACK_BYTES) / 8];
	uint64_t sp = regs->rsp & ~UINT64_C(7);
	struct hf_error *err = NULL;
	size_t got;

	for (size_t i = 0; i < sizeof(registers) / sizeof(*registers) && !err;
	     i++)
		err = hold(heap, registers[i]);
	if (sp < RED_ZONE)
		return err;
	got = hf_image_read_some(heap->image, sp - RED_ZONE, words,
				 sizeof(words)) / 8;
	for (size_t i = 0; i < got && !err; i++)
		err = hold(heap, words[i]);
	return err;
}

struct hf_error *hf_suspects_find(struct hf_glibc_heap *heap)
{
	size_t num;
	const struct hf_thread *threads = hf_image_threads(heap->image, &num);
	bool any = false;

	for (size_t i = 0; heap->is_inside && i < num; i++) {
		struct hf_error *err;

		if (!heap->is_inside[i])
			continue;
		any = true;
		err = hold_thread(heap, &threads[i]);
		if (err)
			return err;
	}
	for (size_t a = 0; a < heap->arenas.num; a++) {
		struct hf_malloc_arena *arena = &heap->arenas.data[a];

		arena->suspect |= arena->locked;
		for (size_t i = 0; i < heap->held.num && !arena->suspect;
		     i++) {
			if (!hf_work_step(heap->work))
				return hf_work_check(heap->work);
			arena->suspect = heap->held.data[i] == arena->addr;
		}
	}
	/* A program with one thread locks nothing. */
	if (any && num == 1 && heap->arenas.num == 1)
		heap->arenas.data[0].suspect = true;
	return NULL;
}

struct marker {
	struct hf_glibc_heap *heap;
	struct hf_chunk_table *table;
	struct hf_chunk_index index;
};

/* @return whether it was live until now. */
static bool mark(const struct marker *marker, uint64_t chunk,
		 uint64_t *size_ret)
{
	size_t entry;

	if (chunk % HF_CHUNK_ALIGN != 0 ||
	    !hf_chunk_index_find(&marker->index, chunk, &entry) ||
	    hf_chunk_table_state(marker->table, entry) != HF_CHUNK_LIVE)
		return false;
	hf_chunk_table_set_state(marker->table, entry, HF_CHUNK_SUSPECT);
	*size_ret = hf_chunk_table_size(marker->table, entry);
	return true;
}

/* The rest of a fastbin: chunks of one size. Each step marks one that was not
 * marked. */
static void mark_list(const struct marker *marker, uint64_t chunk,
		      uint64_t bytes)
{
	const struct hf_glibc_heap *heap = marker->heap;
	uint64_t stored, next_bytes = bytes;

	while (bytes <= MAX_FAST_BYTES && next_bytes == bytes &&
	       hf_work_step(heap->work) &&
	       hf_pages_peek_u64(heap->pages, chunk + FD, &stored)) {
		uint64_t next = hf_link_target(&heap->layout, chunk + FD,
					       stored);
		size_t entry;

		if (next % HF_CHUNK_ALIGN != 0 ||
		    !hf_chunk_index_find(&marker->index, next, &entry) ||
		    hf_chunk_table_size(marker->table, entry) != bytes ||
		    !mark(marker, next, &next_bytes))
			return;
		chunk = next;
	}
}

static void mark_mmapped(struct hf_glibc_heap *heap, uint64_t word)
{
	size_t low = 0, high = heap->mmapped.num;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (heap->mmapped.data[mid].end <= word)
			low = mid + 1;
		else
			high = mid;
	}
	if (low < heap->mmapped.num &&
	    (heap->mmapped.data[low].chunk == word ||
	     heap->mmapped.data[low].chunk + HF_CHUNK_HEADER == word))
		heap->mmapped.data[low].suspect = true;
}

/* A chunk that malloc_consolidate has merged with a free one before it, but not
 * yet marked as free: it has nothing that points to it any more. */
static void mark_behind_free(const struct marker *marker, uint64_t chunk)
{
	uint64_t size;
	size_t entry;

	if (chunk % HF_CHUNK_ALIGN == 0 &&
	    hf_chunk_index_find(&marker->index, chunk, &entry) &&
	    hf_chunk_table_state(marker->table, entry) == HF_CHUNK_FREE) {
		chunk += hf_chunk_table_size(marker->table, entry);
		if (hf_chunk_index_find(&marker->index, chunk, &entry) &&
		    hf_chunk_table_size(marker->table, entry) <=
			    MAX_FAST_BYTES &&
		    mark(marker, chunk, &size))
			mark_list(marker, chunk, size);
	}
}

struct hf_error *hf_suspects_mark(struct hf_glibc_heap *heap,
				  struct hf_chunk_table *table)
{
	struct marker marker = { .heap = heap, .table = table };
	struct hf_error *err;

	if (heap->held.num == 0)
		return NULL;
	err = hf_chunk_index_init(&marker.index, heap, table);
	for (size_t i = 0; i < heap->held.num && !err; i++) {
		uint64_t word = heap->held.data[i], bytes;

		err = hf_work_turn(heap->work);
		if (err)
			break;
		for (uint64_t back = 0; back <= HF_CHUNK_HEADER;
		     back += HF_CHUNK_HEADER)
			if (mark(&marker, word - back, &bytes))
				mark_list(&marker, word - back, bytes);
		mark_behind_free(&marker, word);
		mark_mmapped(heap, word);
	}
	hf_chunk_index_deinit(&marker.index);
	return err ? err : hf_work_check(heap->work);
}
