/* Tests of the parser of /proc/PID/maps and smaps.
 * SPDX-License-Identifier: MIT */
#include "coredump/proc_maps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "tests/support/test_main.h"
#include "util/file.h"

static struct hf_error *parse(const char *text, char **copy,
			      struct hf_proc_maps *ret)
{
	*copy = strdup(text);
	assert_non_null(*copy);
	return hf_proc_maps_parse(*copy, strlen(text), ret);
}

static void each_field_of_a_line_is_taken(void **state)
{
	static const struct {
		const char *line;
		struct hf_mapping want;
	} cases[] = {
		{ "7f0c8a000000-7f0c8a021000 r-xs 00001000 fe:01 1234"
		  "       /tmp/x (deleted)\n",
		  { .start = 0x7f0c8a000000, .end = 0x7f0c8a021000,
		    .prot = PROT_READ | PROT_EXEC, .is_shared = true,
		    .is_deleted = true, .file_offset = 0x1000,
		    .device = 0xfe01, .inode = 1234,
		    .path = "/tmp/x (deleted)" } },
		{ "1000-2000 ---p 00000000 00:00 0 \n",
		  { .start = 0x1000, .end = 0x2000 } },
		{ "1000-2000 -w-p 00000000 00:00 0",
		  { .start = 0x1000, .end = 0x2000, .prot = PROT_WRITE } },
		{ "1000-2000 rw-p 00000000 00:00 0      [heap]\n",
		  { .start = 0x1000, .end = 0x2000,
		    .prot = PROT_READ | PROT_WRITE, .path = "[heap]" } },
		{ "1000-2000 rw-p 00000000 00:00 0      [anon:my  pool]\n",
		  { .start = 0x1000, .end = 0x2000,
		    .prot = PROT_READ | PROT_WRITE,
		    .path = "[anon:my  pool]" } },
		{ "1000-2000 r--p 00000000 08:02 7      /a b\\012c  d\n",
		  { .start = 0x1000, .end = 0x2000, .prot = PROT_READ,
		    .device = 0x802, .inode = 7, .path = "/a b\nc  d" } },
		{ "1000-2000 r--p 00000000 08:02 7      /x (deleted)y\n",
		  { .start = 0x1000, .end = 0x2000, .prot = PROT_READ,
		    .device = 0x802, .inode = 7, .path = "/x (deleted)y" } },
		{ "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0"
		  "                  [vsyscall]\n",
		  { .start = 0xffffffffff600000, .end = 0xffffffffff601000,
		    .prot = PROT_EXEC, .path = "[vsyscall]" } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		HF_AUTO(hf_proc_maps) struct hf_proc_maps maps = { 0 };
		const struct hf_mapping *got, *want = &cases[i].want;
		HF_AUTO_FREE char *text = NULL;

		assert_hf_ok(parse(cases[i].line, &text, &maps));
		assert_int_equal(maps.num, 1);
		got = maps.data;
		assert_int_equal(got->start, want->start);
		assert_int_equal(got->end, want->end);
		assert_int_equal(got->prot, want->prot);
		assert_int_equal(got->is_shared, want->is_shared);
		assert_int_equal(got->is_deleted, want->is_deleted);
		assert_int_equal(got->file_offset, want->file_offset);
		assert_int_equal(got->device, want->device);
		assert_int_equal(got->inode, want->inode);
		if (want->path)
			assert_string_equal(got->path, want->path);
		else
			assert_null(got->path);
	}
}

static void damaged_lines_are_bad_data(void **state)
{
	static const char *const cases[] = {
		"\n",
		"nonsense\n",
		"Rss: 4 kB\n", /* before any mapping */
		"1000\n",
		"1000-2000\n",
		"1000-2000 rwx\n",
		"1000-2000 rwzp 0 0:0 0\n",
		"1000-2000 rwxq 0 0:0 0\n",
		"1000-2000 rw-p 0 0:0\n",
		"1000-2000 rw-p 0 0:0 0x\n",
		"2000-1000 rw-p 0 0:0 0\n",
		"1000-1000 rw-p 0 0:0 0\n",
		"1000-10000000000000000 rw-p 0 0:0 0\n",
		"1000-2000 rw-p 0 100000000:0 0\n",
		"1000-2000 rw-p 0 0:0 99999999999999999999\n",
		"2000-3000 rw-p 0 0:0 0\n1000-2000 rw-p 0 0:0 0\n",
		"1000-3000 rw-p 0 0:0 0\n2000-4000 rw-p 0 0:0 0\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct hf_proc_maps maps = { 0 };
		HF_AUTO_FREE char *text = NULL;
		HF_AUTO(hf_error) struct hf_error *err =
			parse(cases[i], &text, &maps);

		assert_non_null(err);
		assert_int_equal(err->code, HF_ERROR_BAD_DATA);
	}
}

static void smaps_tells_what_a_fork_leaves_out(void **state)
{
	static const char smaps[] =
		"1000-2000 rw-p 00000000 00:00 0 \n"
		"VmFlags: rd wr mr mw me dc ac \n"
		"2000-3000 rw-p 00000000 00:00 0 \n"
		"VmFlags: rd wr mr mw me ac wf \n"
		/* Of the getrandom in the vdso. */
		"3000-4000 rw-p 00000000 00:00 0 \n"
		"VmFlags: rd wr mr mw me lf wf dd dp \n"
		"4000-5000 rw-p 00000000 00:00 0 \n"
		"VmFlags: rd wr mr mw me ac \n";
	static const bool dontfork[] = { true, false, false, false };
	static const bool wiped[] = { false, true, false, false };
	HF_AUTO(hf_proc_maps) struct hf_proc_maps maps = { 0 };
	HF_AUTO_FREE char *text = NULL;

	(void)state;
	assert_hf_ok(parse(smaps, &text, &maps));
	assert_int_equal(maps.num, 4);
	for (size_t i = 0; i < maps.num; i++) {
		assert_int_equal(maps.data[i].is_dontfork, dontfork[i]);
		assert_int_equal(maps.data[i].is_wiped, wiped[i]);
	}
}

static void smaps_tells_devices_and_empty_mappings(void **state)
{
	static const char smaps[] =
		"1000-2000 rw-p 00000000 00:00 0 \n"
		"Size:                  4 kB\n"
		"Rss:                   4 kB\n"
		"VmFlags: rd wr mr mw me ac sd \n"
		"2000-3000 rw-s 00000000 00:05 9      /dev/thing\n"
		"Rss:                   0 kB\n"
		"Swap:                  0 kB\n"
		"THPeligible:           0\n"
		"VmFlags: rd wr sh mr mw me ms pf io de dd \n"
		"3000-4000 rw-p 00000000 00:00 0 \n"
		"Rss:                   0 kB\n"
		"Private_Hugetlb:       0 kB\n"
		"Swap:                  8 kB\n"
		"VmFlags: rd wr mr mw me ac sd\n"
		"4000-5000 rw-p 00000000 00:00 0 \n"
		"Rss:                   0 kB\n"
		"Private_Hugetlb:    2048 kB\n"
		"VmFlags: rd wr ht\n"
		"5000-6000 rw-p 00000000 00:00 0 \n";
	static const struct {
		bool is_io, is_empty;
	} want[] = {
		{ false, false }, { true, true }, { false, false },
		{ false, false }, { false, false },
	};
	HF_AUTO(hf_proc_maps) struct hf_proc_maps maps = { 0 };
	HF_AUTO_FREE char *text = NULL;

	(void)state;
	assert_hf_ok(parse(smaps, &text, &maps));
	assert_int_equal(maps.num, 5);
	for (size_t i = 0; i < maps.num; i++) {
		assert_int_equal(maps.data[i].is_io, want[i].is_io);
		assert_int_equal(maps.data[i].is_empty, want[i].is_empty);
	}
}

static void smaps_tells_huge_pages_and_who_may_have_them(void **state)
{
	static const char smaps[] =
		"1000-2000 rw-p 00000000 00:00 0 \n"
		"Anonymous:          6144 kB\n"
		"AnonHugePages:      4096 kB\n"
		"VmFlags: rd wr mr mw me ac hg\n"
		"2000-3000 rw-p 00000000 00:00 0 \n"
		"Anonymous:             4 kB\n"
		"AnonHugePages:         0 kB\n"
		"VmFlags: rd wr mr mw me ac nh\n"
		"3000-4000 rw-p 00000000 00:00 0 \n"
		"AnonHugePages:         99999999999999999999 kB\n"
		"Anonymous:             18446744073709551615 kB\n"
		"VmFlags: rd wr um\n"
		"4000-5000 rw-p 00000000 00:00 0 \n"
		"VmFlags: rd wr uw\n"
		"5000-6000 rw-p 00000000 00:00 0 \n"
		"VmFlags: rd wr ui ht\n";
	static const struct hf_mapping want[] = {
		{ .anon_bytes = 6 << 20, .huge_bytes = 4 << 20 },
		{ .anon_bytes = 4096, .is_no_huge = true },
		{ .is_watched = true },
		{ .is_watched = true },
		{ .is_watched = true, .is_hugetlb = true },
	};
	HF_AUTO(hf_proc_maps) struct hf_proc_maps maps = { 0 };
	HF_AUTO_FREE char *text = NULL;

	(void)state;
	assert_hf_ok(parse(smaps, &text, &maps));
	assert_int_equal(maps.num, 5);
	for (size_t i = 0; i < maps.num; i++) {
		const struct hf_mapping *got = &maps.data[i];

		assert_int_equal(got->anon_bytes, want[i].anon_bytes);
		assert_int_equal(got->huge_bytes, want[i].huge_bytes);
		assert_int_equal(got->is_no_huge, want[i].is_no_huge);
		assert_int_equal(got->is_watched, want[i].is_watched);
		assert_int_equal(got->is_hugetlb, want[i].is_hugetlb);
	}
}

static void maps_and_smaps_of_this_process_agree_with_its_memory(void **state)
{
	static const char *const names[] = { "/proc/self/maps",
					     "/proc/self/smaps" };
	static int variable;

	(void)state;
	for (size_t n = 0; n < 2; n++) {
		HF_AUTO(hf_proc_maps) struct hf_proc_maps maps = { 0 };
		HF_AUTO_FREE char *text = NULL;
		bool has_code = false, has_variable = false, has_local = false;
		struct stat st;
		size_t len;

		assert_hf_ok(hf_read_file(names[n], &text, &len));
		assert_hf_ok(hf_proc_maps_parse(text, len, &maps));
		assert_int_equal(stat("/proc/self/exe", &st), 0);
		for (size_t i = 0; i < maps.num; i++) {
			const struct hf_mapping *mapping = &maps.data[i];
			uint64_t size = mapping->end - mapping->start;

			if ((uintptr_t)parse - mapping->start < size) {
				has_code = true;
				assert_int_equal(mapping->prot,
						 PROT_READ | PROT_EXEC);
				assert_int_equal(mapping->inode, st.st_ino);
			}
			if ((uintptr_t)&variable - mapping->start < size) {
				has_variable = true;
				assert_int_equal(mapping->prot,
						 PROT_READ | PROT_WRITE);
				assert_false(mapping->is_empty);
			}
			if ((uintptr_t)&len - mapping->start < size)
				has_local = mapping->prot & PROT_WRITE;
		}
		assert_true(has_code && has_variable && has_local);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_field_of_a_line_is_taken),
		cmocka_unit_test(damaged_lines_are_bad_data),
		cmocka_unit_test(smaps_tells_what_a_fork_leaves_out),
		cmocka_unit_test(smaps_tells_devices_and_empty_mappings),
		cmocka_unit_test(smaps_tells_huge_pages_and_who_may_have_them),
		cmocka_unit_test(
			maps_and_smaps_of_this_process_agree_with_its_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
