/* Tests of process images against a stopped victim that tells what it has.
 * SPDX-License-Identifier: MIT */
#include "coredump/process_image.h"

#include <setjmp.h>
#include <stdarg.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "coredump/process_image_internal.h"
#include "coredump/sweep.h"
#include "coredump/window.h"
#include "tests/support/test_main.h"
#include "tests/victims/mappings.h"
#include "util/array.h"
#include "util/file.h"

enum { PAGE = 4096 };

struct named_mapping {
	char name[32];
	struct hf_range range;
};

struct victim {
	pid_t pid;
	char folder[64];
	HF_ARRAY(struct named_mapping) mappings;
	HF_ARRAY(uint64_t) pages; /* written ones */
	int memfd;                /* number of it in the victim */
};

static const char *const files[] = {
	"a file\nof two lines", "truncated", "shared file",
};

static void read_account(struct victim *victim, FILE *out)
{
	char line[128];

	while (fgets(line, sizeof(line), out)) {
		struct named_mapping mapping;
		uint64_t addr;

		if (sscanf(line, "m %31s %" SCNx64 " %" SCNx64, mapping.name,
			   &mapping.range.start, &mapping.range.end) == 3)
			assert_hf_ok(hf_array_append(&victim->mappings,
						     mapping));
		else if (sscanf(line, "w %" SCNx64, &addr) == 1)
			assert_hf_ok(hf_array_append(&victim->pages, addr));
		else if (sscanf(line, "f memfd %d", &victim->memfd) != 1)
			break;
	}
	assert_string_equal(line, "end\n");
}

static int start_victim(void **state)
{
	struct victim *victim = calloc(1, sizeof(*victim));
	int pipe_fds[2], status;
	FILE *out;

	assert_non_null(victim);
	snprintf(victim->folder, sizeof(victim->folder),
		 "/tmp/hf-mappings-XXXXXX");
	assert_non_null(mkdtemp(victim->folder));
	assert_int_equal(pipe(pipe_fds), 0);
	victim->pid = fork();
	assert_true(victim->pid >= 0);
	if (!victim->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(pipe_fds[1], STDOUT_FILENO);
		close(pipe_fds[0]);
		close(pipe_fds[1]);
		execl(VICTIM, VICTIM, victim->folder, NULL);
		_exit(127);
	}
	close(pipe_fds[1]);
	out = fdopen(pipe_fds[0], "r");
	assert_non_null(out);
	read_account(victim, out);
	fclose(out);
	assert_int_equal(waitpid(victim->pid, &status, WUNTRACED), victim->pid);
	assert_true(WIFSTOPPED(status));
	*state = victim;
	return 0;
}

static int end_victim(void **state)
{
	struct victim *victim = *state;

	kill(victim->pid, SIGKILL);
	waitpid(victim->pid, NULL, 0);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char path[128];

		snprintf(path, sizeof(path), "%s/%s", victim->folder,
			 files[i]);
		unlink(path);
	}
	rmdir(victim->folder);
	hf_array_deinit(&victim->mappings);
	hf_array_deinit(&victim->pages);
	free(victim);
	return 0;
}

static struct hf_image *open_image(const struct victim *victim,
				   unsigned int flags)
{
	struct hf_image *image = NULL;

	assert_hf_ok(hf_process_image_open_flags(victim->pid, NULL, 0, flags,
						 &image));
	return image;
}

static struct hf_range range_of(const struct victim *victim, const char *name)
{
	for (size_t i = 0; i < victim->mappings.num; i++)
		if (!strcmp(victim->mappings.data[i].name, name))
			return victim->mappings.data[i].range;
	fail_msg("the victim has no mapping '%s'", name);
	return (struct hf_range){ 0 };
}

static bool inside(struct hf_range range, uint64_t addr)
{
	return addr >= range.start && addr < range.end;
}

static void check_page(const struct hf_image *image, uint64_t addr)
{
	uint64_t words[PAGE / 8];

	assert_hf_ok(hf_image_read(image, addr, words, sizeof(words)));
	for (size_t i = 0; i < PAGE / 8; i++)
		assert_int_equal(words[i], pattern(addr + 8 * i));
}

/* A number of a line "Key: N kB" in /proc/PID/status, or 0. */
static uint64_t status_of(pid_t pid, const char *key)
{
	HF_AUTO_FREE char *text = NULL;
	const char *line;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	assert_hf_ok(hf_read_file(path, &text, NULL));
	line = strstr(text, key);
	assert_non_null(line);
	return strtoull(line + strlen(key), NULL, 10);
}

static const unsigned int all_ways[] = { 0, HF_PROCESS_IMAGE_NO_SCAN };

static void every_written_page_is_delivered_exactly(void **state)
{
	const struct victim *victim = *state;

	assert_true(victim->pages.num > 1000);
	for (size_t w = 0; w < sizeof(all_ways) / sizeof(all_ways[0]); w++) {
		HF_AUTO(hf_image) struct hf_image *image =
			open_image(victim, all_ways[w]);

		for (size_t i = 0; i < victim->pages.num; i++)
			check_page(image, victim->pages.data[i]);
	}
}

static void resident_pages_are_exactly_those_written(void **state)
{
	static const char *const names[] = {
		"holes", "reserve", "none", "none_empty", "write_only",
		"guard", "memfd", "shared",
	};
	const struct victim *victim = *state;

	for (size_t w = 0; w < sizeof(all_ways) / sizeof(all_ways[0]); w++) {
		HF_AUTO(hf_image) struct hf_image *image =
			open_image(victim, all_ways[w]);
		size_t num;
		const struct hf_range *resident =
			hf_image_resident(image, &num);

		for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
			struct hf_range range = range_of(victim, names[n]);
			uint64_t found = 0, written = 0;

			/* Without the right to follow map_files nobody knows
			 * which pages others wrote. */
			if (geteuid() && n >= 6)
				continue;
			for (size_t i = 0; i < num; i++)
				if (inside(range, resident[i].start))
					found += resident[i].end -
						 resident[i].start;
			for (size_t i = 0; i < victim->pages.num; i++)
				if (inside(range, victim->pages.data[i]))
					written += PAGE;
			assert_int_equal(found, written);
		}
	}
}

static void holes_are_zero_and_missing_ones_are_not(void **state)
{
	const struct victim *victim = *state;
	struct hf_range holes = range_of(victim, "holes");
	struct hf_range none = range_of(victim, "none");
	struct hf_range empty = range_of(victim, "none_empty");
	struct hf_range cut = range_of(victim, "truncated");
	HF_AUTO(hf_image) struct hf_image *image = open_image(victim, 0);
	struct hf_error *err;
	uint64_t word = 1;
	char buf[4 * PAGE];

	assert_true(hf_image_peek_u64(image, holes.start + PAGE, &word));
	assert_int_equal(word, 0);
	assert_false(hf_image_peek_u64(image, empty.start, &word));
	assert_false(hf_image_peek_u64(image, none.start, &word));
	assert_int_equal(hf_image_read_some(image, none.start + 2 * PAGE, buf,
					    sizeof(buf)), 2 * PAGE);
	/* The file was cut after it was mapped. */
	err = hf_image_read(image, cut.start + 8, buf, 2 * PAGE);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_FAULT);
	assert_int_equal(err->addr, cut.start + PAGE);
	hf_error_destroy(err);
}

static void files_are_read_where_they_are_not_resident(void **state)
{
	const struct victim *victim = *state;

	for (size_t w = 0; w < sizeof(all_ways) / sizeof(all_ways[0]); w++) {
		HF_AUTO(hf_image) struct hf_image *image =
			open_image(victim, all_ways[w]);
		struct hf_range file = range_of(victim, "file");
		struct hf_range deleted = range_of(victim, "deleted");
		struct hf_range shared = range_of(victim, "shared_file");
		uint64_t word;

		assert_true(hf_image_peek_u64(image, file.start + 2 * PAGE,
					      &word));
		assert_int_equal(word, 3);
		assert_true(hf_image_peek_u64(image, deleted.start + PAGE,
					      &word));
		assert_int_equal(word, 2);
		assert_true(hf_image_peek_u64(image, shared.start + 3 * PAGE,
					      &word));
		assert_int_equal(word, 4);
	}
}

static void mappings_are_segments_of_their_kind(void **state)
{
	static const struct {
		const char *name;
		enum hf_segment_kind kind;
		enum hf_absent absent;
		uint32_t prot;
		const char *path_end; /* NULL: no path */
	} cases[] = {
		{ "holes", HF_SEGMENT_ANON, HF_ABSENT_ZERO, 3, NULL },
		{ "none", HF_SEGMENT_ANON, HF_ABSENT_MISSING, 0, NULL },
		{ "write_only", HF_SEGMENT_ANON, HF_ABSENT_ZERO, 2, NULL },
		{ "memfd", HF_SEGMENT_SHARED, HF_ABSENT_FILE, 3,
		  "/memfd:victim (deleted)" },
		{ "shared", HF_SEGMENT_SHARED, HF_ABSENT_FILE, 3,
		  "/dev/zero (deleted)" },
		{ "shared_file", HF_SEGMENT_SHARED, HF_ABSENT_FILE, 3,
		  "/shared file" },
		{ "file", HF_SEGMENT_FILE, HF_ABSENT_FILE, 3,
		  "/a file\nof two lines" },
		{ "deleted", HF_SEGMENT_FILE, HF_ABSENT_FILE, 1,
		  "/deleted (deleted)" },
	};
	const struct victim *victim = *state;
	HF_AUTO(hf_image) struct hf_image *image = open_image(victim, 0);
	const struct hf_segment *segments;
	size_t num, num_stack = 0, num_vdso = 0, num_special = 0;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct hf_range range = range_of(victim, cases[i].name);
		const struct hf_segment *segment =
			hf_image_find_segment(image, range.start);

		assert_non_null(segment);
		assert_int_equal(segment->kind, cases[i].kind);
		assert_int_equal(segment->absent, cases[i].absent);
		assert_int_equal(segment->prot, cases[i].prot);
		if (!cases[i].path_end) {
			assert_null(segment->path);
			continue;
		}
		assert_string_equal(segment->path + strlen(segment->path) -
				    strlen(cases[i].path_end),
				    cases[i].path_end);
	}
	segments = hf_image_segments(image, &num);
	for (size_t i = 0; i < num; i++) {
		num_stack += segments[i].kind == HF_SEGMENT_STACK;
		num_vdso += segments[i].kind == HF_SEGMENT_VDSO;
		num_special += segments[i].kind == HF_SEGMENT_SPECIAL;
	}
	assert_int_equal(num_stack, 1);
	assert_int_equal(num_vdso, 1);
	assert_true(num_special >= 1);
}

static void reading_everything_populates_nothing(void **state)
{
	const struct victim *victim = *state;
	struct hf_range whole = { 0, UINT64_C(1) << 47 };
	uint64_t anon = status_of(victim->pid, "RssAnon:");
	struct stat before, after;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)victim->pid,
		 victim->memfd);
	assert_int_equal(stat(path, &before), 0);
	for (size_t w = 0; w < sizeof(all_ways) / sizeof(all_ways[0]); w++) {
		HF_AUTO(hf_image) struct hf_image *image =
			open_image(victim, all_ways[w]);
		HF_AUTO(hf_sweep) struct hf_sweep *sweep = NULL;
		HF_AUTO(hf_window) struct hf_window *window = NULL;
		struct hf_range reserve = range_of(victim, "reserve");
		struct hf_piece piece;
		uint64_t word;

		assert_hf_ok(hf_sweep_create(image, &sweep));
		assert_hf_ok(hf_window_create(image, 16, &window));
		hf_sweep_start(sweep, &whole, 1);
		while (hf_sweep_next(sweep, &piece))
			;
		assert_int_equal(hf_sweep_missing_bytes(sweep), 0);
		for (uint64_t at = reserve.start; at < reserve.end;
		     at += 1 << 27)
			assert_true(hf_window_peek_u64(window, at, &word));
	}
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(before.st_blocks, after.st_blocks);
	assert_int_equal(status_of(victim->pid, "RssAnon:"), anon);
}

static void sweep_delivers_every_written_page_once(void **state)
{
	const struct victim *victim = *state;
	HF_AUTO(hf_image) struct hf_image *image = open_image(victim, 0);
	HF_AUTO(hf_sweep) struct hf_sweep *sweep = NULL;
	struct hf_range ranges[64];
	struct hf_piece piece;
	size_t num = 0, num_pages = 0, num_segments;
	const struct hf_segment *segments =
		hf_image_segments(image, &num_segments);

	/* Segments are sorted; the account of the victim is not. */
	for (size_t i = 0; i < num_segments; i++)
		for (size_t m = 0; m < victim->mappings.num; m++) {
			struct hf_range range = victim->mappings.data[m].range;

			if (segments[i].start <= range.start &&
			    range.start < segments[i].end && num < 64)
				ranges[num++] = (struct hf_range){
					segments[i].start, segments[i].end };
		}
	/* Neighbours of equal rights may be one segment. */
	for (size_t i = 1; i < num;)
		if (ranges[i].start == ranges[i - 1].start)
			memmove(&ranges[i], &ranges[i + 1],
				(--num - i) * sizeof(ranges[0]));
		else
			i++;
	assert_hf_ok(hf_sweep_create(image, &sweep));
	hf_sweep_start(sweep, ranges, num);
	while (hf_sweep_next(sweep, &piece)) {
		assert_true(piece.len <= 1 << 20);
		for (size_t i = 0; i < piece.len / 8; i += PAGE / 8)
			num_pages += piece.words[i] ==
				     pattern(piece.addr + 8 * i);
	}
	assert_int_equal(num_pages, victim->pages.num);
}

static void unreadable_pages_are_counted_as_missing(void **state)
{
	const struct victim *victim = *state;
	/* Without /proc/PID/mem PROT_NONE stops us. */
	HF_AUTO(hf_image) struct hf_image *image =
		open_image(victim, HF_PROCESS_IMAGE_NO_MEM);
	HF_AUTO(hf_sweep) struct hf_sweep *sweep = NULL;
	struct hf_range none = range_of(victim, "none");
	struct hf_piece piece;
	struct hf_error *err;
	char byte;

	assert_hf_ok(hf_sweep_create(image, &sweep));
	hf_sweep_start(sweep, &none, 1);
	assert_false(hf_sweep_next(sweep, &piece));
	assert_int_equal(hf_sweep_missing_bytes(sweep), 2 * PAGE);
	err = hf_image_read(image, none.start + 2 * PAGE, &byte, 1);
	assert_non_null(err);
	assert_int_equal(err->addr, none.start + 2 * PAGE);
	hf_error_destroy(err);
	check_page(image, range_of(victim, "holes").start);
}

static void without_mem_all_is_read_that_the_victim_can_read(void **state)
{
	const struct victim *victim = *state;
	HF_AUTO(hf_image) struct hf_image *image =
		open_image(victim, HF_PROCESS_IMAGE_NO_MEM);
	struct hf_range none = range_of(victim, "none");
	struct hf_range write_only = range_of(victim, "write_only");
	struct hf_range cut = range_of(victim, "truncated");
	size_t num = 0;
	char buf[2 * PAGE];

	for (size_t i = 0; i < victim->pages.num; i++) {
		uint64_t addr = victim->pages.data[i];

		if (inside(none, addr) || inside(write_only, addr))
			continue;
		check_page(image, addr);
		num++;
	}
	assert_int_equal(num, victim->pages.num - 3);
	assert_int_equal(hf_image_read_some(image, cut.start + 8, buf,
					    sizeof(buf)), PAGE - 8);
}

/* Of the line "Key: N kB" in smaps_rollup. */
static uint64_t rollup_of(pid_t pid, const char *key)
{
	HF_AUTO_FREE char *text = NULL;
	const char *line;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	assert_hf_ok(hf_read_file(path, &text, NULL));
	line = strstr(text, key);
	assert_non_null(line);
	return strtoull(line + strlen(key), NULL, 10);
}

static void what_a_child_shares_with_its_parent_stays_shared(void **state)
{
	enum { SIZE = 32 << 20 };
	struct hf_range range;
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	HF_AUTO(hf_sweep) struct hf_sweep *sweep = NULL;
	struct hf_piece piece;
	uint64_t before, after, bytes = 0;
	char *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int status;
	pid_t pid;

	(void)state;
	assert_ptr_not_equal(memory, MAP_FAILED);
	memset(memory, 1, SIZE);
	pid = fork();
	if (!pid) {
		raise(SIGSTOP);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	range = (struct hf_range){ (uintptr_t)memory,
				   (uintptr_t)memory + SIZE };
	assert_hf_ok(hf_process_image_open(pid, NULL, 0, &image));
	assert_hf_ok(hf_sweep_create(image, &sweep));
	before = rollup_of(pid, "Shared_Dirty:");
	hf_sweep_start(sweep, &range, 1);
	while (hf_sweep_next(sweep, &piece))
		bytes += piece.len;
	after = rollup_of(pid, "Shared_Dirty:");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	munmap(memory, SIZE);
	assert_int_equal(bytes, SIZE);
	assert_true(before >= SIZE / 1024);
	/* Some pages of ours may be written meanwhile, none of these. */
	assert_true(after + SIZE / 1024 / 8 > before);
}

static void modules_have_files_with_their_build_ids(void **state)
{
	const struct victim *victim = *state;
	HF_AUTO(hf_image) struct hf_image *image = open_image(victim, 0);
	bool has_program = false, has_libc = false, has_vdso = false;
	const struct hf_module *modules;
	size_t num;

	modules = hf_image_modules(image, &num);
	assert_int_equal(num, 4); /* program, libc, ld.so, vdso */
	for (size_t i = 0; i < num; i++) {
		HF_AUTO_FD int fd = -1;
		struct hf_error *err;
		struct stat st, truth;

		assert_true(modules[i].build_id_bytes > 0);
		assert_false(modules[i].deleted);
		assert_ptr_equal(hf_image_find_module(image, modules[i].start),
				 &modules[i]);
		err = hf_image_open_module(image, &modules[i], &fd);
		if (!strcmp(modules[i].path, "[vdso]")) {
			assert_non_null(err);
			assert_int_equal(err->code, HF_ERROR_NOT_FOUND);
			hf_error_destroy(err);
			has_vdso = true;
			continue;
		}
		assert_hf_ok(err);
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(stat(modules[i].path, &truth), 0);
		assert_int_equal(st.st_ino, truth.st_ino);
		if (!stat(VICTIM, &truth) && st.st_ino == truth.st_ino)
			has_program = true;
		if (strstr(modules[i].path, "/libc.so")) {
			has_libc = true;
			assert_true(modules[i].tls_bytes > 0);
		}
	}
	assert_true(has_program && has_libc && has_vdso);
}

static void a_process_that_is_gone_is_target_gone(void **state)
{
	struct hf_image *image = NULL;
	struct hf_error *err;
	pid_t pid = fork();

	(void)state;
	if (!pid)
		_exit(0);
	/* First a zombie, then nothing. */
	assert_int_equal(waitid(P_PID, pid, &(siginfo_t){ 0 },
				WEXITED | WNOWAIT), 0);
	err = hf_process_image_open(pid, NULL, 0, &image);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_TARGET_GONE);
	hf_error_destroy(err);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	err = hf_process_image_open(pid, NULL, 0, &image);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_TARGET_GONE);
	hf_error_destroy(err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_written_page_is_delivered_exactly),
		cmocka_unit_test(resident_pages_are_exactly_those_written),
		cmocka_unit_test(holes_are_zero_and_missing_ones_are_not),
		cmocka_unit_test(files_are_read_where_they_are_not_resident),
		cmocka_unit_test(mappings_are_segments_of_their_kind),
		cmocka_unit_test(reading_everything_populates_nothing),
		cmocka_unit_test(sweep_delivers_every_written_page_once),
		cmocka_unit_test(unreadable_pages_are_counted_as_missing),
		cmocka_unit_test(
			without_mem_all_is_read_that_the_victim_can_read),
		cmocka_unit_test(
			what_a_child_shares_with_its_parent_stays_shared),
		cmocka_unit_test(modules_have_files_with_their_build_ids),
		cmocka_unit_test(a_process_that_is_gone_is_target_gone),
	};

	return cmocka_run_group_tests(tests, start_victim, end_victim);
}
