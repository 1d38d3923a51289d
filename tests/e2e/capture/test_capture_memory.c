/* Tests that an image shows one instant, and that registers stay as they were.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "coredump/image.h"
#include "tests/support/capture_check.h"
#include "tests/support/test_main.h"
#include "tests/support/victim.h"

static uint64_t read_running(pid_t pid, uint64_t addr)
{
	uint64_t value = 0;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);

	HF_AUTO_FD int fd = open(path, O_RDONLY);

	assert_int_equal(pread(fd, &value, sizeof(value), (off_t)addr),
			 sizeof(value));
	return value;
}

static uint64_t read_image(const struct hf_image *image, uint64_t addr)
{
	uint64_t value;

	assert_hf_ok(hf_image_read(image, addr, &value, sizeof(value)));
	return value;
}

static const struct hf_thread *thread_called(const struct hf_image *image,
					     const char *name)
{
	size_t num;
	const struct hf_thread *threads = hf_image_threads(image, &num);

	for (size_t i = 0; i < num; i++)
		if (!strcmp(threads[i].name, name))
			return &threads[i];
	fail_msg("no thread called %s", name);
	return NULL;
}

static void memory_and_registers_are_of_one_instant(void **state)
{
	const int rounds = hf_test_rounds(20);
	struct hf_victim victim;

	(void)state;
	hf_victim_start(&victim, (const char *[]){ VICTIM_REGISTERS, "1",
						   NULL });

	uint64_t first = (uint64_t)hf_victim_number(&victim, "first");
	uint64_t second = (uint64_t)hf_victim_number(&victim, "second");

	hf_victim_expect(&victim, "ready");
	while (read_running(victim.pid, second) == 0)
		hf_test_sleep_ms(1);
	for (int i = 0; i < rounds; i++) {
		struct hf_frozen *frozen;
		struct hf_image *image;

		assert_hf_ok(hf_test_capture(victim.pid, &frozen));
		assert_hf_ok(hf_frozen_open_image(frozen, &image));

		const struct hf_thread *counter =
			thread_called(image, "counter");
		uint64_t a = read_image(image, first);
		uint64_t b = read_image(image, second);

		assert_int_equal(counter->stop_how, HF_STOP_USER);
		assert_true(counter->xstate_bytes >= 576);
		assert_in_range(a, b, counter->regs.r12);
		assert_in_range(counter->regs.r12, a, b + 1);

		/* The original goes on, and nothing of it shows. */
		while (read_running(victim.pid, second) <= b + 1)
			hf_test_sleep_ms(1);
		assert_int_equal(read_image(image, first), a);
		assert_int_equal(read_image(image, second), b);
		hf_image_destroy(image);
		assert_hf_ok(hf_frozen_release(frozen));
		/* At least the two pages that were written. */
		assert_in_range(hf_frozen_report(frozen)->cow_pages, 2, 5000);
		hf_frozen_destroy(frozen);
	}
	assert_int_equal(hf_victim_end(&victim), 0);
}

static void check_registers(const char *num_threads)
{
	const int rounds = hf_test_rounds(40);
	struct hf_victim victim;

	hf_victim_start(&victim, (const char *[]){ VICTIM_REGISTERS,
						   num_threads, NULL });
	hf_victim_expect(&victim, "ready");
	for (int i = 0; i < rounds; i++) {
		hf_test_capture_once(victim.pid);
		hf_test_sleep_ms(3);
	}
	fclose(victim.in);
	victim.in = NULL;
	assert_true(hf_victim_number(&victim, "num_laps") > 10);
	assert_int_equal(hf_victim_number(&victim, "num_wrong"), 0);
	assert_int_equal(hf_victim_end(&victim), 0);
}

static void no_register_changes_in_threads_that_are_stopped(void **state)
{
	(void)state;
	check_registers("2");
}

static void no_register_changes_in_the_thread_that_forks(void **state)
{
	(void)state;
	check_registers("0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_and_registers_are_of_one_instant),
		cmocka_unit_test(
			no_register_changes_in_threads_that_are_stopped),
		cmocka_unit_test(no_register_changes_in_the_thread_that_forks),
	};

	hf_test_need_ptrace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
