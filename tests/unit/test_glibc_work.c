/* What a walk costs, counted in turns of its loops: never much more for a heap
 * than its size, whatever is in it.
 * SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "indexer/glibc/glibc_heap.h"
#include "indexer/glibc/glibc_reader.h"
#include "tests/support/block_sink.h"
#include "tests/support/fake_image.h"
#include "tests/support/test_main.h"

/* A heap of glibc 2.36 in one run of chunks, as long as need be. */

#define LIBC UINT64_C(0x7f0000000000)
#define BRK UINT64_C(0x555500000000)
#define TLS UINT64_C(0x7f4000000000)
#define MMAP UINT64_C(0x7f2000000000)

enum {
	PAGE = 4096, MP_OFFSET = 3072, IN_USE = 1, TLS_BYTES = 4096,
	TCACHE_CHUNK = 656,
};

struct heap {
	struct fake_image *image;
	const struct hf_malloc_layout *layout;
	uint64_t base;
	uint8_t *bytes;
	size_t used, size;
	bool no_mp;
};

static void heap_init(struct heap *heap, uint64_t base, size_t size)
{
	*heap = (struct heap){
		.image = fake_image_create(),
		.layout = hf_malloc_layout_find(236, NULL),
		.base = base, .size = (size + 2 * PAGE) & ~(size_t)(PAGE - 1),
	};
	heap->bytes = calloc(1, heap->size);
	assert_non_null(heap->bytes);
}

static void heap_deinit(struct heap *heap)
{
	fake_image_destroy(heap->image);
	free(heap->bytes);
}

static void put(struct heap *heap, uint64_t addr, uint64_t value)
{
	memcpy(heap->bytes + (addr - heap->base), &value, 8);
}

/* @return the address of its user's bytes. */
static uint64_t add(struct heap *heap, uint64_t bytes)
{
	uint64_t chunk = heap->base + heap->used;

	heap->used += bytes;
	assert_true(heap->used + PAGE <= heap->size);
	put(heap, chunk + 8, bytes | IN_USE);
	return chunk + 16;
}

/* Write top and main_arena; mp_ says that there is no mmapped chunk. */
static void finish(struct heap *heap, uint32_t flags, uint64_t top)
{
	const struct hf_malloc_layout *layout = heap->layout;
	uint64_t state[PAGE / 8] = { 0 };

	if (!top) {
		top = heap->base + heap->used;
		put(heap, top + 8, (heap->size - heap->used) | IN_USE);
	}
	memcpy((char *)state + layout->flags, &flags, 4);
	state[layout->top / 8] = top;
	for (uint64_t i = 0; i < 2 * (HF_MALLOC_NUM_BINS - 1); i++)
		state[layout->bins / 8 + i] =
			LIBC + layout->bins + 16 * (i / 2) - 16;
	state[layout->next / 8] = LIBC;
	state[layout->system_mem / 8] = heap->size;
	if (heap->base == BRK)
		state[(MP_OFFSET + layout->sbrk_base) / 8] = BRK;
	fake_image_add_anon(heap->image, LIBC, LIBC + PAGE);
	fake_image_poke(heap->image, LIBC, state, sizeof(state));
	if (heap->base == BRK)
		fake_image_add_brk(heap->image, BRK, BRK + heap->size);
	else
		fake_image_add_anon(heap->image, heap->base,
				    heap->base + heap->size);
	fake_image_poke(heap->image, heap->base, heap->bytes, heap->size);
}

struct cost {
	uint64_t turns, anomalies, cached, internal, reads;
	struct hf_error *err;
};

/* Asks to stop when it was asked so many times. */
struct asker {
	struct hf_progress progress;
	volatile sig_atomic_t wants_to_stop;
	const void *reader;
	uint64_t patience, num_asked;
	uint64_t turns_then;
};

static void user_is_asked(void *arg, const char *phase, uint64_t done,
			  uint64_t total)
{
	struct asker *user = arg;

	(void)phase;
	(void)done;
	(void)total;
	if (++user->num_asked < user->patience)
		return;
	assert_int_equal(user->num_asked, user->patience);
	user->wants_to_stop = 1;
	user->turns_then = hf_glibc_work(user->reader);
}

static struct cost walk(struct heap *heap, struct asker *user)
{
	HF_AUTO(hf_anomalies) struct hf_anomalies *anomalies = NULL;
	struct block_sink sink;
	struct cost cost = { 0 };
	void *reader;

	assert_hf_ok(hf_anomalies_create(&anomalies));
	assert_hf_ok(hf_glibc_open_at(fake_image_freeze(heap->image), anomalies,
				      heap->layout, LIBC,
				      heap->no_mp ? 0 : LIBC + MP_OFFSET,
				      &reader));
	block_sink_init(&sink, anomalies);
	if (user) {
		user->progress = (struct hf_progress){
			.show = user_is_asked, .arg = user,
			.cancelled = &user->wants_to_stop,
		};
		user->reader = reader;
		sink.sink.progress = &user->progress;
	}
	cost.err = hf_glibc_reader.walk(reader, &sink.sink);
	cost.turns = hf_glibc_work(reader);
	cost.reads = fake_image_num_reads(heap->image);
	cost.anomalies = hf_anomalies_total(anomalies);
	for (size_t i = 0; i < sink.blocks.num; i++) {
		cost.cached += sink.blocks.data[i].state == HF_BLOCK_CACHED;
		cost.internal += sink.blocks.data[i].state ==
				 HF_BLOCK_INTERNAL;
	}
	block_sink_deinit(&sink);
	hf_glibc_reader.close(reader);
	return cost;
}

/* Blocks that look like a tcache, all with the same long list. */
static struct cost cost_of_lists(uint64_t num_tcaches, uint64_t num_chunks,
				 uint16_t count, struct asker *user)
{
	uint64_t first = BRK + 16;
	struct heap heap;
	struct cost cost;

	heap_init(&heap, BRK, num_tcaches * TCACHE_CHUNK + num_chunks * 32);
	for (uint64_t i = 0; i < num_chunks; i++) {
		uint64_t mem = add(&heap, 32);

		put(&heap, mem, (i + 1 < num_chunks ? mem + 32 : 0) ^
				(mem >> 12));
	}
	for (uint64_t i = 0; i < num_tcaches; i++) {
		uint64_t mem = add(&heap, TCACHE_CHUNK);

		put(&heap, mem, count);
		put(&heap, mem + heap.layout->tcache_entries, first);
	}
	finish(&heap, 0, 0);
	cost = walk(&heap, user);
	heap_deinit(&heap);
	return cost;
}

static void four_times_the_lists_cost_four_times_as_much(void **state)
{
	static const uint16_t counts[] = { 7, 65535 };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct cost one = cost_of_lists(50, 5000, counts[i], NULL);
		struct cost four = cost_of_lists(200, 20000, counts[i],
						 NULL);

		print_message("%" PRIu64 " turns, then %" PRIu64 "\n",
			      one.turns, four.turns);
		assert_hf_ok(one.err);
		assert_hf_ok(four.err);
		assert_true(one.turns > 5000);
		assert_true(four.turns < 5 * one.turns);
		/* Each list that ends early or is not what it counts. */
		assert_in_range(four.anomalies, 1, 3 * 200);
		if (counts[i] == 7)
			assert_int_equal(four.cached, 8);
	}
}

static struct cost cost_of_threads(size_t num_threads, size_t num_words,
				   struct asker *user)
{
	struct heap heap;
	struct cost cost;

	heap_init(&heap, BRK, num_threads * num_words * TCACHE_CHUNK);
	for (size_t i = 0; i < num_threads; i++) {
		uint64_t start = TLS + i * 2 * TLS_BYTES;

		fake_image_add_anon(heap.image, start, start + TLS_BYTES);
		fake_image_add_thread_at(heap.image, 100 + i, start,
					 start + TLS_BYTES);
		for (size_t w = 0; w < num_words; w++)
			fake_image_poke_u64(heap.image, start + 8 * w,
					    add(&heap, TCACHE_CHUNK));
	}
	finish(&heap, 0, 0);
	cost = walk(&heap, user);
	heap_deinit(&heap);
	return cost;
}

/* Blocks of zeros that thread-local variables point to look like tcaches with
 * nothing in them. */
static void four_times_the_threads_cost_four_times_as_much(void **state)
{
	struct cost one = cost_of_threads(4, 100, NULL);
	struct cost four = cost_of_threads(16, 100, NULL);

	(void)state;
	print_message("%" PRIu64 " turns, then %" PRIu64 "\n", one.turns,
		      four.turns);
	assert_hf_ok(one.err);
	assert_hf_ok(four.err);
	assert_true(one.turns > 400);
	assert_true(four.turns < 5 * one.turns);
	/* One distance is chosen, which holds for every thread. */
	assert_int_equal(one.internal, 4);
	assert_int_equal(four.internal, 16);
	assert_int_equal(four.anomalies, 0);
}

enum { NONCONTIGUOUS = 2, BLOCK = 128 };

/* A main arena without brk, and memory where a run of chunks could begin at
 * every page, but all of them lead to something that is none. */
static struct cost cost_of_segments(size_t num_pages, struct asker *user)
{
	struct heap heap;
	struct cost cost;

	heap_init(&heap, MMAP, num_pages * PAGE);
	for (size_t i = 0; i < num_pages * PAGE / BLOCK; i++)
		add(&heap, BLOCK);
	fake_image_add_anon(heap.image, TLS, TLS + PAGE);
	fake_image_poke_u64(heap.image, TLS + 8, PAGE | IN_USE);
	finish(&heap, NONCONTIGUOUS, TLS);
	cost = walk(&heap, user);
	heap_deinit(&heap);
	return cost;
}

static void four_times_the_pages_cost_four_times_as_much(void **state)
{
	struct cost one = cost_of_segments(64, NULL);
	struct cost four = cost_of_segments(256, NULL);

	(void)state;
	assert_hf_ok(one.err);
	assert_hf_ok(four.err);
	print_message("%" PRIu64 " turns, then %" PRIu64 "\n", one.turns,
		      four.turns);
	assert_true(one.turns > 64 * PAGE / BLOCK);
	assert_true(four.turns < 5 * one.turns);
}

/* Nothing says how many mapped chunks there are: every page is looked at. */
static void pages_in_a_row_are_read_together(void **state)
{
	enum { NUM_PAGES = 2000 };
	struct heap heap;
	struct cost cost;

	(void)state;
	heap_init(&heap, BRK, PAGE);
	heap.no_mp = true;
	add(&heap, 32);
	finish(&heap, 0, 0);
	fake_image_add_anon(heap.image, MMAP, MMAP + NUM_PAGES * PAGE);
	fake_image_touch(heap.image, MMAP, MMAP + NUM_PAGES * PAGE);
	cost = walk(&heap, NULL);
	heap_deinit(&heap);
	assert_hf_ok(cost.err);
	print_message("%" PRIu64 " reads\n", cost.reads);
	assert_true(cost.turns > NUM_PAGES);
	assert_true(cost.reads < NUM_PAGES / 20);
}

static struct cost one_of_three(int which, struct asker *user)
{
	switch (which) {
	case 0:
		return cost_of_lists(200, 20000, 65535, user);
	case 1:
		return cost_of_threads(16, 100, user);
	default:
		return cost_of_segments(256, user);
	}
}

/* Wherever the walk is when the user wants it to stop. */
static void every_loop_stops_when_the_user_wants(void **state)
{
	(void)state;
	for (int which = 0; which < 3; which++) {
		struct asker user = { .patience = UINT64_MAX };
		struct cost all = one_of_three(which, &user), some;
		uint64_t num = user.num_asked;

		assert_hf_ok(all.err);
		print_message("asked %" PRIu64 " times in %" PRIu64
			      " turns\n", num, all.turns);
		assert_true(num >= all.turns / HF_WORK_POLL);
		for (uint64_t i = 1; i < num; i++) {
			user = (struct asker){ .patience = i };
			some = one_of_three(which, &user);
			assert_non_null(some.err);
			assert_int_equal(some.err->code, HF_ERROR_INTERRUPTED);
			hf_error_destroy(some.err);
			assert_true(some.turns - user.turns_then <=
				    HF_WORK_POLL);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(four_times_the_lists_cost_four_times_as_much),
		cmocka_unit_test(
			four_times_the_threads_cost_four_times_as_much),
		cmocka_unit_test(four_times_the_pages_cost_four_times_as_much),
		cmocka_unit_test(pages_in_a_row_are_read_together),
		cmocka_unit_test(every_loop_stops_when_the_user_wants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
