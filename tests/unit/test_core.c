/* Tests of cores: what is written is read, and nothing else is believed.
 * SPDX-License-Identifier: MIT */
#include "coredump/core/core_image.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "coredump/core/core_write.h"
#include "tests/support/fake_image.h"
#include "tests/support/test_main.h"

enum {
	PAGE = 4096,
	MIB = 1024 * 1024,
	HEAP = 0x10000000,
	HEAP_BYTES = 4 * MIB,
	STACK = 0x70000000,
	STACK_BYTES = 16 * PAGE,
	GUARD = STACK - PAGE,
	FILE_AT = 0x20000000,
	FILE_BYTES = 4 * PAGE,
	SHARED = 0x30000000,
	LEADER = 100,
	XSTATE_BYTES = 832,
};

static uint8_t xstate[XSTATE_BYTES];

/* A process with everything that a core treats in a way of its own. */
static struct fake_image *make_fake(void)
{
	struct fake_image *fake = fake_image_create();
	const struct hf_segment guard = {
		.start = GUARD, .end = STACK, .kind = HF_SEGMENT_ANON,
		.absent = HF_ABSENT_MISSING,
	};
	const struct hf_segment stack = {
		.start = STACK, .end = STACK + STACK_BYTES,
		.prot = PROT_READ | PROT_WRITE, .kind = HF_SEGMENT_STACK,
		.absent = HF_ABSENT_ZERO, .path = "[stack]",
	};
	const struct hf_segment file = {
		.start = FILE_AT, .end = FILE_AT + FILE_BYTES,
		.prot = PROT_READ, .kind = HF_SEGMENT_FILE,
		.absent = HF_ABSENT_FILE, .path = "/nowhere/a file",
		.file_offset = PAGE, .device = 5, .inode = 77,
	};
	const struct hf_segment shared = {
		.start = SHARED, .end = SHARED + PAGE,
		.prot = PROT_READ | PROT_WRITE, .kind = HF_SEGMENT_SHARED,
		.absent = HF_ABSENT_FILE, .path = "/dev/zero (deleted)",
		.late = true,
	};

	fake_image_add_brk(fake, HEAP, HEAP + HEAP_BYTES);
	fake_image_add_segment(fake, &guard);
	fake_image_add_segment(fake, &stack);
	fake_image_add_segment(fake, &file);
	fake_image_add_segment(fake, &shared);
	/* Two islands in the heap, more than a hole apart; one page of zeros
	 * between two that are not. */
	for (uint64_t i = 0; i < 8; i++)
		fake_image_poke_u64(fake, HEAP + i * PAGE + 8 * i, i + 1);
	fake_image_touch(fake, HEAP + 8 * PAGE, HEAP + 9 * PAGE);
	fake_image_poke_u64(fake, HEAP + 9 * PAGE, 99);
	fake_image_poke_u64(fake, HEAP + 3 * MIB, 0xabcdef);
	fake_image_poke_u64(fake, STACK + STACK_BYTES - PAGE, 7);
	/* One page of the file is the program's own. */
	fake_image_poke_u64(fake, FILE_AT + 2 * PAGE, 4711);
	fake_image_poke_u64(fake, SHARED, 1234);
	for (int i = 0; i < 3; i++) {
		struct hf_thread thread = {
			.tid = LEADER + i,
			.state = "SRD"[i],
			.stop_how = i == 1 ? HF_STOP_USER : HF_STOP_SYSCALL,
			.sigmask = 1u << i,
			.xstate = xstate,
			.xstate_bytes = sizeof(xstate),
		};

		snprintf(thread.name, sizeof(thread.name), "worker %d", i);
		thread.regs.rip = 0x400000u + (uint64_t)i;
		thread.regs.rsp = STACK + STACK_BYTES - 64u * (unsigned)i - 64;
		thread.regs.orig_rax = i == 1 ? ~0ull : 7;
		fake_image_add_thread(fake, &thread);
	}
	return fake;
}

static struct hf_process_info process = {
	.pid = LEADER, .parent = 1, .uid = 1000, .gid = 100, .state = 'S',
	.name = "victim", .args = "victim --all",
};

/* Write the image to a file without a name, in the working directory. */
static void write_core(const struct hf_image *image, const char *path,
		       const struct hf_core_write_options *options,
		       struct hf_core_summary *summary)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_hf_ok(hf_core_write(image, fd, path, options, summary));
	close(fd);
}

static void assert_same_segments(const struct hf_image *a,
				 const struct hf_image *b)
{
	size_t num_a, num_b;
	const struct hf_segment *x = hf_image_segments(a, &num_a);
	const struct hf_segment *y = hf_image_segments(b, &num_b);

	assert_int_equal(num_a, num_b);
	for (size_t i = 0; i < num_a; i++) {
		assert_int_equal(x[i].start, y[i].start);
		assert_int_equal(x[i].end, y[i].end);
		assert_int_equal(x[i].prot, y[i].prot);
		assert_int_equal(x[i].kind, y[i].kind);
		assert_int_equal(x[i].late, y[i].late);
		assert_int_equal(x[i].resident_bytes, y[i].resident_bytes);
		assert_int_equal(x[i].file_offset, y[i].file_offset);
		assert_int_equal(x[i].inode, y[i].inode);
		assert_int_equal(!x[i].path, !y[i].path);
		if (x[i].path)
			assert_string_equal(x[i].path, y[i].path);
	}
}

static void assert_same_threads(const struct hf_image *a,
				const struct hf_image *b)
{
	size_t num_a, num_b;
	const struct hf_thread *x = hf_image_threads(a, &num_a);
	const struct hf_thread *y = hf_image_threads(b, &num_b);

	assert_int_equal(num_a, num_b);
	for (size_t i = 0; i < num_a; i++) {
		assert_int_equal(x[i].tid, y[i].tid);
		assert_string_equal(x[i].name, y[i].name);
		assert_int_equal(x[i].state, y[i].state);
		assert_int_equal(x[i].stop_how, y[i].stop_how);
		assert_int_equal(x[i].sigmask, y[i].sigmask);
		assert_memory_equal(&x[i].regs, &y[i].regs, sizeof(x[i].regs));
		assert_int_equal(x[i].xstate_bytes, y[i].xstate_bytes);
		assert_memory_equal(x[i].xstate, y[i].xstate,
				    x[i].xstate_bytes);
		assert_int_equal(x[i].stack.start, y[i].stack.start);
	}
}

/* Each page of each segment: the same bytes, or unreadable in both. The file
 * that nobody has is unreadable in the core only. */
static void assert_same_memory(const struct hf_image *live,
			       const struct hf_image *core)
{
	size_t num;
	const struct hf_segment *segments = hf_image_segments(live, &num);
	char x[PAGE], y[PAGE];

	for (size_t i = 0; i < num; i++) {
		for (uint64_t at = segments[i].start; at < segments[i].end;
		     at += PAGE) {
			size_t got_x = hf_image_read_some(live, at, x, PAGE);
			size_t got_y = hf_image_read_some(core, at, y, PAGE);

			if (segments[i].kind == HF_SEGMENT_FILE &&
			    at != FILE_AT + 2 * PAGE) {
				assert_int_equal(got_y, 0);
				continue;
			}
			assert_int_equal(got_x, got_y);
			assert_memory_equal(x, y, got_x);
		}
	}
}

static void a_core_is_the_image_it_was_written_from(void **state)
{
	const struct {
		const char *path;
		int zstd_level;
	} cores[] = { { "core.plain", 0 }, { "core.zst", 1 } };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		HF_AUTO(fake_image) struct fake_image *fake = make_fake();
		struct hf_image *live = fake_image_freeze(fake);
		const struct hf_core_write_options options = {
			.filter = 0x3f,
			.zstd_level = cores[i].zstd_level,
			.process = &process,
			.capture = "pause_ns=5\n",
		};
		const struct hf_core_open_options open_options = { 0 };
		HF_AUTO(hf_image) struct hf_image *image = NULL;
		struct hf_core_summary summary;
		struct hf_core_info info;
		size_t num;

		write_core(live, cores[i].path, &options, &summary);
		assert_int_equal(summary.missing_bytes, 0);
		assert_hf_ok(hf_core_image_open(cores[i].path, &open_options,
						&info, &image));
		assert_same_segments(live, image);
		assert_same_threads(live, image);
		assert_same_memory(live, image);
		/* The file that was mapped is not there: that is a loss. */
		hf_image_losses(image, &num);
		assert_int_equal(num, 1);
		assert_int_equal(info.process.pid, LEADER);
		assert_int_equal(info.process.uid, 1000);
		assert_string_equal(info.process.name, "victim");
		assert_string_equal(info.process.args, "victim --all");
		assert_string_equal(info.capture, "pause_ns=5\n");
		assert_string_equal(info.writer, "heapfork");
		hf_core_info_deinit(&info);
		unlink(cores[i].path);
	}
}

static void zero_and_untouched_pages_take_no_room(void **state)
{
	HF_AUTO(fake_image) struct fake_image *fake = fake_image_create();
	const struct hf_core_write_options options = {
		.filter = HF_CORE_FILTER_DEFAULT, .process = &process,
	};
	struct hf_core_summary summary, estimate;
	struct hf_image *live;
	struct stat st;

	(void)state;
	/* 64 GiB reserved; two islands of 16 MiB, one of them of zeros. */
	fake_image_add_anon(fake, HEAP, HEAP + (UINT64_C(64) << 30));
	fake_image_touch(fake, HEAP, HEAP + 16 * MIB);
	for (uint64_t at = 0; at < 16 * MIB; at += PAGE)
		fake_image_poke_u64(fake, HEAP + (UINT64_C(1) << 35) + at, 1);
	live = fake_image_freeze(fake);
	assert_hf_ok(hf_core_write_estimate(live, &options, &estimate));
	write_core(live, "core.sparse", &options, &summary);
	assert_int_equal(stat("core.sparse", &st), 0);
	assert_int_equal(summary.memory_bytes, 32 * MIB);
	assert_int_equal(summary.zero_bytes, 16 * MIB);
	assert_int_equal(st.st_size, summary.file_bytes);
	assert_true(st.st_size < 33 * MIB);
	assert_true((uint64_t)st.st_blocks * 512 < 17 * MIB);
	assert_int_equal(estimate.file_bytes, summary.file_bytes);
	assert_true(estimate.disk_bytes >= summary.disk_bytes);
	unlink("core.sparse");
}

static void the_filter_decides_what_goes_in(void **state)
{
	const struct {
		uint32_t filter;
		bool heap, shared, own_file_page;
	} cases[] = {
		{ 0, false, false, false },
		{ HF_CORE_ANON_PRIVATE, true, false, true },
		{ HF_CORE_ANON_SHARED, false, true, false },
		{ HF_CORE_FILTER_DEFAULT, true, true, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		HF_AUTO(fake_image) struct fake_image *fake = make_fake();
		struct hf_image *live = fake_image_freeze(fake);
		const struct hf_core_write_options options = {
			.filter = cases[i].filter, .process = &process,
		};
		const struct hf_core_open_options open_options = { 0 };
		HF_AUTO(hf_image) struct hf_image *image = NULL;
		struct hf_core_summary summary;
		struct hf_core_info info;
		uint64_t word;

		write_core(live, "core.filter", &options, &summary);
		assert_hf_ok(hf_core_image_open("core.filter", &open_options,
						&info, &image));
		assert_int_equal(hf_image_peek_u64(image, HEAP, &word),
				 cases[i].heap);
		assert_int_equal(hf_image_peek_u64(image, SHARED, &word),
				 cases[i].shared);
		assert_int_equal(hf_image_peek_u64(image, FILE_AT + 2 * PAGE,
						   &word),
				 cases[i].own_file_page);
		/* What was left out is not zero: it is missing. */
		assert_int_equal(info.missing_bytes > 0,
				 cases[i].filter != HF_CORE_FILTER_DEFAULT);
		hf_core_info_deinit(&info);
		unlink("core.filter");
	}
}

static void memory_that_is_not_for_cores_is_left_out(void **state)
{
	const struct hf_segment secret = {
		.start = HEAP, .end = HEAP + PAGE,
		.prot = PROT_READ | PROT_WRITE, .kind = HF_SEGMENT_ANON,
		.absent = HF_ABSENT_ZERO, .advice = HF_ADVICE_DONTDUMP,
	};

	(void)state;
	for (int with = 0; with < 2; with++) {
		HF_AUTO(fake_image) struct fake_image *fake =
			fake_image_create();
		struct hf_core_write_options options = {
			.filter = HF_CORE_FILTER_DEFAULT,
			.with_dontdump = with,
			.process = &process,
		};
		struct hf_core_summary summary;

		fake_image_add_segment(fake, &secret);
		fake_image_poke_u64(fake, HEAP, 1);
		write_core(fake_image_freeze(fake), "core.secret", &options,
			   &summary);
		assert_int_equal(summary.memory_bytes, with ? PAGE : 0);
		unlink("core.secret");
	}
}

static void what_could_not_be_read_is_missing_in_the_core_too(void **state)
{
	(void)state;
	for (int zstd_level = 0; zstd_level < 2; zstd_level++) {
		HF_AUTO(fake_image) struct fake_image *fake = make_fake();
		const struct hf_core_write_options options = {
			.filter = HF_CORE_FILTER_DEFAULT,
			.zstd_level = zstd_level,
			.process = &process,
		};
		const struct hf_core_open_options open_options = { 0 };
		HF_AUTO(hf_image) struct hf_image *image = NULL;
		struct hf_core_summary summary;
		struct hf_core_info info;
		uint64_t word;

		fake_image_fail(fake, HEAP + 3 * PAGE);
		fake_image_fail(fake, HEAP + 6 * PAGE);
		write_core(fake_image_freeze(fake), "core.hole", &options,
			   &summary);
		assert_int_equal(summary.missing_bytes, 2 * PAGE);
		assert_hf_ok(hf_core_image_open("core.hole", &open_options,
						&info, &image));
		for (uint64_t i = 0; i < 8; i++) {
			bool is_there = hf_image_peek_u64(
				image, HEAP + i * PAGE + 8 * i, &word);

			assert_int_equal(is_there, i != 3 && i != 6);
			if (is_there)
				assert_int_equal(word, i + 1);
		}
		hf_core_info_deinit(&info);
		unlink("core.hole");
	}
}

static void a_stripped_core_has_the_asked_bytes_only(void **state)
{
	HF_AUTO(fake_image) struct fake_image *fake = make_fake();
	const struct hf_range only[] = {
		{ HEAP + 16, HEAP + 24 },
		{ STACK + STACK_BYTES - PAGE, STACK + STACK_BYTES },
	};
	const struct hf_core_write_options options = {
		.filter = HF_CORE_FILTER_DEFAULT,
		.only = only,
		.num_only = 2,
		.process = &process,
	};
	const struct hf_core_open_options open_options = { 0 };
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	struct hf_core_summary summary;
	struct hf_core_info info;
	uint64_t word;
	size_t num;

	(void)state;
	fake_image_poke_u64(fake, HEAP + 16, 16);
	fake_image_poke_u64(fake, HEAP + 24, 24);
	write_core(fake_image_freeze(fake), "core.strip", &options, &summary);
	assert_hf_ok(hf_core_image_open("core.strip", &open_options, &info,
					&image));
	assert_true(hf_image_peek_u64(image, HEAP + 16, &word));
	assert_int_equal(word, 16);
	/* Its neighbours were not asked for. */
	assert_true(hf_image_peek_u64(image, HEAP + 24, &word));
	assert_int_equal(word, 0);
	assert_true(hf_image_peek_u64(image, HEAP, &word));
	assert_int_equal(word, 0);
	assert_false(hf_image_peek_u64(image, HEAP + PAGE, &word));
	assert_true(hf_image_peek_u64(image, STACK + STACK_BYTES - PAGE,
				      &word));
	assert_int_equal(word, 7);
	hf_image_losses(image, &num);
	assert_true(num >= 1);
	hf_core_info_deinit(&info);
	unlink("core.strip");
}

static void a_truncated_core_is_refused_or_partial(void **state)
{
	HF_AUTO(fake_image) struct fake_image *fake = make_fake();
	struct hf_image *live = fake_image_freeze(fake);
	const struct hf_core_write_options options = {
		.filter = HF_CORE_FILTER_DEFAULT, .process = &process,
	};
	struct hf_core_summary summary;

	(void)state;
	write_core(live, "core.cut", &options, &summary);
	/* From its last byte to its first. */
	for (int i = 1; i <= 20; i++) {
		struct hf_core_open_options open_options = { 0 };
		struct hf_image *image = NULL;
		struct hf_core_info info = { 0 };
		off_t length = (off_t)summary.file_bytes * (20 - i) / 20;
		struct hf_error *err;

		assert_int_equal(truncate("core.cut", length), 0);
		err = hf_core_image_open("core.cut", &open_options, &info,
					 &image);
		assert_non_null(err);
		assert_int_equal(err->code, HF_ERROR_BAD_DATA);
		hf_error_destroy(err);
		open_options.partial = true;
		err = hf_core_image_open("core.cut", &open_options, &info,
					 &image);
		if (err) {
			/* Not even its notes are there. */
			assert_int_equal(err->code, HF_ERROR_BAD_DATA);
			assert_true(length < 32 * 1024);
			hf_error_destroy(err);
			continue;
		}
		assert_true(info.truncated);
		assert_true(info.missing_bytes > 0 || i == 1);
		/* Nothing that is lost reads as zeros. */
		for (uint64_t at = 0; at < 8; at++) {
			uint64_t word;

			if (hf_image_peek_u64(image, HEAP + at * PAGE + 8 * at,
					      &word))
				assert_int_equal(word, at + 1);
		}
		hf_core_info_deinit(&info);
		hf_image_destroy(image);
	}
	unlink("core.cut");
}

static void limits_are_kept_and_leave_an_error(void **state)
{
	HF_AUTO(fake_image) struct fake_image *fake = make_fake();
	struct hf_image *live = fake_image_freeze(fake);
	struct hf_core_write_options options = {
		.filter = HF_CORE_FILTER_DEFAULT, .process = &process,
	};

	(void)state;
	for (int i = 0; i < 2; i++) {
		int fd = open("core.limit", O_RDWR | O_CREAT | O_TRUNC, 0600);
		struct hf_core_summary summary;
		struct hf_error *err;

		options.max_bytes = i ? 0 : 20000;
		options.keep_free_bytes = i ? UINT64_MAX / 4 : 0;
		err = hf_core_write(live, fd, "core.limit", &options,
				    &summary);
		close(fd);
		assert_non_null(err);
		assert_int_equal(err->code, HF_ERROR_NO_SPACE);
		assert_non_null(err->fix);
		hf_error_destroy(err);
	}
	unlink("core.limit");
}

static void what_is_no_core_is_told_apart(void **state)
{
	static const uint8_t arm[64] = { 0x7f, 'E', 'L', 'F', 2, 1, 1,
					 [16] = 4, [18] = 183 };
	static const uint8_t i386[52] = { 0x7f, 'E', 'L', 'F', 1, 1, 1,
					  [16] = 4, [18] = 3 };
	static const uint8_t program[64] = { 0x7f, 'E', 'L', 'F', 2, 1, 1,
					     [16] = 3, [18] = 62 };
	const struct {
		const void *bytes;
		size_t len;
		enum hf_error_code code;
	} cases[] = {
		{ arm, sizeof(arm), HF_ERROR_UNSUPPORTED },
		{ i386, sizeof(i386), HF_ERROR_UNSUPPORTED },
		{ program, sizeof(program), HF_ERROR_BAD_DATA },
		{ "text", 4, HF_ERROR_BAD_DATA },
		{ "", 0, HF_ERROR_BAD_DATA },
		{ "\x28\xb5\x2f\xfd garbage", 12, HF_ERROR_BAD_DATA },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct hf_core_open_options options = { 0 };
		struct hf_image *image = NULL;
		struct hf_core_info info;
		struct hf_error *err;
		int fd = open("core.not", O_RDWR | O_CREAT | O_TRUNC, 0600);

		assert_int_equal(write(fd, cases[i].bytes, cases[i].len),
				 cases[i].len);
		close(fd);
		err = hf_core_image_open("core.not", &options, &info, &image);
		assert_non_null(err);
		assert_int_equal(err->code, cases[i].code);
		hf_error_destroy(err);
	}
	unlink("core.not");
}

static void more_segments_than_a_header_can_count(void **state)
{
	enum { NUM = 70000 };
	HF_AUTO(fake_image) struct fake_image *fake = fake_image_create();
	const struct hf_core_write_options options = {
		.filter = HF_CORE_FILTER_DEFAULT, .process = &process,
	};
	const struct hf_core_open_options open_options = { 0 };
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	struct hf_core_summary summary;
	struct hf_core_info info;
	struct hf_image *live;
	uint64_t word;

	(void)state;
	for (uint64_t i = 0; i < NUM; i++)
		fake_image_add_anon(fake, HEAP + 2 * i * PAGE,
				    HEAP + (2 * i + 1) * PAGE);
	fake_image_poke_u64(fake, HEAP + 2 * (uint64_t)(NUM - 1) * PAGE, 42);
	live = fake_image_freeze(fake);
	write_core(live, "core.many", &options, &summary);
	assert_int_equal(summary.num_segments, NUM);
	assert_hf_ok(hf_core_image_open("core.many", &open_options, &info,
					&image));
	assert_same_segments(live, image);
	assert_true(hf_image_peek_u64(
		image, HEAP + 2 * (uint64_t)(NUM - 1) * PAGE, &word));
	assert_int_equal(word, 42);
	hf_core_info_deinit(&info);
	unlink("core.many");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_core_is_the_image_it_was_written_from),
		cmocka_unit_test(zero_and_untouched_pages_take_no_room),
		cmocka_unit_test(the_filter_decides_what_goes_in),
		cmocka_unit_test(memory_that_is_not_for_cores_is_left_out),
		cmocka_unit_test(what_could_not_be_read_is_missing_in_the_core_too),
		cmocka_unit_test(a_stripped_core_has_the_asked_bytes_only),
		cmocka_unit_test(a_truncated_core_is_refused_or_partial),
		cmocka_unit_test(limits_are_kept_and_leave_an_error),
		cmocka_unit_test(what_is_no_core_is_told_apart),
		cmocka_unit_test(more_segments_than_a_header_can_count),
	};

	for (size_t i = 0; i < sizeof(xstate); i++)
		xstate[i] = (uint8_t)i;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
