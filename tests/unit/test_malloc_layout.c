/* The table of malloc layouts against the real thing.
 * SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <gnu/libc-version.h>

#include "coredump/process_image.h"
#include "indexer/glibc/malloc_layout.h"
#include "indexer/glibc/work.h"
#include "tests/support/test_main.h"

static const struct hf_module *find_libc(const struct hf_image *image)
{
	size_t num;
	const struct hf_module *modules = hf_image_modules(image, &num);

	for (size_t i = 0; i < num; i++) {
		if (modules[i].path && strstr(modules[i].path, "/libc.so"))
			return &modules[i];
	}
	return NULL;
}

static uint32_t own_version(void)
{
	unsigned int major = 0, minor = 0;

	assert_int_equal(sscanf(gnu_get_libc_version(), "%u.%u", &major,
				&minor), 2);
	return major * 100 + minor;
}

static void version_is_found_in_this_process(void **state)
{
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	struct hf_malloc_versions versions;
	struct hf_work work = { 0 };
	bool has_own = false;

	(void)state;
	assert_hf_ok(hf_process_image_open(getpid(), NULL, 0, &image));
	assert_non_null(find_libc(image));
	assert_hf_ok(hf_malloc_versions_find(image, find_libc(image), false,
					     &work, &versions));
	assert_int_equal(versions.num, 1);
	assert_int_equal(versions.version[0], own_version());
	assert_string_equal(versions.text, gnu_get_libc_version());
	/* Without the texts: one of those with the same messages. */
	assert_hf_ok(hf_malloc_versions_find(image, find_libc(image), true,
					     &work, &versions));
	assert_true(versions.num > 0 && versions.num < 6);
	assert_string_equal(versions.text, "");
	for (size_t i = 0; i < versions.num; i++)
		has_own |= hf_malloc_layout_find(versions.version[i], NULL) ==
			   hf_malloc_layout_find(own_version(), NULL);
	assert_true(has_own);
}

/* On Debian 12 that is 2.36, with package libc6-dbg. */
static void table_is_what_libcs_debug_information_says(void **state)
{
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	bool exact = false;
	const struct hf_malloc_layout *table =
		hf_malloc_layout_find(own_version(), &exact);
	struct hf_malloc_layout dwarf;
	struct hf_error *err;

	(void)state;
	assert_true(exact);
	dwarf = (struct hf_malloc_layout){
		.version = table->version,
		.safe_linking = table->safe_linking,
		.mmap_tail = table->mmap_tail,
	};
	assert_hf_ok(hf_process_image_open(getpid(), NULL, 0, &image));
	err = hf_malloc_layout_from_dwarf(image, find_libc(image), &dwarf);
	if (err && err->code == HF_ERROR_NOT_FOUND) {
		hf_error_ignore(err);
		print_message("no debug symbols of libc here\n");
		skip();
	}
	assert_hf_ok(err);
#define SAME(field) assert_int_equal(dwarf.field, table->field)
	SAME(state_bytes);
	SAME(flags);
	SAME(fastbins);
	SAME(num_fastbins);
	SAME(top);
	SAME(bins);
	SAME(next);
	SAME(system_mem);
	SAME(par_bytes);
	SAME(hp_pagesize);
	SAME(n_mmaps);
	SAME(mmapped_mem);
	SAME(sbrk_base);
	SAME(tcache_bins);
	SAME(tcache_count);
	SAME(heap_info_bytes);
	SAME(tcache);
	SAME(tcache_bytes);
	SAME(tcache_count_bytes);
	SAME(tcache_entries);
	SAME(tcache_num);
#undef SAME
}

static void rows_fit_their_versions(void **state)
{
	bool exact;

	(void)state;
	assert_null(hf_malloc_layout_find(216, &exact));
	assert_int_equal(hf_malloc_layout_find(217, &exact)->version, 217);
	assert_true(exact);
	assert_int_equal(hf_malloc_layout_find(225, &exact)->version, 224);
	assert_int_equal(hf_malloc_layout_find(228, &exact)->version, 227);
	assert_int_equal(hf_malloc_layout_find(241, &exact)->version, 235);
	assert_int_equal(hf_malloc_layout_find(243, &exact)->version, 243);
	assert_true(exact);
	assert_int_equal(hf_malloc_layout_find(250, &exact)->version, 243);
	assert_false(exact);
	for (uint32_t v = 217; v <= 243; v++) {
		const struct hf_malloc_layout *l = hf_malloc_layout_find(v,
									 NULL);

		/* What must follow what, in every version. */
		assert_int_equal(l->next - l->bins, 2032 + 16);
		assert_true(l->state_bytes - l->system_mem == 16);
		assert_true(l->sbrk_base > l->mmapped_mem);
		assert_int_equal(l->tcache == HF_TCACHE_NONE, v < 226);
		assert_int_equal(l->safe_linking, v >= 232);
		assert_int_equal(l->num_fastbins == 0, v >= 243);
		assert_int_equal(l->heap_info_bytes, v < 235 ? 32 : 48);
		if (l->tcache != HF_TCACHE_NONE)
			assert_int_equal(l->tcache_bytes,
					 l->tcache_entries +
						 8 * l->tcache_num);
	}
}

static void every_row_is_valid(void **state)
{
	(void)state;
	for (uint32_t v = 217; v <= 243; v++) {
		const char *fault = hf_malloc_layout_fault(
			hf_malloc_layout_find(v, NULL));

		if (fault)
			print_message("2.%" PRIu32 ": %s\n", v % 100, fault);
		assert_null(fault);
	}
}

/* One field of a valid layout, changed. */
static void a_layout_with_one_bad_field_is_not_valid(void **state)
{
#define FIELD(name) offsetof(struct hf_malloc_layout, name)
	static const struct {
		size_t field;
		uint32_t value;
	} cases[] = {
		{ FIELD(state_bytes), 100 },
		{ FIELD(state_bytes), 0 },
		{ FIELD(state_bytes), 2184 },  /* no room for system_mem */
		{ FIELD(state_bytes), 2201 },
		{ FIELD(state_bytes), 65528 },
		{ FIELD(flags), 0 },           /* the mutex is there */
		{ FIELD(flags), 6 },
		{ FIELD(flags), 2198 },
		{ FIELD(fastbins), 12 },
		{ FIELD(fastbins), HF_NO_OFFSET },
		{ FIELD(num_fastbins), 0 },
		{ FIELD(num_fastbins), 11 },
		{ FIELD(num_fastbins), 0x20000000 },
		{ FIELD(top), 4000 },
		{ FIELD(top), 2196 },
		{ FIELD(top), HF_NO_OFFSET },
		{ FIELD(top), 99 },
		{ FIELD(bins), 176 },          /* ends behind the struct */
		{ FIELD(bins), 113 },
		{ FIELD(bins), 0xfffffff0 },
		{ FIELD(next), 120 },          /* one of the bins */
		{ FIELD(next), 2200 },
		{ FIELD(system_mem), 2160 },   /* next */
		{ FIELD(system_mem), HF_NO_OFFSET },
		{ FIELD(par_bytes), 128 - 8 },
		{ FIELD(par_bytes), 0 },
		{ FIELD(par_bytes), 65528 },
		{ FIELD(hp_pagesize), 132 },
		{ FIELD(n_mmaps), 128 },       /* its neighbours are outside */
		{ FIELD(n_mmaps), 8 },
		{ FIELD(mmapped_mem), 128 },
		{ FIELD(mmapped_mem), 84 },
		{ FIELD(sbrk_base), 65535 },
		{ FIELD(sbrk_base), 80 },
		{ FIELD(tcache_bins), 128 },
		{ FIELD(tcache_bins), HF_NO_OFFSET },
		{ FIELD(tcache_count), 136 },
		{ FIELD(tcache_count), HF_NO_OFFSET },
		{ FIELD(heap_info_bytes), 0 },
		{ FIELD(heap_info_bytes), 16 },
		{ FIELD(heap_info_bytes), 33 },
		{ FIELD(heap_info_bytes), 40 },
		{ FIELD(heap_info_bytes), 65520 },
		{ FIELD(tcache), HF_TCACHE_NONE },
		{ FIELD(tcache), 7 },
		{ FIELD(tcache_bytes), 632 },
		{ FIELD(tcache_bytes), 641 },
		{ FIELD(tcache_bytes), 65528 },
		{ FIELD(tcache_count_bytes), 0 },
		{ FIELD(tcache_count_bytes), 4 },
		{ FIELD(tcache_entries), 120 }, /* one of the counts */
		{ FIELD(tcache_entries), 132 },
		{ FIELD(tcache_entries), 640 },
		{ FIELD(tcache_num), 0 },
		{ FIELD(tcache_num), 65 },
		{ FIELD(tcache_num), 0x40000000 },
		{ FIELD(mmap_tail), 8 },
		{ FIELD(mmap_tail), 4096 },
	};
#undef FIELD

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct hf_malloc_layout layout = *hf_malloc_layout_find(236,
									NULL);

		memcpy((char *)&layout + cases[i].field, &cases[i].value, 4);
		if (!hf_malloc_layout_fault(&layout))
			print_message("field at %zu, value %" PRIu32 "\n",
				      cases[i].field, cases[i].value);
		assert_non_null(hf_malloc_layout_fault(&layout));
	}
}

static struct hf_error *from_file(const char *name,
				  struct hf_malloc_layout *layout)
{
	HF_AUTO_FREE char *path = NULL;
	HF_AUTO_FD int fd = -1;

	assert_true(asprintf(&path, "%s/%s", DEBUG_FILES, name) > 0);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	return hf_malloc_layout_from_file(fd, layout);
}

static void assert_same(const struct hf_malloc_layout *a,
			const struct hf_malloc_layout *b)
{
	assert_memory_equal(a, b, sizeof(*a));
}

static void a_file_tells_the_layout_or_changes_nothing(void **state)
{
	const struct hf_malloc_layout *table = hf_malloc_layout_find(236,
								     NULL);
	static const char *const bad[] = { "odd.so", "small.so" };
	struct hf_malloc_layout layout = *table;

	(void)state;
	/* All that it tells is told by it. */
	memset(&layout, 0x55, offsetof(struct hf_malloc_layout, safe_linking));
	layout.version = table->version;
	assert_hf_ok(from_file("counts.so", &layout));
	assert_same(&layout, table);

	assert_hf_ok(from_file("slots.so", &layout));
	assert_int_equal(layout.tcache, HF_TCACHE_SLOTS);
	assert_int_equal(layout.tcache_num, 76);
	assert_int_equal(layout.tcache_bytes, 760);
	assert_int_equal(layout.state_bytes, table->state_bytes);

	layout = *table;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct hf_error *err = from_file(bad[i], &layout);

		assert_non_null(err);
		assert_int_equal(err->code, HF_ERROR_BAD_DATA);
		hf_error_destroy(err);
		assert_same(&layout, table);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_row_is_valid),
		cmocka_unit_test(a_layout_with_one_bad_field_is_not_valid),
		cmocka_unit_test(a_file_tells_the_layout_or_changes_nothing),
		cmocka_unit_test(version_is_found_in_this_process),
		cmocka_unit_test(table_is_what_libcs_debug_information_says),
		cmocka_unit_test(rows_fit_their_versions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
