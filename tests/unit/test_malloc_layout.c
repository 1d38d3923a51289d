/* The table of malloc layouts against the real thing.
 * SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <gnu/libc-version.h>

#include "coredump/process_image.h"
#include "indexer/glibc/malloc_layout.h"
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
	bool has_own = false;

	(void)state;
	assert_hf_ok(hf_process_image_open(getpid(), NULL, 0, &image));
	assert_non_null(find_libc(image));
	assert_hf_ok(hf_malloc_versions_find(image, find_libc(image), false,
					     &versions));
	assert_int_equal(versions.num, 1);
	assert_int_equal(versions.version[0], own_version());
	assert_string_equal(versions.text, gnu_get_libc_version());
	/* Without the texts: one of those with the same messages. */
	assert_hf_ok(hf_malloc_versions_find(image, find_libc(image), true,
					     &versions));
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(version_is_found_in_this_process),
		cmocka_unit_test(table_is_what_libcs_debug_information_says),
		cmocka_unit_test(rows_fit_their_versions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
