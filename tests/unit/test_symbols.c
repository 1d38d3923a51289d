/* Tests of symbols, against the running program itself.
 * SPDX-License-Identifier: MIT */
#include "coredump/symbols.h"

#include <setjmp.h>
#include <stdarg.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "coredump/process_image.h"
#include "coredump/symbols_internal.h"
#include "tests/support/test_main.h"

int hf_test_global_number = 42;
static int local_array[100] = { 1 };
extern int hf_test_alias_of_number
	__attribute__((alias("hf_test_global_number")));
static __thread int thread_local_number = 7;

/* Our own memory is no frozen image, but what is looked at does not move. */
struct fixture {
	struct hf_image *image;
};

static int open_self(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	assert_non_null(fixture);
	assert_hf_ok(hf_process_image_open(getpid(), NULL, 0,
					   &fixture->image));
	*state = fixture;
	return 0;
}

static int close_self(void **state)
{
	struct fixture *fixture = *state;

	hf_image_destroy(fixture->image);
	free(fixture);
	return 0;
}

static struct hf_symbols *symbols_around(const struct hf_image *image,
					 const void *ptr)
{
	const struct hf_module *module =
		hf_image_find_module(image, (uintptr_t)ptr);
	struct hf_symbols *symbols = NULL;

	assert_non_null(module);
	assert_hf_ok(hf_symbols_open(image, module, &symbols));
	return symbols;
}

static void finds_own_functions_and_variables(void **state)
{
	const struct fixture *fixture = *state;
	HF_AUTO(hf_symbols) struct hf_symbols *symbols =
		symbols_around(fixture->image, &hf_test_global_number);
	const struct hf_symbol *symbol;

	assert_int_equal(hf_symbols_source(symbols), HF_SYMBOLS_SYMTAB);
	symbol = hf_symbols_named(symbols, "local_array");
	assert_non_null(symbol);
	assert_int_equal(symbol->addr, (uintptr_t)local_array);
	assert_int_equal(symbol->size, sizeof(local_array));
	assert_true(symbol->is_data);
	assert_false(symbol->is_global);
	assert_ptr_equal(hf_symbols_at(symbols, (uintptr_t)&local_array[99]),
			 symbol);
	symbol = hf_symbols_at(symbols,
			       (uintptr_t)finds_own_functions_and_variables);
	assert_non_null(symbol);
	assert_string_equal(symbol->name, __func__);
	assert_false(symbol->is_data);
}

static void an_address_has_one_name_and_aliases_are_found(void **state)
{
	const struct fixture *fixture = *state;
	HF_AUTO(hf_symbols) struct hf_symbols *symbols =
		symbols_around(fixture->image, &hf_test_global_number);
	const struct hf_symbol *symbol, *alias;

	symbol = hf_symbols_at(symbols, (uintptr_t)&hf_test_global_number);
	assert_non_null(symbol);
	assert_string_equal(symbol->name, "hf_test_global_number");
	assert_true(symbol->is_global);
	alias = hf_symbols_named(symbols, "hf_test_alias_of_number");
	assert_non_null(alias);
	assert_int_equal(alias->addr, symbol->addr);
}

static void tls_symbols_are_left_out(void **state)
{
	const struct fixture *fixture = *state;
	HF_AUTO(hf_symbols) struct hf_symbols *symbols =
		symbols_around(fixture->image, &hf_test_global_number);

	assert_int_equal(thread_local_number, 7);
	assert_null(hf_symbols_named(symbols, "thread_local_number"));
}

static void libc_symbols_equal_those_of_dlsym(void **state)
{
	static const char *const names[] = {
		"malloc", "free", "qsort", "stdout", "environ", "lfind",
		"gnu_get_libc_version", "_IO_2_1_stdout_", "hcreate",
	};
	const struct fixture *fixture = *state;
	HF_AUTO(hf_symbols) struct hf_symbols *symbols =
		symbols_around(fixture->image, dlsym(RTLD_DEFAULT, "lfind"));
	size_t num_checked = 0;

	assert_true(hf_symbols_source(symbols) >= HF_SYMBOLS_DYNSYM);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct hf_symbol *symbol =
			hf_symbols_named(symbols, names[i]);
		const struct hf_module *module;
		void *truth = dlsym(RTLD_DEFAULT, names[i]);

		assert_non_null(symbol);
		/* The program or a sanitizer may have its own copy of it. */
		module = hf_image_find_module(fixture->image,
					      (uintptr_t)truth);
		if (module != hf_image_find_module(fixture->image,
						   symbol->addr))
			continue;
		assert_int_equal(symbol->addr, (uintptr_t)truth);
		num_checked++;
	}
	assert_true(num_checked >= 2);
}

static void symbols_are_sorted_inside_their_module_and_found(void **state)
{
	const struct fixture *fixture = *state;
	size_t num_modules, num_found = 0;
	const struct hf_module *modules =
		hf_image_modules(fixture->image, &num_modules);

	assert_true(num_modules >= 3);
	for (size_t m = 0; m < num_modules; m++) {
		HF_AUTO(hf_symbols) struct hf_symbols *symbols = NULL;
		const struct hf_symbol *all;
		size_t num;

		assert_hf_ok(hf_symbols_open(fixture->image, &modules[m],
					     &symbols));
		all = hf_symbols_all(symbols, &num);
		assert_int_equal(num == 0, hf_symbols_source(symbols) ==
				 HF_SYMBOLS_NONE);
		for (size_t i = 0; i < num; i++) {
			assert_true(all[i].addr >= modules[m].start);
			assert_true(all[i].addr < modules[m].end);
			assert_true(all[i].size <=
				    modules[m].end - all[i].addr);
			assert_true(!i || all[i - 1].addr < all[i].addr);
			assert_ptr_equal(hf_symbols_at(symbols, all[i].addr),
					 &all[i]);
			num_found++;
		}
	}
	assert_true(num_found > 1000);
}

static void lookup_agrees_with_brute_force(void **state)
{
	const struct fixture *fixture = *state;
	HF_AUTO(hf_symbols) struct hf_symbols *symbols =
		symbols_around(fixture->image, dlsym(RTLD_DEFAULT, "lfind"));
	const struct hf_symbol *all;
	size_t num;
	uint64_t addr;

	all = hf_symbols_all(symbols, &num);
	assert_true(num > 1000);
	addr = all[0].addr;
	for (int step = 0; step < 3000; step++) {
		const struct hf_symbol *truth = NULL;

		/* The innermost: the last start of those that contain it. */
		for (size_t i = 0; i < num && all[i].addr <= addr; i++)
			if (addr == all[i].addr ||
			    addr - all[i].addr < all[i].size)
				truth = &all[i];
		assert_ptr_equal(hf_symbols_at(symbols, addr), truth);
		addr += (all[num - 1].addr - all[0].addr) / 3000 + step % 7;
	}
}

static void no_file_gives_an_empty_table(void **state)
{
	const struct hf_module module = { .path = "/gone", .end = 4096 };
	HF_AUTO(hf_symbols) struct hf_symbols *symbols = NULL;
	size_t num;

	(void)state;
	assert_hf_ok(hf_symbols_from_files(&module, -1, -1, &symbols));
	assert_int_equal(hf_symbols_source(symbols), HF_SYMBOLS_NONE);
	hf_symbols_all(symbols, &num);
	assert_int_equal(num, 0);
	assert_null(hf_symbols_at(symbols, 0));
	assert_null(hf_symbols_named(symbols, "main"));
}

static void separate_debug_file_is_used_for_stripped_modules(void **state)
{
	const struct fixture *fixture = *state;
	const struct hf_module *module = hf_image_find_module(
		fixture->image, (uintptr_t)&hf_test_global_number);
	HF_AUTO(hf_symbols) struct hf_symbols *symbols = NULL;
	const struct hf_symbol *symbol;
	int debug_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	/* Our own file in the role of the debug file of a stripped one. */
	assert_true(debug_fd >= 0);
	assert_hf_ok(hf_symbols_from_files(module, -1, debug_fd, &symbols));
	assert_int_equal(hf_symbols_source(symbols), HF_SYMBOLS_DEBUG);
	symbol = hf_symbols_named(symbols, "local_array");
	assert_non_null(symbol);
	assert_int_equal(symbol->addr, (uintptr_t)local_array);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_own_functions_and_variables),
		cmocka_unit_test(an_address_has_one_name_and_aliases_are_found),
		cmocka_unit_test(tls_symbols_are_left_out),
		cmocka_unit_test(libc_symbols_equal_those_of_dlsym),
		cmocka_unit_test(
			symbols_are_sorted_inside_their_module_and_found),
		cmocka_unit_test(lookup_agrees_with_brute_force),
		cmocka_unit_test(no_file_gives_an_empty_table),
		cmocka_unit_test(
			separate_debug_file_is_used_for_stripped_modules),
	};

	return cmocka_run_group_tests(tests, open_self, close_self);
}
