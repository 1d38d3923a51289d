/* What the C++ test of vtables may ask; the product's headers are C.
 * SPDX-License-Identifier: MIT */
#include "tests/unit/vtable_probe.h"

#include <stdio.h>

#include "coredump/process_image.h"
#include "coredump/sections.h"
#include "coredump/symbols.h"
#include "indexer/vtable.h"
#include "tests/support/test_main.h"

/* Our own memory is no frozen image, but what is looked at does not move. */

static int symbols_ignored;

void hf_probe_ignore_symbols(int ignore)
{
	symbols_ignored = ignore;
}

/* Linked in front of the library's (-Wl,--wrap). */
const struct hf_symbol *__real_hf_symbols_at(const struct hf_symbols *symbols,
					     uint64_t addr);
const struct hf_symbol *__wrap_hf_symbols_at(const struct hf_symbols *symbols,
					     uint64_t addr);

const struct hf_symbol *__wrap_hf_symbols_at(const struct hf_symbols *symbols,
					     uint64_t addr)
{
	return symbols_ignored ? NULL : __real_hf_symbols_at(symbols, addr);
}

const char *hf_probe_vtable(uint64_t word, char *buf, size_t size)
{
	static const char *const texts[] = {
		[HF_VTABLE_NONE] = "none",
		[HF_VTABLE_SYMBOL] = "symbol",
		[HF_VTABLE_RTTI] = "rtti",
	};
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	HF_AUTO(hf_vtables) struct hf_vtables *vtables = NULL;
	HF_AUTO_FREE char *name = NULL;
	enum hf_vtable_how how;
	uint32_t module_id;

	assert_hf_ok(hf_process_image_open(getpid(), NULL, 0, &image));
	assert_hf_ok(hf_vtables_create(image, &vtables));
	assert_hf_ok(hf_vtables_find(vtables, word, &how, &name, &module_id));
	if (name)
		snprintf(buf, size, "%s", name);
	return texts[how];
}

int hf_probe_section(const void *ptr, char *buf, size_t size)
{
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	HF_AUTO_FREE struct hf_section *sections = NULL;
	uint64_t addr = (uintptr_t)ptr;
	const struct hf_module *module;
	size_t num;

	assert_hf_ok(hf_process_image_open(getpid(), NULL, 0, &image));
	module = hf_image_find_module(image, addr);
	if (!module) {
		/* .bss lies behind the mappings of the file. */
		const struct hf_module *all = hf_image_modules(image, &num);

		module = num ? &all[0] : NULL;
	}
	if (!module)
		return 0;
	assert_hf_ok(hf_sections_read(image, module, &sections, &num));
	for (size_t i = 0; i < num; i++) {
		if (addr - sections[i].range.start >=
		    sections[i].range.end - sections[i].range.start)
			continue;
		snprintf(buf, size, "%s", sections[i].name);
		return 1;
	}
	return 0;
}
