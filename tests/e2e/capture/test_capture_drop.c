/* Tests that pages which the child gives back are not copied any more.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fork-agent/child.h"
#include "tests/support/capture_check.h"
#include "tests/support/test_main.h"
#include "tests/support/victim.h"

enum {
	NUM_PAGES = 16 * 256,
	PAGE_BYTES = 4096,
	/* Pages of its stack, its libc's data, stdio. */
	OTHER_PAGES = 300,
};

struct written {
	struct hf_victim victim;
	struct hf_range memory;
	struct hf_frozen *frozen;
};

static void begin(struct written *written)
{
	hf_victim_start(&written->victim,
			(const char *[]){ VICTIM_WRITER, "16", NULL });
	written->memory.start =
		(uint64_t)hf_victim_number(&written->victim, "memory");
	written->memory.end = written->memory.start +
			      (uint64_t)NUM_PAGES * PAGE_BYTES;
	hf_victim_expect(&written->victim, "ready");
	assert_hf_ok(hf_test_capture(written->victim.pid, &written->frozen));
}

/* @return how many page faults that was for it. */
static long write_pages(struct written *written, int first, int num)
{
	char line[64];

	snprintf(line, sizeof(line), "write %d %d", first, num);
	hf_victim_tell(&written->victim, line);
	return hf_victim_number(&written->victim, "faults");
}

static const struct hf_capture_report *release(struct written *written)
{
	assert_hf_ok(hf_frozen_release(written->frozen));
	return hf_frozen_report(written->frozen);
}

static void end(struct written *written)
{
	hf_frozen_destroy(written->frozen);
	hf_victim_tell(&written->victim, "end");
	assert_int_equal(hf_victim_number(&written->victim, "wrong"), 0);
	assert_int_equal(hf_victim_end(&written->victim), 0);
}

static void each_page_that_is_written_is_copied(void **state)
{
	const struct hf_capture_report *report;
	struct written written;
	long faults;

	(void)state;
	begin(&written);
	faults = write_pages(&written, 0, NUM_PAGES);
	assert_true(faults >= NUM_PAGES);
	report = release(&written);
	assert_in_range(report->cow_pages, NUM_PAGES,
			NUM_PAGES + OTHER_PAGES);
	assert_in_range(report->parent_faults, faults, faults + OTHER_PAGES);
	assert_int_equal(report->dropped_bytes, 0);
	end(&written);
}

static void what_was_dropped_is_not_copied(void **state)
{
	const struct hf_capture_report *report;
	struct written written;
	long faults;

	(void)state;
	begin(&written);
	hf_frozen_drop(written.frozen, &written.memory, 1);
	faults = write_pages(&written, 0, NUM_PAGES);
	report = release(&written);
	assert_int_equal(report->dropped_bytes, NUM_PAGES * PAGE_BYTES);
	assert_in_range(report->cow_pages, 0, OTHER_PAGES);
	/* It still has to ask for each page, but gets its own. */
	assert_in_range(report->parent_faults, faults, faults + OTHER_PAGES);
	end(&written);
}

static void what_was_copied_before_the_drop_still_counts(void **state)
{
	const struct hf_capture_report *report;
	struct written written;

	(void)state;
	begin(&written);
	write_pages(&written, 0, NUM_PAGES / 2);
	hf_frozen_drop(written.frozen, &written.memory, 1);
	write_pages(&written, NUM_PAGES / 2, NUM_PAGES / 2);
	report = release(&written);
	assert_in_range(report->cow_pages, NUM_PAGES / 2,
			NUM_PAGES / 2 + OTHER_PAGES);
	assert_int_equal(report->dropped_bytes, NUM_PAGES * PAGE_BYTES);
	end(&written);
}

static void what_cannot_be_dropped_stays(void **state)
{
	struct written written;

	(void)state;
	begin(&written);

	const uint64_t start = written.memory.start;
	/* Nothing there; not a page's address; and one that is all right. */
	const struct hf_range ranges[] = {
		{ 4096, 8192 },
		{ start + 8, start + 16 },
		{ start, start + 4 * PAGE_BYTES },
	};
	struct hf_image *image;
	uint64_t word;

	assert_hf_ok(hf_frozen_open_image(written.frozen, &image));
	hf_frozen_drop(written.frozen, ranges, 3);
	hf_frozen_drop(written.frozen, ranges, 0);
	assert_hf_ok(hf_image_read(image, start + 4 * PAGE_BYTES, &word,
				   sizeof(word)));
	assert_int_equal(word, 4);
	hf_image_destroy(image);
	assert_int_equal(release(&written)->dropped_bytes, 4 * PAGE_BYTES);
	/* Released: nobody is there to drop anything. */
	hf_frozen_drop(written.frozen, ranges, 3);
	end(&written);
}

/* ---- a child that dies ---- */

/* Never called; the child shares this text. */
__attribute__((naked, noinline)) static void syscall_instruction(void)
{
	__asm__ volatile("syscall\n ret\n");
}

struct plan {
	pid_t pid;
	uint64_t num;
};

static void kill_child(void *arg, uint64_t num)
{
	const struct plan *plan = arg;

	if (num == plan->num)
		kill(plan->pid, SIGKILL);
}

/* It is our own: once it was waited for, its pid is free. */
static void a_pid_that_was_waited_for_is_dead(void **state)
{
	uint64_t memory = (uint64_t)mmap(NULL, PAGE_BYTES,
					 PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct hf_range range = { memory, memory + PAGE_BYTES };
	int num_dead = 0;

	(void)state;
	for (struct plan plan = { 0 };; plan.num++) {
		struct hf_trace_calls calls = { .before = kill_child,
						.arg = &plan };
		struct hf_child child = { .pid = fork() };
		struct hf_wait_clock clock;
		siginfo_t info;
		bool is_late;
		int status;

		if (child.pid == 0)
			for (;;)
				pause();
		plan.pid = child.pid;
		assert_int_equal(ptrace(PTRACE_SEIZE, child.pid, NULL,
					PTRACE_O_TRACESYSGOOD), 0);
		ptrace(PTRACE_INTERRUPT, child.pid, NULL, NULL);
		assert_int_equal(waitpid(child.pid, &status, __WALL),
				 child.pid);
		assert_hf_ok(hf_wait_clock_init(&clock, 0, &calls));
		hf_wait_clock_start(&clock);
		hf_child_drop(&child, (uint64_t)syscall_instruction, &range,
			      1, &clock);
		is_late = calls.num <= plan.num;
		assert_int_equal(child.dead,
				 waitid(P_PID, (id_t)child.pid, &info,
					WEXITED | WNOHANG | WNOWAIT |
						__WALL) < 0);
		num_dead += child.dead;
		calls.before = NULL;
		assert_hf_ok(hf_child_kill(&child, 0, &clock));
		hf_wait_clock_deinit(&clock);
		assert_int_equal(waitpid(child.pid, &status, __WALL), -1);
		if (is_late)
			break;
	}
	assert_true(num_dead > 0);
	munmap((void *)memory, PAGE_BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_page_that_is_written_is_copied),
		cmocka_unit_test(what_was_dropped_is_not_copied),
		cmocka_unit_test(what_was_copied_before_the_drop_still_counts),
		cmocka_unit_test(what_cannot_be_dropped_stays),
		cmocka_unit_test(a_pid_that_was_waited_for_is_dead),
	};

	hf_test_need_ptrace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
