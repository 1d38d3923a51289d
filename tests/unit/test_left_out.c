/* Tests of images with memory that a fork leaves out of the child.
 * SPDX-License-Identifier: MIT */
#include "coredump/left_out.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "coredump/process_image_internal.h"
#include "coredump/sweep.h"
#include "tests/support/test_main.h"

/* The test is the process that is forked; its own memory is the truth. */

enum { PAGE = 4096, NUM_PAGES = 8, SIZE = NUM_PAGES * PAGE };

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IS_SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define IS_SANITIZED 1
#endif

static const unsigned int all_ways[] = {
	0, HF_PROCESS_IMAGE_NO_MEM,
#ifndef IS_SANITIZED
	/* The sanitizer's terabytes would be searched page by page. */
	HF_PROCESS_IMAGE_NO_SCAN,
#endif
};

enum { NUM_WAYS = sizeof(all_ways) / sizeof(all_ways[0]) };

/* Memory with unreadable pages around it: never one mapping with others. */
static char *map_apart(int flags, int fd)
{
	char *outer = mmap(NULL, SIZE + 2 * PAGE, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *inner;

	assert_ptr_not_equal(outer, MAP_FAILED);
	inner = mmap(outer + PAGE, SIZE, PROT_READ | PROT_WRITE,
		     flags | MAP_FIXED, fd, 0);
	assert_ptr_equal(inner, outer + PAGE);
	return inner;
}

static char *map_anon(int advice)
{
	char *memory = map_apart(MAP_PRIVATE | MAP_ANONYMOUS, -1);

	if (advice)
		assert_int_equal(madvise(memory, SIZE, advice), 0);
	return memory;
}

static void unmap(char *memory)
{
	assert_int_equal(munmap(memory - PAGE, SIZE + 2 * PAGE), 0);
}

static void write_page(char *memory, int id)
{
	for (int i = 0; i < PAGE; i++)
		memory[id * PAGE + i] = (char)(i + id + 1);
}

/* A child of this process that has stopped. */
static pid_t fork_stopped(void)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		raise(SIGSTOP);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static const struct hf_segment *segment_at(const struct hf_image *image,
					   const char *memory)
{
	return hf_image_find_segment(image, (uintptr_t)memory);
}

static void check_same(const struct hf_image *image, const char *memory,
		       size_t len)
{
	char copy[SIZE];

	assert_hf_ok(hf_image_read(image, (uintptr_t)memory, copy, len));
	assert_memory_equal(copy, memory, len);
}

static size_t num_losses(const struct hf_image *image)
{
	size_t num;

	(void)hf_image_losses(image, &num);
	return num;
}

static void bytes_left_out_are_those_of_the_parent(void **state)
{
	static const int advices[] = { MADV_DONTFORK, MADV_WIPEONFORK };

	(void)state;
	for (size_t a = 0; a < 2 * NUM_WAYS; a++) {
		unsigned int flags = all_ways[a / 2];
		char *memory = map_anon(advices[a % 2]);
		HF_AUTO(hf_image) struct hf_image *image = NULL;
		HF_AUTO(hf_sweep) struct hf_sweep *sweep = NULL;
		const struct hf_segment *segment;
		struct hf_range range = { (uintptr_t)memory,
					  (uintptr_t)memory + SIZE };
		struct hf_piece piece;
		uint64_t swept = 0;
		pid_t pid;

		write_page(memory, 1);
		write_page(memory, 4);
		write_page(memory, 5);
		pid = fork_stopped();
		assert_hf_ok(hf_process_image_open_flags(pid, NULL, 0, flags,
							 &image));
		segment = segment_at(image, memory);
		assert_non_null(segment);
		assert_int_equal(segment->start, range.start);
		assert_int_equal(segment->end, range.end);
		assert_true(segment->late);
		assert_int_equal(segment->kind, HF_SEGMENT_ANON);
		assert_int_equal(segment->resident_bytes, 3 * PAGE);
		check_same(image, memory, SIZE);
		assert_int_equal(num_losses(image), 0);

		assert_hf_ok(hf_sweep_create(image, &sweep));
		hf_sweep_start(sweep, &range, 1);
		while (hf_sweep_next(sweep, &piece)) {
			assert_memory_equal(piece.words,
					    (char *)(uintptr_t)piece.addr,
					    piece.len);
			swept += piece.len;
		}
		assert_int_equal(swept, 3 * PAGE);
		assert_int_equal(hf_sweep_missing_bytes(sweep), 0);

		/* Copied when the image was opened: later writes, and
		 * pages that are given back, do not show. */
		char copy[SIZE];

		memcpy(copy, memory, SIZE);
		write_page(memory, 7);
		memory[PAGE] = 77;
		assert_int_equal(madvise(memory + 4 * PAGE, PAGE,
					 MADV_DONTNEED), 0);
		{
			char again[SIZE];

			assert_hf_ok(hf_image_read(image, (uintptr_t)memory,
						   again, SIZE));
			assert_memory_equal(again, copy, SIZE);
		}
		end_child(pid);
		unmap(memory);
	}
}

static void one_read_may_need_both_processes(void **state)
{
	enum { HALF = SIZE / 2 };
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	HF_AUTO(hf_sweep) struct hf_sweep *sweep = NULL;
	char *memory = map_anon(0);
	struct hf_range range = { (uintptr_t)memory, (uintptr_t)memory + SIZE };
	struct hf_piece piece;
	uint64_t swept = 0;
	pid_t pid;

	(void)state;
	for (int i = 0; i < NUM_PAGES; i++)
		write_page(memory, i);
	assert_int_equal(madvise(memory + 2 * PAGE, HALF, MADV_DONTFORK), 0);
	pid = fork_stopped();
	assert_hf_ok(hf_process_image_open(pid, NULL, 0, &image));
	assert_false(segment_at(image, memory)->late);
	assert_true(segment_at(image, memory + 2 * PAGE)->late);
	assert_false(segment_at(image, memory + 2 * PAGE + HALF)->late);
	check_same(image, memory, SIZE);
	assert_hf_ok(hf_sweep_create(image, &sweep));
	hf_sweep_start(sweep, &range, 1);
	while (hf_sweep_next(sweep, &piece)) {
		assert_memory_equal(piece.words, (char *)(uintptr_t)piece.addr,
				    piece.len);
		swept += piece.len;
	}
	assert_int_equal(swept, SIZE);
	/* What was forked is of the instant; the rest was copied when the
	 * image was opened, and does not change any more. */
	memory[0] = memory[2 * PAGE] = 99;
	{
		char first, late;

		assert_hf_ok(hf_image_read(image, (uintptr_t)memory, &first,
					   1));
		assert_hf_ok(hf_image_read(image, (uintptr_t)memory + 2 * PAGE,
					   &late, 1));
		assert_int_equal(first, 1);
		assert_int_equal(late, 3);
	}
	end_child(pid);
	unmap(memory);
}

static void files_and_shared_memory_can_be_left_out(void **state)
{
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	HF_AUTO_FD int fd = memfd_create("left out", MFD_CLOEXEC);
	char *file, *shared;
	pid_t pid;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, SIZE), 0);
	file = map_apart(MAP_PRIVATE, fd);
	shared = map_apart(MAP_SHARED | MAP_ANONYMOUS, -1);
	write_page(file, 2);
	write_page(shared, 3);
	assert_int_equal(madvise(file, SIZE, MADV_DONTFORK), 0);
	assert_int_equal(madvise(shared, SIZE, MADV_DONTFORK), 0);
	pid = fork_stopped();
	assert_hf_ok(hf_process_image_open(pid, NULL, 0, &image));
	assert_true(segment_at(image, file)->late);
	assert_int_equal(segment_at(image, file)->kind, HF_SEGMENT_FILE);
	assert_int_equal(segment_at(image, file)->resident_bytes, PAGE);
	assert_true(segment_at(image, shared)->late);
	assert_int_equal(segment_at(image, shared)->kind, HF_SEGMENT_SHARED);
	check_same(image, file + 2 * PAGE, PAGE);
	check_same(image, shared + 3 * PAGE, PAGE);
	end_child(pid);
	unmap(file);
	unmap(shared);
}

static void what_the_parent_maps_later_is_not_in_the_image(void **state)
{
	char *left_out = map_anon(MADV_DONTFORK), *later;
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	pid_t pid;

	(void)state;
	write_page(left_out, 0);
	pid = fork_stopped();
	later = map_anon(0);
	write_page(later, 0);
	assert_hf_ok(hf_process_image_open(pid, NULL, 0, &image));
	assert_true(segment_at(image, left_out)->late);
	assert_null(segment_at(image, later));
	end_child(pid);
	unmap(left_out);
	unmap(later);
}

static void an_ordinary_fork_has_nothing_late(void **state)
{
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	char *empty = map_anon(0), *written = map_anon(0);
	const struct hf_segment *segments;
	size_t num;
	pid_t pid;

	(void)state;
	write_page(written, 3);
	pid = fork_stopped();
	write_page(empty, 2); /* in the child it stays empty */
	assert_hf_ok(hf_process_image_open(pid, NULL, 0, &image));
	segments = hf_image_segments(image, &num);
	for (size_t i = 0; i < num; i++)
		assert_true(!segments[i].late ||
			    segments[i].kind == HF_SEGMENT_SHARED);
	assert_int_equal(segment_at(image, empty)->resident_bytes, 0);
	assert_int_equal(segment_at(image, empty)->absent, HF_ABSENT_ZERO);
	assert_int_equal(num_losses(image), 0);
	end_child(pid);
	unmap(empty);
	unmap(written);
}

static void what_the_parent_unmapped_is_missing(void **state)
{
	char *memory = map_anon(MADV_WIPEONFORK), byte;
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	struct hf_error *err;
	pid_t pid;

	(void)state;
	write_page(memory, 0);
	pid = fork_stopped();
	unmap(memory);
	assert_hf_ok(hf_process_image_open(pid, NULL, 0, &image));
	assert_false(segment_at(image, memory)->late);
	assert_int_equal(segment_at(image, memory)->absent, HF_ABSENT_MISSING);
	assert_int_equal(num_losses(image), 1);
	err = hf_image_read(image, (uintptr_t)memory, &byte, 1);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_FAULT);
	hf_error_destroy(err);
	end_child(pid);
}

/* A process in the middle that forks a child, and ends or calls exec. */
static pid_t fork_twice(char *const exec_argv[], pid_t *middle_ret)
{
	int fds[2];
	pid_t middle, child;
	char byte;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	middle = fork();
	if (!middle) {
		child = fork();
		if (!child) {
			/* Not when the parent dies: that is the point. */
			close(fds[1]);
			raise(SIGSTOP);
			_exit(0);
		}
		if (waitpid(child, NULL, WUNTRACED) != child ||
		    write(fds[1], &child, sizeof(child)) != sizeof(child))
			_exit(1);
		if (exec_argv)
			execv(exec_argv[0], exec_argv);
		_exit(0);
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &child, sizeof(child)), sizeof(child));
	/* It has ended, or exec has closed the pipe. */
	assert_int_equal(read(fds[0], &byte, 1), 0);
	close(fds[0]);
	*middle_ret = middle;
	return child;
}

static void check_lost(pid_t child, const char *wiped, const char *dontfork)
{
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	const struct hf_segment *segment;
	const char *const *losses;
	size_t num;
	char byte;

	assert_hf_ok(hf_process_image_open(child, NULL, 0, &image));
	segment = segment_at(image, wiped);
	assert_non_null(segment);
	assert_false(segment->late);
	assert_int_equal(segment->absent, HF_ABSENT_MISSING);
	assert_int_equal(segment->resident_bytes, 0);
	assert_int_equal(hf_image_read_some(image, (uintptr_t)wiped, &byte, 1),
			 0);
	assert_null(segment_at(image, dontfork));
	losses = hf_image_losses(image, &num);
	assert_int_equal(num, 2);
	assert_non_null(strstr(losses[0], "not known"));
	assert_non_null(strstr(losses[0], "it ended"));
	assert_non_null(strstr(losses[1], "32768 bytes in 1 mapping "));
}

static void a_parent_that_ended_is_said_to_be_missed(void **state)
{
	char *wiped = map_anon(MADV_WIPEONFORK);
	char *dontfork = map_anon(MADV_DONTFORK);
	pid_t middle, child;

	(void)state;
	write_page(wiped, 0);
	write_page(dontfork, 0);
	child = fork_twice(NULL, &middle);
	assert_int_equal(waitpid(middle, NULL, 0), middle);
	check_lost(child, wiped, dontfork);
	kill(child, SIGKILL);
	unmap(wiped);
	unmap(dontfork);
}

static void a_parent_that_called_exec_is_another_program(void **state)
{
	char *const argv[] = { (char *)"/bin/sleep", (char *)"1000", NULL };
	char *wiped = map_anon(MADV_WIPEONFORK);
	char *dontfork = map_anon(MADV_DONTFORK);
	pid_t middle, child;

	(void)state;
	child = fork_twice(argv, &middle);
	check_lost(child, wiped, dontfork);
	kill(child, SIGKILL);
	end_child(middle);
	unmap(wiped);
	unmap(dontfork);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_left_out_are_those_of_the_parent),
		cmocka_unit_test(one_read_may_need_both_processes),
		cmocka_unit_test(files_and_shared_memory_can_be_left_out),
		cmocka_unit_test(
			what_the_parent_maps_later_is_not_in_the_image),
		cmocka_unit_test(an_ordinary_fork_has_nothing_late),
		cmocka_unit_test(what_the_parent_unmapped_is_missing),
		cmocka_unit_test(a_parent_that_ended_is_said_to_be_missed),
		cmocka_unit_test(a_parent_that_called_exec_is_another_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
