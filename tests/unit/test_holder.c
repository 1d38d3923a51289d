/* Root holders: all memory that may hold pointers, once.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "indexer/holder.h"
#include "tests/support/fake_image.h"
#include "tests/support/test_main.h"

#define GIB (UINT64_C(1) << 30)

struct fixture {
	struct fake_image *fake;
	struct hf_block_table blocks;
	struct hf_block_area areas[4];
	struct hf_holders holders;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->fake = fake_image_create();
	f->blocks.areas = f->areas;
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	hf_holders_deinit(&f->holders);
	fake_image_destroy(f->fake);
	free(f);
	return 0;
}

static void add_area(struct fixture *f, uint64_t start, uint64_t end)
{
	f->areas[f->blocks.num_areas++].area =
		(struct hf_area){ .start = start, .end = end };
}

static void find(struct fixture *f)
{
	assert_hf_ok(hf_holders_find(fake_image_freeze(f->fake), &f->blocks, NULL, NULL,
				     &f->holders));
}

/* The one holder of this kind that starts there. */
static const struct hf_holder *holder_at(struct fixture *f,
					 enum hf_holder_kind kind,
					 uint64_t start)
{
	for (uint32_t i = 0; i < f->holders.num; i++)
		if (f->holders.data[i].kind == kind &&
		    f->holders.data[i].range.start == start)
			return &f->holders.data[i];
	return NULL;
}

static void memory_beside_an_area_is_unknown(void **state)
{
	struct fixture *f = *state;
	const struct hf_holder *holder;

	fake_image_add_anon(f->fake, 0x10000, 0x20000);
	fake_image_touch(f->fake, 0x10000, 0x20000);
	add_area(f, 0x12000, 0x15000);
	find(f);
	assert_int_equal(f->holders.num, 2);
	holder = holder_at(f, HF_HOLDER_UNKNOWN, 0x10000);
	assert_non_null(holder);
	assert_int_equal(holder->range.end, 0x12000);
	assert_string_equal(holder->name, "unknown memory");
	holder = holder_at(f, HF_HOLDER_UNKNOWN, 0x15000);
	assert_non_null(holder);
	assert_int_equal(holder->range.end, 0x20000);
	assert_int_equal(f->holders.unknown_bytes, 0xd000);
	assert_int_equal(f->holders.private_anon_bytes, 0x10000);
}

static void the_allocators_own_state_is_no_root(void **state)
{
	struct fixture *f = *state;
	struct hf_range own = { 0x11000, 0x11898 };

	fake_image_add_anon(f->fake, 0x10000, 0x20000);
	fake_image_touch(f->fake, 0x10000, 0x20000);
	f->blocks.own = &own;
	f->blocks.num_own = 1;
	find(f);
	assert_int_equal(f->holders.num, 2);
	assert_non_null(holder_at(f, HF_HOLDER_UNKNOWN, 0x10000));
	assert_non_null(holder_at(f, HF_HOLDER_UNKNOWN, 0x11898));
}

static void untouched_memory_holds_nothing(void **state)
{
	struct fixture *f = *state;

	fake_image_add_anon(f->fake, 64 * GIB, 128 * GIB);
	find(f);
	assert_int_equal(f->holders.num, 0);
	assert_int_equal(f->holders.unknown_bytes, 0);
}

static void huge_memory_is_cut_so_that_slots_fit(void **state)
{
	struct fixture *f = *state;

	fake_image_add_anon(f->fake, 64 * GIB, 128 * GIB);
	fake_image_touch(f->fake, 64 * GIB, 64 * GIB + 4096);
	fake_image_touch(f->fake, 127 * GIB, 127 * GIB + 4096);
	find(f);
	assert_int_equal(f->holders.num, 2);
	assert_non_null(holder_at(f, HF_HOLDER_UNKNOWN, 64 * GIB));
	assert_non_null(holder_at(f, HF_HOLDER_UNKNOWN, 112 * GIB));
	assert_int_equal(f->holders.unknown_bytes, 8192);
}

static void sealed_and_shared_pages_hold_too(void **state)
{
	struct fixture *f = *state;
	struct hf_segment sealed = { .start = 0x10000, .end = 0x11000,
				     .prot = PROT_READ,
				     .kind = HF_SEGMENT_ANON };
	struct hf_segment shared = { .start = 0x20000, .end = 0x21000,
				     .prot = PROT_READ | PROT_WRITE,
				     .kind = HF_SEGMENT_SHARED,
				     .path = "/dev/shm/table" };
	struct hf_segment constant = { .start = 0x30000, .end = 0x31000,
				       .prot = PROT_READ,
				       .kind = HF_SEGMENT_SHARED };

	fake_image_add_segment(f->fake, &sealed);
	fake_image_add_segment(f->fake, &shared);
	fake_image_add_segment(f->fake, &constant);
	fake_image_touch(f->fake, 0x10000, 0x11000);
	fake_image_touch(f->fake, 0x20000, 0x21000);
	fake_image_touch(f->fake, 0x30000, 0x31000);
	find(f);
	assert_int_equal(f->holders.num, 2);
	assert_non_null(holder_at(f, HF_HOLDER_UNKNOWN, 0x10000));
	assert_string_equal(holder_at(f, HF_HOLDER_SHARED, 0x20000)->name,
			    "shared memory /dev/shm/table");
	/* The share is one of writable private memory. */
	assert_int_equal(f->holders.unknown_bytes, 0);
}

/* What struct pthread says of a thread's stack. */
static void poke_stack_block(struct fixture *f, uint64_t fs_base,
			     uint64_t start, uint64_t size, uint64_t guard)
{
	fake_image_poke_u64(f->fake, fs_base + 0x690, start);
	fake_image_poke_u64(f->fake, fs_base + 0x698, size);
	fake_image_poke_u64(f->fake, fs_base + 0x6a0, guard);
}

static void without_a_descriptor_nothing_is_known_to_be_dead(void **state)
{
	struct fixture *f = *state;

	fake_image_add_anon(f->fake, 0x100000, 0x180000);
	fake_image_touch(f->fake, 0x100000, 0x180000);
	fake_image_add_thread_at(f->fake, 42, 0x170000, 0x17f000);
	find(f);
	assert_non_null(holder_at(f, HF_HOLDER_STACK, 0x170000 - 128));
	assert_non_null(holder_at(f, HF_HOLDER_UNKNOWN, 0x100000));
}

static void below_a_stack_of_the_programs_own_all_is_held(void **state)
{
	struct fixture *f = *state;
	const struct hf_holder *table;

	fake_image_add_anon(f->fake, 0x100000, 0x180000);
	fake_image_touch(f->fake, 0x100000, 0x180000);
	fake_image_add_thread_at(f->fake, 42, 0x170000, 0x17f000);
	poke_stack_block(f, 0x17f000, 0x140000, 0x40000, 0);
	find(f);
	table = holder_at(f, HF_HOLDER_UNKNOWN, 0x100000);
	assert_non_null(table);
	assert_int_equal(table->range.end, 0x140000);
	assert_non_null(holder_at(f, HF_HOLDER_STACK, 0x170000 - 128));
}

static void below_the_stack_pointer_all_is_dead(void **state)
{
	struct fixture *f = *state;
	const struct hf_holder *stack, *tls;

	fake_image_add_anon(f->fake, 0x100000, 0x180000);
	fake_image_touch(f->fake, 0x100000, 0x180000);
	fake_image_add_thread_at(f->fake, 42, 0x170000, 0x17f000);
	/* Links to neighbours that look like a block: 0, next, previous. */
	fake_image_poke_u64(f->fake, 0x17f2b8, 0);
	fake_image_poke_u64(f->fake, 0x17f2c0, 0x17f8c0);
	fake_image_poke_u64(f->fake, 0x17f2c8, 0x110000);
	poke_stack_block(f, 0x17f000, 0xff000, 0x81000, 0x1000);
	find(f);
	stack = holder_at(f, HF_HOLDER_STACK, 0x170000 - 128);
	assert_non_null(stack);
	assert_string_equal(stack->name, "stack of thread (tid 42)");
	assert_int_equal(stack->thread_index, 0);
	tls = holder_at(f, HF_HOLDER_TLS, stack->range.end);
	assert_non_null(tls);
	assert_true(tls->range.end > 0x17f000);
	assert_null(holder_at(f, HF_HOLDER_UNKNOWN, 0x100000));
	/* What is above the descriptor is nobody's, and the registers are
	 * the last of all. */
	assert_non_null(holder_at(f, HF_HOLDER_UNKNOWN, tls->range.end));
	assert_int_equal(f->holders.data[f->holders.num - 1].kind,
			 HF_HOLDER_REGISTERS);
}

static void another_thread_in_the_mapping_keeps_it_alive(void **state)
{
	struct fixture *f = *state;

	fake_image_add_anon(f->fake, 0x100000, 0x180000);
	fake_image_touch(f->fake, 0x100000, 0x180000);
	fake_image_add_thread_at(f->fake, 42, 0x170000, 0x17f000);
	fake_image_add_thread_at(f->fake, 43, 0x130000, 0x13f000);
	find(f);
	assert_non_null(holder_at(f, HF_HOLDER_STACK, 0x170000 - 128));
	assert_non_null(holder_at(f, HF_HOLDER_STACK, 0x130000 - 128));
	/* Between the two nothing is known to be dead. */
	for (uint64_t addr = 0x141000; addr < 0x16f000; addr += 0x1000) {
		bool held = false;

		for (uint32_t i = 0; i < f->holders.num; i++)
			held |= addr - f->holders.data[i].range.start <
				f->holders.data[i].range.end -
					f->holders.data[i].range.start;
		assert_true(held);
	}
}

static void no_byte_is_in_two_holders(void **state)
{
	struct fixture *f = *state;

	fake_image_add_anon(f->fake, 0x100000, 0x180000);
	fake_image_touch(f->fake, 0x100000, 0x180000);
	for (int i = 0; i < 8; i++)
		fake_image_add_thread_at(f->fake, 50 + i,
					 0x100000 + (uint64_t)i * 0x9000,
					 0x101000 + (uint64_t)i * 0x9100);
	add_area(f, 0x120000, 0x121000);
	find(f);
	for (uint32_t i = 1; i < f->holders.num; i++) {
		const struct hf_holder *a = &f->holders.data[i - 1];
		const struct hf_holder *b = &f->holders.data[i];

		if (b->kind == HF_HOLDER_REGISTERS)
			continue;
		assert_true(a->range.end <= b->range.start);
		assert_true(b->range.end <= 0x120000 ||
			    b->range.start >= 0x121000);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(memory_beside_an_area_is_unknown),
		TEST(untouched_memory_holds_nothing),
		TEST(huge_memory_is_cut_so_that_slots_fit),
		TEST(sealed_and_shared_pages_hold_too),
		TEST(below_the_stack_pointer_all_is_dead),
		TEST(without_a_descriptor_nothing_is_known_to_be_dead),
		TEST(below_a_stack_of_the_programs_own_all_is_held),
		TEST(the_allocators_own_state_is_no_root),
		TEST(another_thread_in_the_mapping_keeps_it_alive),
		TEST(no_byte_is_in_two_holders),
	};

	return cmocka_run_group_tests_name("holder", tests, NULL, NULL);
}
