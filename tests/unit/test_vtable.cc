// Tests of vtables and sections, against the running program itself.
// SPDX-License-Identifier: MIT
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <csetjmp>
#include <stdexcept>
#include <string>
#include <unistd.h>

extern "C" {
#include <cmocka.h>

#include "tests/unit/vtable_probe.h"
}

namespace shop
{
struct Item {
	virtual ~Item() = default;
	virtual int price() const { return 1; }
	long pad = 0;
};
struct Tax {
	virtual ~Tax() = default;
	virtual int rate() const { return 19; }
};
struct Book final : Item, Tax {
};
struct Root {
	virtual ~Root() = default;
	long depth = 0;
};
struct Leaf final : virtual Root {
};
template <class T, int N> struct Shelf final : Item {
	T content[N]{};
};
} // namespace shop

namespace
{
struct Hidden final : shop::Item { // a name local to this file
};
} // namespace

static uint64_t first_word(const void *object)
{
	uint64_t word;

	memcpy(&word, object, sizeof(word));
	return word;
}

static void expect(uint64_t word, const char *how, const char *name)
{
	char found[256] = "";

	assert_string_equal(hf_probe_vtable(word, found, sizeof(found)), how);
	assert_string_equal(found, name);
}

static void classes_are_named_by_their_vtable(void **)
{
	shop::Item item;
	shop::Book book;
	shop::Leaf leaf;
	shop::Shelf<long, 3> shelf;
	Hidden hidden;

	expect(first_word(&item), "symbol", "shop::Item");
	expect(first_word(&book), "symbol", "shop::Book");
	expect(first_word(&leaf), "symbol", "shop::Leaf");
	expect(first_word(&shelf), "symbol", "shop::Shelf<long, 3>");
	expect(first_word(&hidden), "symbol", "(anonymous namespace)::Hidden");
}

static void classes_of_libraries_are_named(void **)
{
	std::runtime_error error("x");

	expect(first_word(&error), "symbol", "std::runtime_error");
}

// What a stripped program still has: the type information in memory.
static void without_symbols_type_information_names_them(void **)
{
	shop::Book book;
	shop::Shelf<char, 7> shelf;
	Hidden hidden;

	hf_probe_ignore_symbols(1);
	expect(first_word(&book), "rtti", "shop::Book");
	expect(first_word(&shelf), "rtti", "shop::Shelf<char, 7>");
	expect(first_word(&hidden), "rtti", "(anonymous namespace)::Hidden");
	hf_probe_ignore_symbols(0);
}

static int table[4] = { 1, 2, 3, 4 };
static const char *const texts[2] = { "a", "b" };
static void (*const functions[])(void **) = {
	classes_are_named_by_their_vtable, classes_of_libraries_are_named
};

static void other_pointers_are_no_classes(void **)
{
	const void *const words[] = {
		table, texts, functions, "text in a module's constants",
		reinterpret_cast<const void *>(&other_pointers_are_no_classes),
		stdout, nullptr, reinterpret_cast<const void *>(~UINT64_C(7)),
	};

	for (const void *word : words)
		expect(reinterpret_cast<uint64_t>(word) & ~UINT64_C(7), "none",
		       "");
}

static int zeroed[1000];
static void *const relocated[1] = { zeroed };

static void sections_hold_the_variables_they_should(void **)
{
	char name[32];

	assert_true(hf_probe_section(table, name, sizeof(name)));
	assert_string_equal(name, ".data");
	assert_true(hf_probe_section(zeroed, name, sizeof(name)));
	assert_string_equal(name, ".bss");
	// Constant after relocation, but written once.
	assert_true(hf_probe_section(&relocated[0], name, sizeof(name)));
	assert_string_equal(name, ".data.rel.ro");
	assert_false(hf_probe_section("text", name, sizeof(name)));
}

int main()
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(classes_are_named_by_their_vtable),
		cmocka_unit_test(classes_of_libraries_are_named),
		cmocka_unit_test(without_symbols_type_information_names_them),
		cmocka_unit_test(other_pointers_are_no_classes),
		cmocka_unit_test(sections_hold_the_variables_they_should),
	};

	return cmocka_run_group_tests_name("vtable", tests, nullptr, nullptr);
}
