/* The scan on images whose every word is known.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "indexer/edge_list.h"
#include "indexer/scan.h"
#include "tests/support/fake_image.h"
#include "tests/support/graph_shapes.h"
#include "tests/support/test_main.h"
#include "util/array.h"

enum { MAX_BLOCKS = 4000, MAX_HOLDERS = 8 };

static const uint64_t HEAP = 0x555555600000;
static const uint64_t GLOBALS = 0x555555400000;
static const uint64_t PAGE = 4096;

/* What a test builds: blocks and holders by hand, memory by pokes. */
struct scene {
	struct fake_image *fake;
	struct hf_image *image;
	uint64_t addr[MAX_BLOCKS], size[MAX_BLOCKS];
	struct hf_block_table blocks;
	struct hf_holder holder[MAX_HOLDERS];
	struct hf_holders holders;
	struct hf_edges edges;
};

static struct scene *scene_create(void)
{
	struct scene *scene = calloc(1, sizeof(*scene));

	if (!scene)
		abort();
	scene->fake = fake_image_create();
	scene->blocks.addr = scene->addr;
	scene->blocks.size_bytes = scene->size;
	scene->holders.data = scene->holder;
	return scene;
}

static void scene_destroy(struct scene *scene)
{
	hf_edges_deinit(&scene->edges);
	fake_image_destroy(scene->fake);
	free(scene);
}

HF_DEFINE_AUTO(struct scene *, scene, scene_destroy)

static uint32_t add_block(struct scene *scene, uint64_t addr, uint64_t size)
{
	if (scene->blocks.num == MAX_BLOCKS)
		abort();
	scene->addr[scene->blocks.num] = addr;
	scene->size[scene->blocks.num] = size;
	return scene->blocks.num++;
}

static uint32_t add_holder(struct scene *scene, enum hf_holder_kind kind,
			   uint64_t start, uint64_t end, uint32_t thread)
{
	scene->holder[scene->holders.num] = (struct hf_holder){
		.kind = kind,
		.range = { start, end },
		.thread_index = thread,
		.module_id = HF_NO_MODULE,
	};
	return scene->holders.num++;
}

static void scan(struct scene *scene)
{
	scene->image = fake_image_freeze(scene->fake);
	assert_hf_ok(hf_scan(scene->image, &scene->holders, &scene->blocks,
			     NULL, &scene->edges));
}

static bool interior(const struct scene *scene, uint64_t edge)
{
	return scene->edges.is_interior[edge / 64] >> (edge % 64) & 1;
}

/* The edges of a node as text: "slot>target" or "slot>target+", by node. */
static const char *edges_of(const struct scene *scene, uint32_t node,
			    char *text, size_t size)
{
	const struct hf_graph *graph = &scene->edges.graph;
	size_t len = 0;

	text[0] = 0;
	for (uint64_t e = graph->first[node]; e < graph->first[node + 1]; e++)
		len += (size_t)snprintf(text + len, size - len, "%s%u>%u%s",
					len ? " " : "",
					scene->edges.slot_words[e],
					graph->target[e],
					interior(scene, e) ? "+" : "");
	return text;
}

static void holders_registers_and_blocks_become_nodes_in_order(void **state)
{
	HF_AUTO(scene) struct scene *scene = scene_create();
	struct hf_thread thread = { .tid = 7, .name = "main", .state = 'S' };
	uint64_t xstate[304] = { [20] = HEAP + 0x10, [303] = HEAP + 0x61 };
	char text[256];

	(void)state;
	fake_image_add_anon(scene->fake, GLOBALS, GLOBALS + PAGE);
	fake_image_add_brk(scene->fake, HEAP, HEAP + 4 * PAGE);
	thread.regs.rbx = HEAP + 0x40;
	thread.stop_how = HF_STOP_USER;
	thread.xstate = xstate; /* [20]: xmm0 */
	thread.xstate_bytes = sizeof(xstate);
	fake_image_add_thread(scene->fake, &thread);
	add_block(scene, HEAP + 0x10, 24);
	add_block(scene, HEAP + 0x30, 40);
	add_block(scene, HEAP + 0x60, 24);
	add_holder(scene, HF_HOLDER_GLOBAL, GLOBALS + 64, GLOBALS + 96,
		   UINT32_MAX);
	add_holder(scene, HF_HOLDER_GLOBAL, GLOBALS + 96, GLOBALS + 128,
		   UINT32_MAX);
	add_holder(scene, HF_HOLDER_REGISTERS, 0, 0, 0);
	/* Before the first holder: nobody's. */
	fake_image_poke_u64(scene->fake, GLOBALS + 56, HEAP + 0x10);
	fake_image_poke_u64(scene->fake, GLOBALS + 72, HEAP + 0x10);
	fake_image_poke_u64(scene->fake, GLOBALS + 88, HEAP + 0x31);
	fake_image_poke_u64(scene->fake, GLOBALS + 96, HEAP + 0x60);
	fake_image_poke_u64(scene->fake, HEAP + 0x10, HEAP + 0x10);
	fake_image_poke_u64(scene->fake, HEAP + 0x20, HEAP + 0x77);
	/* Header of the next chunk: not a word of the block. */
	fake_image_poke_u64(scene->fake, HEAP + 0x28, HEAP + 0x10);
	fake_image_poke_u64(scene->fake, HEAP + 0x30, 0x1234);
	/* Points behind the last byte: no edge. */
	fake_image_poke_u64(scene->fake, HEAP + 0x38, HEAP + 0x28);
	fake_image_poke_u64(scene->fake, HEAP + 0x50, HEAP + 0x10);
	scan(scene);

	assert_int_equal(scene->edges.graph.num_nodes, 6);
	assert_int_equal(scene->edges.graph.num_edges, 9);
	assert_string_equal(edges_of(scene, 0, text, sizeof(text)),
			    "1>3 3>4+");
	assert_string_equal(edges_of(scene, 1, text, sizeof(text)), "0>5");
	assert_int_equal(scene->edges.graph.first[3] -
				 scene->edges.graph.first[2], 3);
	assert_int_equal(scene->edges.slot_words[3],
			 offsetof(struct user_regs_struct, rbx) / 8);
	assert_int_equal(scene->edges.graph.target[3], 4);
	assert_true(interior(scene, 3));
	assert_int_equal(scene->edges.slot_words[4],
			 sizeof(struct user_regs_struct) / 8 + 20);
	assert_int_equal(scene->edges.graph.target[4], 3);
	assert_false(interior(scene, 4));
	assert_int_equal(scene->edges.slot_words[5],
			 sizeof(struct user_regs_struct) / 8 + 303);
	assert_int_equal(scene->edges.graph.target[5], 5);
	assert_true(interior(scene, 5));
	assert_string_equal(edges_of(scene, 3, text, sizeof(text)),
			    "0>3 2>5+");
	assert_string_equal(edges_of(scene, 4, text, sizeof(text)), "4>3");
	assert_string_equal(edges_of(scene, 5, text, sizeof(text)), "");
	assert_true(scene->edges.first_word[0] == HEAP + 0x10);
	assert_true(scene->edges.first_word[1] == 0x1234);
	assert_true(scene->edges.first_word[2] == 0);
	assert_int_equal(scene->edges.missing_bytes, 0);
	assert_int_equal(scene->edges.scanned_bytes,
			 64 + sizeof(struct user_regs_struct) +
				 sizeof(xstate) + 24 + 40 + 24);
}

static void vector_registers_count_in_a_call_of_the_programs_own(void **state)
{
	HF_AUTO(scene) struct scene *scene = scene_create();
	struct hf_thread thread = { .tid = 7, .name = "main", .state = 'S',
				    .stop_how = HF_STOP_SYSCALL };
	uint64_t xstate[64] = { [20] = HEAP + 0x10 };

	(void)state;
	fake_image_add_brk(scene->fake, HEAP, HEAP + 4 * PAGE);
	thread.xstate = xstate;
	thread.xstate_bytes = sizeof(xstate);
	fake_image_add_thread(scene->fake, &thread);
	add_block(scene, HEAP + 0x10, 24);
	add_holder(scene, HF_HOLDER_REGISTERS, 0, 0, 0);
	scan(scene);
	assert_int_equal(scene->edges.graph.num_edges, 1);
}

static void untouched_pages_are_empty_and_missing_ones_are_counted(void **state)
{
	HF_AUTO(scene) struct scene *scene = scene_create();
	struct hf_segment missing = {
		.start = HEAP + 16 * PAGE,
		.end = HEAP + 20 * PAGE,
		.prot = PROT_READ | PROT_WRITE,
		.kind = HF_SEGMENT_ANON,
		.absent = HF_ABSENT_MISSING,
		.module_id = HF_NO_MODULE,
	};
	char text[256];

	(void)state;
	fake_image_add_anon(scene->fake, HEAP, HEAP + 8 * PAGE);
	fake_image_add_segment(scene->fake, &missing);
	/* Eight pages, only the third and the last were touched. */
	add_block(scene, HEAP + 16, 8 * PAGE - 24);
	/* Four pages, of which the image has one. */
	add_block(scene, missing.start + 16, 4 * PAGE - 32);
	fake_image_poke_u64(scene->fake, HEAP + 2 * PAGE, HEAP + 16);
	fake_image_poke_u64(scene->fake, HEAP + 8 * PAGE - 16, HEAP + 17);
	fake_image_poke_u64(scene->fake, missing.start + PAGE + 8, HEAP + 16);
	scan(scene);

	assert_string_equal(edges_of(scene, 0, text, sizeof(text)),
			    "1022>0 4092>0+");
	assert_string_equal(edges_of(scene, 1, text, sizeof(text)), "511>0");
	assert_int_equal(scene->edges.first_word[0], 0);
	assert_int_equal(scene->edges.first_word[1], 0);
	assert_int_equal(scene->edges.missing_bytes, 3 * PAGE - 32);
	assert_int_equal(scene->edges.scanned_bytes, 3 * PAGE - 8);
}

static void unreadable_pages_are_missing(void **state)
{
	HF_AUTO(scene) struct scene *scene = scene_create();
	char text[64];

	(void)state;
	fake_image_add_anon(scene->fake, HEAP, HEAP + 4 * PAGE);
	add_block(scene, HEAP + 16, PAGE + 8);
	add_block(scene, HEAP + PAGE + 32, 3 * PAGE - 64);
	fake_image_touch(scene->fake, HEAP, HEAP + 4 * PAGE);
	fake_image_fail(scene->fake, HEAP + PAGE);
	fake_image_poke_u64(scene->fake, HEAP + 16, HEAP + 16);
	fake_image_poke_u64(scene->fake, HEAP + 2 * PAGE, HEAP + 16);
	scan(scene);
	assert_string_equal(edges_of(scene, 0, text, sizeof(text)), "0>0");
	assert_string_equal(edges_of(scene, 1, text, sizeof(text)), "508>0");
	assert_int_equal(scene->edges.missing_bytes, PAGE - 8);
}

static void an_odd_holder_counts_slots_from_the_word_below(void **state)
{
	HF_AUTO(scene) struct scene *scene = scene_create();
	char text[64];

	(void)state;
	fake_image_add_anon(scene->fake, GLOBALS, GLOBALS + PAGE);
	fake_image_add_brk(scene->fake, HEAP, HEAP + PAGE);
	add_block(scene, HEAP + 16, 24);
	add_holder(scene, HF_HOLDER_GLOBAL, GLOBALS + 4, GLOBALS + 20,
		   UINT32_MAX);
	add_holder(scene, HF_HOLDER_GLOBAL, GLOBALS + 20, GLOBALS + 21,
		   UINT32_MAX);
	fake_image_poke_u64(scene->fake, GLOBALS, HEAP + 16);
	fake_image_poke_u64(scene->fake, GLOBALS + 8, HEAP + 16);
	fake_image_poke_u64(scene->fake, GLOBALS + 16, HEAP + 16);
	scan(scene);
	assert_string_equal(edges_of(scene, 0, text, sizeof(text)), "1>2");
	assert_string_equal(edges_of(scene, 1, text, sizeof(text)), "");
}

static void nothing_to_scan_is_an_empty_graph(void **state)
{
	HF_AUTO(scene) struct scene *scene = scene_create();

	(void)state;
	fake_image_add_brk(scene->fake, HEAP, HEAP + PAGE);
	scan(scene);
	assert_int_equal(scene->edges.graph.num_nodes, 0);
	assert_int_equal(scene->edges.graph.num_edges, 0);
	assert_int_equal(scene->edges.graph.first[0], 0);
}

/* A heap with words of all kinds; the test keeps its own copy of it. */
struct wild_heap {
	uint64_t *words;  /* from HEAP on */
	size_t num_words;
};

static uint32_t naive_find(const struct scene *scene, uint64_t addr)
{
	for (uint32_t i = 0; i < scene->blocks.num; i++)
		if (addr - scene->addr[i] < scene->size[i])
			return i;
	return UINT32_MAX;
}

static void make_wild_heap(struct scene *scene, struct wild_heap *heap,
			   uint64_t *seed)
{
	uint64_t len = (1 + hf_test_random(seed) % 300) * PAGE, at = 16;

	fake_image_add_brk(scene->fake, HEAP, HEAP + len);
	while (scene->blocks.num < 400) {
		uint64_t size = 24 + hf_test_random(seed) % 40 * 16;

		if (hf_test_random(seed) % 40 == 0)
			size += hf_test_random(seed) % 64 * PAGE & -16ull;
		if (hf_test_random(seed) % 6 == 0)
			at += hf_test_random(seed) % 4 * PAGE / 2 & -16ull;
		if (at + size > len)
			break;
		add_block(scene, HEAP + at, size);
		at += size + 8;
	}
	heap->num_words = len / 8;
	heap->words = calloc(heap->num_words, 8);
	for (size_t i = 0; i < heap->num_words; i++) {
		/* Whole pages stay untouched. */
		if (i / (PAGE / 8) % 5 == 3 ||
		    hf_test_random(seed) % 4)
			continue;
		heap->words[i] = HEAP - 64 + hf_test_random(seed) % (len + 128);
		if (hf_test_random(seed) % 3 == 0 && scene->blocks.num)
			heap->words[i] = scene->addr[hf_test_random(seed) %
						     scene->blocks.num];
		fake_image_poke_u64(scene->fake, HEAP + i * 8, heap->words[i]);
	}
}

static void every_word_of_a_wild_heap_is_read_once_and_rightly(void **state)
{
	uint64_t seed = 5;

	(void)state;
	for (int round = 0; round < 30; round++) {
		HF_AUTO(scene) struct scene *scene = scene_create();
		struct wild_heap heap;
		uint64_t edge = 0;

		make_wild_heap(scene, &heap, &seed);
		scan(scene);
		for (uint32_t i = 0; i < scene->blocks.num; i++) {
			assert_int_equal(scene->edges.graph.first[i], edge);
			size_t base = (scene->addr[i] - HEAP) / 8;

			assert_true(scene->edges.first_word[i] ==
				    heap.words[base]);
			for (uint32_t k = 0; k < scene->size[i] / 8; k++) {
				uint64_t word = heap.words[base + k];
				uint32_t target = word ?
					naive_find(scene, word) : UINT32_MAX;

				if (target == UINT32_MAX)
					continue;
				assert_true(edge < scene->edges.graph.num_edges);
				assert_int_equal(
					scene->edges.graph.target[edge],
					target);
				assert_int_equal(scene->edges.slot_words[edge],
						 k);
				assert_int_equal(interior(scene, edge),
						 word != scene->addr[target]);
				edge++;
			}
		}
		assert_int_equal(edge, scene->edges.graph.num_edges);
		free(heap.words);
	}
}

static void edge_lists_join_over_chunks_and_odd_bits(void **state)
{
	enum { NUM_A = HF_EDGE_CHUNK_EDGES + 37, NUM_B = 129,
	       NUM = NUM_A + NUM_B };
	struct hf_edge_list a = { 0 }, b = { 0 };
	HF_AUTO_FREE uint32_t *target = calloc(NUM, sizeof(*target));
	HF_AUTO_FREE uint32_t *slot = calloc(NUM, sizeof(*slot));
	HF_AUTO_FREE uint64_t *bits = calloc(NUM / 64 + 2, sizeof(*bits));
	size_t wrong = 0;

	(void)state;
	for (uint32_t i = 0; i < NUM; i++) {
		struct hf_error *err = hf_edge_list_add(
			i < NUM_A ? &a : &b, i, i ^ 1, i % 7 == 0);

		if (err)
			assert_hf_ok(err);
	}
	assert_int_equal(a.num, NUM_A);
	hf_edge_list_move(&a, 0, target, slot, bits);
	hf_edge_list_move(&b, NUM_A, target, slot, bits);
	assert_int_equal(a.num, 0);
	for (uint32_t i = 0; i < NUM; i++)
		wrong += target[i] != i || slot[i] != (i ^ 1) ||
			 (bits[i / 64] >> (i % 64) & 1) != (i % 7 == 0);
	assert_int_equal(wrong, 0);
}

static void the_user_can_stop_a_scan(void **state)
{
	static const sig_atomic_t cancelled = 1;
	struct hf_progress progress = { .cancelled = &cancelled };
	HF_AUTO(scene) struct scene *scene = scene_create();
	const uint64_t len = 40 << 20;

	(void)state;
	fake_image_add_anon(scene->fake, HEAP, HEAP + len);
	fake_image_touch(scene->fake, HEAP, HEAP + len);
	add_block(scene, HEAP + 16, len - 32);
	struct hf_error *err =
		hf_scan(fake_image_freeze(scene->fake), &scene->holders,
			&scene->blocks, &progress, &scene->edges);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_INTERRUPTED);
	hf_error_destroy(err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			holders_registers_and_blocks_become_nodes_in_order),
		cmocka_unit_test(
			vector_registers_count_in_a_call_of_the_programs_own),
		cmocka_unit_test(
			untouched_pages_are_empty_and_missing_ones_are_counted),
		cmocka_unit_test(unreadable_pages_are_missing),
		cmocka_unit_test(an_odd_holder_counts_slots_from_the_word_below),
		cmocka_unit_test(nothing_to_scan_is_an_empty_graph),
		cmocka_unit_test(
			every_word_of_a_wild_heap_is_read_once_and_rightly),
		cmocka_unit_test(edge_lists_join_over_chunks_and_odd_bits),
		cmocka_unit_test(the_user_can_stop_a_scan),
	};

	return cmocka_run_group_tests_name("scan", tests, NULL, NULL);
}
