/* Tests that a spooled image reads as before, without what was below it.
 * SPDX-License-Identifier: MIT */
#include "coredump/spool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "coredump/process_image.h"
#include "coredump/sweep.h"
#include "tests/support/fake_image.h"
#include "tests/support/test_main.h"
#include "util/array.h"

enum { PAGE = 4096, MIB = 1 << 20 };

#define ANON UINT64_C(0x10000000)
#define FAR UINT64_C(0x7f0000000000)

/* What `stored` was told, and after how much of it that it is to fail. */
struct told {
	HF_ARRAY(struct hf_range) ranges;
	int num_calls;
	int fail_at; /* number of the call; 0: never */
};

static struct hf_error *note(void *arg, const struct hf_range *ranges,
			     size_t num)
{
	struct told *told = arg;

	if (++told->num_calls == told->fail_at)
		return hf_error_create(HF_ERROR_NO_SPACE, "given up");
	for (size_t i = 0; i < num; i++)
		assert_hf_ok(hf_array_append(&told->ranges, ranges[i]));
	return NULL;
}

static struct hf_spool_options in_memory(struct told *told)
{
	return (struct hf_spool_options){
		.memory_max = UINT64_MAX,
		.max_files = 100,
		.stored = note,
		.arg = told,
	};
}

static struct hf_spool_options in_file(struct told *told)
{
	struct hf_spool_options options = in_memory(told);

	options.memory_max = 0;
	options.dir = "/tmp";
	return options;
}

/* Every page of a range: how much of it can be read, and a sum of that. */
static void add_pages(const struct hf_image *image, struct hf_range range,
		      void *sums_arg)
{
	HF_ARRAY(uint64_t) *sums = sums_arg;
	uint64_t words[PAGE / 8];

	for (uint64_t at = range.start; at < range.end; at += PAGE) {
		uint64_t sum;
		size_t len;

		memset(words, 0x5a, sizeof(words));
		len = hf_image_read_some(image, at, words, PAGE);
		sum = len;
		for (size_t i = 0; i < len / 8; i++)
			sum = (sum ^ words[i]) * UINT64_C(0x100000001b3);
		assert_hf_ok(hf_array_append(sums, sum));
	}
}

/* What of shared memory nobody has touched is in no process: it may be read as
 * long as there is one that has it mapped, and is asked for by no scan. */
static bool is_shared(const struct hf_image *image, uint64_t addr)
{
	const struct hf_segment *segment = hf_image_find_segment(image, addr);

	return segment && segment->kind == HF_SEGMENT_SHARED;
}

/* All of an image; of reserves only what is there, and a page beside it. */
static void sum_up(const struct hf_image *image, void *sums)
{
	size_t num, num_resident;
	const struct hf_segment *segments = hf_image_segments(image, &num);
	const struct hf_range *resident =
		hf_image_resident(image, &num_resident);

	for (size_t i = 0; i < num; i++)
		if (segments[i].end - segments[i].start <= 64 * MIB &&
		    !is_shared(image, segments[i].start))
			add_pages(image, (struct hf_range){
				segments[i].start, segments[i].end }, sums);
	for (size_t i = 0; i < num_resident; i++)
		add_pages(image, (struct hf_range){
			resident[i].start, is_shared(image, resident[i].start) ?
				resident[i].end : resident[i].end + PAGE },
			  sums);
}

static void swept(const struct hf_image *image, void *sums_arg)
{
	HF_AUTO(hf_sweep) struct hf_sweep *sweep = NULL;
	HF_ARRAY(uint64_t) *sums = sums_arg;
	const struct hf_range all = { 0, UINT64_C(1) << 47 };
	struct hf_piece piece;
	uint64_t sum = 0;

	assert_hf_ok(hf_sweep_create(image, &sweep));
	hf_sweep_start(sweep, &all, 1);
	while (hf_sweep_next(sweep, &piece))
		for (size_t i = 0; i < piece.len / 8; i++)
			sum = (sum ^ (piece.addr + 8 * i) ^ piece.words[i]) *
			      UINT64_C(0x100000001b3);
	assert_hf_ok(hf_array_append(sums, sum));
	assert_hf_ok(hf_array_append(sums, hf_sweep_missing_bytes(sweep)));
}

/* Small and large pieces, zeros among them, written or not, one page that
 * cannot be read, and a file whose pages were written here and there. */
static struct fake_image *make_fake(void)
{
	static const char text[] = "bytes of a file that nobody wrote to";
	struct fake_image *fake = fake_image_create();
	const struct hf_segment file = {
		.start = FAR, .end = FAR + 8 * PAGE, .prot = PROT_READ,
		.kind = HF_SEGMENT_FILE, .absent = HF_ABSENT_FILE,
		.path = "/lib/some.so", .device = 1, .inode = 2,
	};

	fake_image_add_anon(fake, ANON, ANON + 64 * MIB);
	fake_image_add_anon(fake, ANON + 128 * MIB, ANON + 129 * MIB);
	fake_image_add_segment(fake, &file);
	fake_image_touch(fake, ANON, ANON + 20 * MIB);
	for (uint64_t i = 0; i < 20 * MIB / PAGE; i += 1 + i % 7)
		fake_image_poke_u64(fake, ANON + i * PAGE + 8 * (i % 512),
				    i + 1);
	for (uint64_t i = 0; i < 3000; i += 3)
		fake_image_poke_u64(fake, ANON + 30 * MIB + i * PAGE, ~i);
	fake_image_poke_u64(fake, ANON + 128 * MIB + 5 * PAGE, 77);
	fake_image_fail(fake, ANON + 3 * MIB + 7 * PAGE);
	fake_image_poke_u64(fake, FAR + 2 * PAGE, 78);
	fake_image_poke_file(fake, FAR + 4 * PAGE + 100, text, sizeof(text));
	return fake;
}

static void check_fake(struct hf_spool_options options,
		       enum hf_spool_place place, struct told *told)
{
	HF_AUTO(fake_image) struct fake_image *fake = make_fake();
	struct hf_image *image = fake_image_freeze(fake);
	struct hf_spool_report report;
	HF_ARRAY(uint64_t) before = { 0 };
	HF_ARRAY(uint64_t) after = { 0 };
	size_t num_reads;

	sum_up(image, &before);
	swept(image, &before);
	assert_hf_ok(hf_spool_image(image, &options, &report));
	assert_true(report.is_whole);
	assert_int_equal(report.place, place);
	assert_int_equal(report.copied_bytes,
			 report.stored_bytes + report.zero_bytes);
	/* One page was not readable; the fake has no files to open, so all
	 * eight pages of one count. */
	assert_int_equal(report.copied_bytes,
			 20 * MIB - PAGE + 1000 * PAGE + PAGE + 8 * PAGE);
	assert_true(report.zero_bytes > 10 * MIB);

	num_reads = fake_image_num_reads(fake);
	sum_up(image, &after);
	swept(image, &after);
	assert_int_equal(fake_image_num_reads(fake), num_reads);
	assert_int_equal(before.num, after.num);
	assert_memory_equal(before.data, after.data,
			    before.num * sizeof(*before.data));
	hf_array_deinit(&before);
	hf_array_deinit(&after);

	/* What was told is private anonymous memory, and in its segment. */
	assert_true(told->num_calls >= 1);
	for (size_t i = 0; i < told->ranges.num; i++) {
		assert_true(told->ranges.data[i].start >= ANON);
		assert_true(told->ranges.data[i].start <
			    told->ranges.data[i].end);
		assert_true(told->ranges.data[i].end <= ANON + 64 * MIB);
	}
	hf_array_deinit(&told->ranges);
}

static void a_copy_in_memory_reads_the_same(void **state)
{
	struct told told = { 0 };

	(void)state;
	check_fake(in_memory(&told), HF_SPOOL_MEMORY, &told);
}

static void a_copy_in_a_file_reads_the_same(void **state)
{
	struct told told = { 0 };

	(void)state;
	check_fake(in_file(&told), HF_SPOOL_FILE, &told);
}

static void nothing_is_told_before_it_was_copied(void **state)
{
	struct told told = { 0 };
	const struct hf_spool_options options = in_memory(&told);
	struct hf_spool_report report;
	HF_AUTO(fake_image) struct fake_image *fake = fake_image_create();
	struct hf_image *image;
	uint64_t end = 0, sum = 0;

	(void)state;
	fake_image_add_anon(fake, ANON, ANON + 80 * MIB);
	fake_image_touch(fake, ANON, ANON + 70 * MIB);
	image = fake_image_freeze(fake);
	assert_hf_ok(hf_spool_image(image, &options, &report));
	/* In pieces of 16 MiB, in order; the last one is not worth it, since
	 * the child goes now. */
	assert_int_equal(told.num_calls, 4);
	for (size_t i = 0; i < told.ranges.num; i++) {
		assert_true(told.ranges.data[i].start >= end);
		end = told.ranges.data[i].end;
		sum += end - told.ranges.data[i].start;
	}
	assert_int_equal(sum, 64 * MIB);
	assert_int_equal(report.zero_bytes, 70 * MIB);
	assert_int_equal(report.stored_bytes, 0);
	hf_array_deinit(&told.ranges);
}

static void what_is_likely_to_be_written_comes_first(void **state)
{
	struct told told = { 0 };
	const struct hf_spool_options options = in_memory(&told);
	const struct hf_segment quiet = {
		.start = ANON, .end = ANON + 20 * MIB, .prot = PROT_READ,
		.kind = HF_SEGMENT_ANON, .absent = HF_ABSENT_ZERO,
	};
	struct hf_spool_report report;
	HF_AUTO(fake_image) struct fake_image *fake = fake_image_create();
	struct hf_image *image;

	(void)state;
	fake_image_add_segment(fake, &quiet);
	fake_image_add_anon(fake, ANON + 32 * MIB, ANON + 52 * MIB);
	fake_image_touch(fake, ANON, ANON + 20 * MIB);
	fake_image_touch(fake, ANON + 32 * MIB, ANON + 52 * MIB);
	image = fake_image_freeze(fake);
	assert_hf_ok(hf_spool_image(image, &options, &report));
	assert_true(told.ranges.num >= 2);
	assert_int_equal(told.ranges.data[0].start, ANON + 32 * MIB);
	hf_array_deinit(&told.ranges);
}

static void without_room_the_image_stays_as_it_was(void **state)
{
	struct told told = { 0 };
	struct hf_spool_options options = in_memory(&told);
	HF_AUTO(fake_image) struct fake_image *fake = make_fake();
	struct hf_image *image = fake_image_freeze(fake);
	struct hf_spool_report report;
	uint64_t word;

	(void)state;
	options.memory_max = 10 * MIB;
	assert_hf_ok(hf_spool_image(image, &options, &report));
	assert_int_equal(report.place, HF_SPOOL_NOWHERE);
	assert_false(report.is_whole);
	assert_string_equal(report.why, "a copy may take 23 MiB, and there "
			    "are 10 MiB for it");
	assert_int_equal(told.num_calls, 0);
	assert_true(hf_image_peek_u64(image, ANON, &word));
	assert_int_equal(word, 1);
	/* No such folder. */
	options.memory_max = 0;
	options.dir = "/nonexistent";
	assert_hf_ok(hf_spool_image(image, &options, &report));
	assert_int_equal(report.place, HF_SPOOL_NOWHERE);
	assert_non_null(strstr(report.why, "cannot make a file in "
			       "'/nonexistent'"));
	assert_true(hf_image_peek_u64(image, ANON, &word));
}

/* The disk fills up in the middle: what was copied (and given back) comes from
 * the copy, the rest from below. */
static void a_copy_that_ends_early_is_used_as_far_as_it_goes(void **state)
{
	struct told told = { 0 };
	struct hf_spool_options options = in_file(&told);
	HF_AUTO(fake_image) struct fake_image *fake = make_fake();
	struct hf_image *image = fake_image_freeze(fake);
	struct rlimit saved, limit;
	struct hf_spool_report report;
	HF_ARRAY(uint64_t) before = { 0 };
	HF_ARRAY(uint64_t) after = { 0 };

	(void)state;
	sum_up(image, &before);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &saved), 0);
	limit = saved;
	limit.rlim_cur = 5 * MIB;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_hf_ok(hf_spool_image(image, &options, &report));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &saved), 0);
	assert_int_equal(report.place, HF_SPOOL_FILE);
	assert_false(report.is_whole);
	assert_non_null(strstr(report.why, "cannot write the copy"));
	assert_in_range(report.stored_bytes, 1 * MIB, 5 * MIB);
	assert_int_equal(told.num_calls, 1);

	for (size_t i = 0; i < told.ranges.num; i++)
		for (uint64_t at = told.ranges.data[i].start;
		     at < told.ranges.data[i].end; at += PAGE)
			fake_image_fail(fake, at);
	sum_up(image, &after);
	assert_int_equal(before.num, after.num);
	assert_memory_equal(before.data, after.data,
			    before.num * sizeof(*before.data));
	hf_array_deinit(&before);
	hf_array_deinit(&after);
	hf_array_deinit(&told.ranges);
}

static void an_error_of_the_child_ends_the_copy(void **state)
{
	struct told told = { .fail_at = 1 };
	const struct hf_spool_options options = in_memory(&told);
	HF_AUTO(fake_image) struct fake_image *fake = make_fake();
	struct hf_image *image = fake_image_freeze(fake);
	struct hf_spool_report report;
	struct hf_error *err = hf_spool_image(image, &options, &report);

	(void)state;
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_NO_SPACE);
	assert_string_equal(err->message, "given up");
	hf_error_destroy(err);
	hf_array_deinit(&told.ranges);
}

static void the_user_may_stop_a_copy(void **state)
{
	struct told told = { 0 };
	struct hf_spool_options options = in_memory(&told);
	HF_AUTO(fake_image) struct fake_image *fake = make_fake();
	struct hf_image *image = fake_image_freeze(fake);
	volatile sig_atomic_t cancelled = SIGINT;
	const struct hf_progress progress = { .cancelled = &cancelled };
	struct hf_spool_report report;
	struct hf_error *err;

	(void)state;
	options.progress = &progress;
	err = hf_spool_image(image, &options, &report);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_INTERRUPTED);
	hf_error_destroy(err);
	hf_array_deinit(&told.ranges);
}

static void what_was_discarded_cannot_be_read(void **state)
{
	struct told told = { 0 };
	const struct hf_spool_options options = in_memory(&told);
	HF_AUTO(fake_image) struct fake_image *fake = make_fake();
	struct hf_image *image = fake_image_freeze(fake);
	struct hf_spool_report report;
	uint64_t word = 5;

	(void)state;
	hf_spool_discard(image); /* no spool: nothing happens */
	assert_true(hf_image_peek_u64(image, ANON, &word));
	assert_hf_ok(hf_spool_image(image, &options, &report));
	assert_true(hf_image_peek_u64(image, ANON, &word));
	hf_spool_discard(image);
	hf_spool_discard(image);
	assert_false(hf_image_peek_u64(image, ANON, &word));
	hf_array_deinit(&told.ranges);
}

static pid_t start_mappings(char folder[64])
{
	int status;
	pid_t pid;

	strcpy(folder, "/tmp/hf-spool-XXXXXX");
	assert_non_null(mkdtemp(folder));
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!freopen("/dev/null", "w", stdout))
			_exit(127);
		execl(VICTIM, VICTIM, folder, NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	return pid;
}

static void remove_folder(const char *folder)
{
	static const char *const files[] = {
		"a file\nof two lines", "truncated", "shared file",
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char path[128];

		snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
		unlink(path);
	}
	rmdir(folder);
}

static void check_gone(struct hf_spool_options options, struct told *told)
{
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	HF_ARRAY(uint64_t) before = { 0 };
	HF_ARRAY(uint64_t) after = { 0 };
	struct hf_spool_report report;
	const struct hf_module *modules;
	char folder[64];
	pid_t pid = start_mappings(folder);
	size_t num, num_opened = 0;

	assert_hf_ok(hf_process_image_open(pid, NULL, 0, &image));
	sum_up(image, &before);
	swept(image, &before);
	assert_hf_ok(hf_spool_image(image, &options, &report));
	assert_true(report.is_whole);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	remove_folder(folder);

	sum_up(image, &after);
	swept(image, &after);
	assert_int_equal(before.num, after.num);
	for (size_t i = 0; i < before.num; i++)
		assert_int_equal(before.data[i], after.data[i]);
	modules = hf_image_modules(image, &num);
	for (size_t i = 0; i < num; i++) {
		HF_AUTO_FD int fd = -1;
		struct hf_error *err =
			hf_image_open_module(image, &modules[i], &fd);

		num_opened += !err;
		hf_error_ignore(err);
	}
	/* The program, libc, ld.so: all but the vdso. */
	assert_int_equal(num_opened, num - 1);
	hf_array_deinit(&before);
	hf_array_deinit(&after);
	hf_array_deinit(&told->ranges);
}

static void a_process_may_go_once_it_was_copied(void **state)
{
	struct told told = { 0 };

	(void)state;
	check_gone(in_memory(&told), &told);
	memset(&told, 0, sizeof(told));
	check_gone(in_file(&told), &told);
}

/* Then what is read of files must be copied, too. */
static void without_descriptors_files_are_copied(void **state)
{
	struct told told = { 0 };
	struct hf_spool_options options = in_memory(&told);

	(void)state;
	options.max_files = 0;
	check_gone(options, &told);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_in_memory_reads_the_same),
		cmocka_unit_test(a_copy_in_a_file_reads_the_same),
		cmocka_unit_test(nothing_is_told_before_it_was_copied),
		cmocka_unit_test(what_is_likely_to_be_written_comes_first),
		cmocka_unit_test(without_room_the_image_stays_as_it_was),
		cmocka_unit_test(
			a_copy_that_ends_early_is_used_as_far_as_it_goes),
		cmocka_unit_test(an_error_of_the_child_ends_the_copy),
		cmocka_unit_test(the_user_may_stop_a_copy),
		cmocka_unit_test(what_was_discarded_cannot_be_read),
		cmocka_unit_test(a_process_may_go_once_it_was_copied),
		cmocka_unit_test(without_descriptors_files_are_copied),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
