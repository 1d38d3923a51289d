/* Tests of what memory tells about the bounds of a thread's stack.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "fork-agent/own_stack.h"

enum { STACK_BYTES = 64 * 1024 };

struct answer {
	uint64_t start, sp;
};

/* Ask about the thread that runs this. */
static void *ask(void *arg)
{
	const uint64_t *words = (const uint64_t *)pthread_self();
	struct answer *answer = arg;
	uint64_t self = (uint64_t)words;

	answer->sp = (uint64_t)__builtin_frame_address(0);
	/* Its descriptor may be the last thing in its memory. */
	answer->start = hf_own_stack_start(words, 220, self, answer->sp, 4096,
					   UINT64_MAX / 2);
	return NULL;
}

/* Two in one mapping, nothing in between. */
static void each_of_two_stacks_in_one_mapping_has_its_own_bounds(void **state)
{
	uint8_t *both = mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(both != MAP_FAILED);
	for (int i = 0; i < 2; i++) {
		struct answer answer;
		pthread_attr_t attr;
		pthread_t thread;

		pthread_attr_init(&attr);
		assert_int_equal(pthread_attr_setstack(
			&attr, both + i * STACK_BYTES, STACK_BYTES), 0);
		assert_int_equal(pthread_create(&thread, &attr, ask, &answer),
				 0);
		pthread_join(thread, NULL);
		pthread_attr_destroy(&attr);
		assert_int_equal(answer.start,
				 (uint64_t)(both + i * STACK_BYTES));
	}
	munmap(both, 2 * STACK_BYTES);
}

static void the_guard_is_no_part_of_a_stack(void **state)
{
	struct answer answer;
	pthread_attr_t attr;
	pthread_t thread;
	uint64_t start;
	void *block;
	size_t size, guard;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, ask, &answer), 0);
	pthread_getattr_np(thread, &attr);
	pthread_attr_getstack(&attr, &block, &size);
	pthread_attr_getguardsize(&attr, &guard);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
	/* Whether the library counts the guard in, its versions differ. */
	start = (uint64_t)block;
	assert_true(answer.start == start || answer.start == start + guard);
}

static void what_fits_twice_or_not_at_all_is_not_known(void **state)
{
	const uint64_t start = 0x10000, end = 0x30000, sp = 0x1f000;
	const uint64_t self = 0x1ff00;
	uint64_t words[8] = { 0, 0x10000, 0x10000, 0x1000 };

	(void)state;
	assert_int_equal(hf_own_stack_start(words, 8, self, sp, start, end),
			 0x11000);
	words[5] = 0x12000;
	words[6] = 0x10000;
	assert_int_equal(hf_own_stack_start(words, 8, self, sp, start, end),
			 0);
	words[6] = UINT64_MAX;
	assert_int_equal(hf_own_stack_start(words, 8, self, sp, start, end),
			 0x11000);
	/* Another's stack. */
	assert_int_equal(hf_own_stack_start(words, 8, self, 0x10800, start,
					    end), 0);
	assert_int_equal(hf_own_stack_start(words, 8, 0x28000, sp, start, end),
			 0);
}

/* As musl's describes it. */
static void a_descriptor_with_an_upper_end_is_understood(void **state)
{
	const uint64_t words[] = { 0x10000, 0x10000, 0x1fe00, 0xde00, 0x2000 };

	(void)state;
	assert_int_equal(hf_own_stack_start(words, 5, 0x1ff00, 0x1f000,
					    0x12000, 0x20000), 0x12000);
	assert_int_equal(hf_own_stack_start(words, 5, 0x1ff00, 0x11800,
					    0x12000, 0x20000), 0);
}

/* ---- signal frames ---- */

static struct {
	uint8_t bytes[8192];
	uint64_t addr, sp, start, end;
} seen;

static void on_signal(int signal_number)
{
	uint64_t at = (uint64_t)__builtin_frame_address(0);

	(void)signal_number;
	seen.sp = at;
	seen.addr = at / 8 * 8;
	memcpy(seen.bytes, (const void *)seen.addr, 1024);
}

static bool hides(size_t num_bytes, uint64_t start, uint64_t end)
{
	return hf_own_stack_hides_another(seen.bytes, num_bytes, seen.addr,
					  seen.sp, start, end);
}

static void take_a_signal(uint8_t *alt, size_t num_bytes)
{
	const stack_t stack = { .ss_sp = alt, .ss_size = num_bytes };
	const stack_t none = { .ss_flags = SS_DISABLE };
	struct sigaction action = { .sa_handler = on_signal };

	action.sa_flags = alt ? SA_ONSTACK : 0;
	assert_int_equal(sigaltstack(alt ? &stack : &none, NULL), 0);
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	raise(SIGUSR1);
	assert_int_equal(sigaltstack(&none, NULL), 0);
}

static void a_handler_on_an_array_of_the_stack_is_seen(void **state)
{
	uint8_t alt[64 * 1024];
	uint64_t here = (uint64_t)alt;

	(void)state;
	take_a_signal(alt, sizeof(alt));
	assert_true(hides(1024, here - 65536, here + 2 * sizeof(alt)));
	/* It takes the frame to see it. */
	assert_false(hides(HF_OWN_STACK_FRAME_BYTES - 8, here - 65536,
			   here + 2 * sizeof(alt)));
}

static void a_handler_on_the_same_stack_hides_nothing(void **state)
{
	uint64_t here = (uint64_t)__builtin_frame_address(0);

	(void)state;
	take_a_signal(NULL, 0);
	assert_false(hides(1024, here - 65536, here + 65536));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			each_of_two_stacks_in_one_mapping_has_its_own_bounds),
		cmocka_unit_test(the_guard_is_no_part_of_a_stack),
		cmocka_unit_test(what_fits_twice_or_not_at_all_is_not_known),
		cmocka_unit_test(
			a_descriptor_with_an_upper_end_is_understood),
		cmocka_unit_test(a_handler_on_an_array_of_the_stack_is_seen),
		cmocka_unit_test(a_handler_on_the_same_stack_hides_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
