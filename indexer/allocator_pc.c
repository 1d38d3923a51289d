/* Allocator pc: which threads were stopped inside malloc or free.
 * SPDX-License-Identifier: MIT */
#include "indexer/allocator_pc.h"

#include <string.h>

#include "coredump/symbols.h"

/* glibc's malloc is one object file, malloc/malloc.c, and lies in one piece in
 * libc's text: first its static functions (_int_malloc, _int_free, sysmalloc,
 * ...), then the exported ones (glibc 2.36, read with nm from libc6-dbg). A
 * stripped libc still exports the second half, which tells where the first
 * one must be. */

enum {
	HF_MAX_SPREAD = 64 << 10,   /* the exported half is smaller */
	HF_STATIC_FUNCTIONS = 16 << 10 /* and the static one than this */
};

/* Functions of malloc.c that every glibc exports. */
static const char *const exported[] = {
	"malloc", "free", "calloc", "realloc", "malloc_usable_size",
	"malloc_trim", "mallopt", "mallinfo", "malloc_info",
};

/* The code of malloc in a module, or an empty range. */
static struct hf_range allocator_code(const struct hf_symbols *symbols)
{
	struct hf_range code = { UINT64_MAX, 0 };

	for (size_t i = 0; i < sizeof(exported) / sizeof(*exported); i++) {
		const struct hf_symbol *s =
			hf_symbols_named(symbols, exported[i]);

		if (!s || s->is_data || !s->size)
			continue;
		if (s->addr < code.start)
			code.start = s->addr;
		if (s->addr + s->size > code.end)
			code.end = s->addr + s->size;
	}
	if (code.start >= code.end || code.end - code.start > HF_MAX_SPREAD ||
	    code.start < HF_STATIC_FUNCTIONS)
		return (struct hf_range){ 0, 0 };
	code.start -= HF_STATIC_FUNCTIONS;
	return code;
}

static struct hf_error *check_module(const struct hf_image *image,
				     const struct hf_module *module,
				     enum hf_in_allocator *ret)
{
	HF_AUTO(hf_symbols) struct hf_symbols *symbols = NULL;
	size_t num;
	const struct hf_thread *threads = hf_image_threads(image, &num);
	struct hf_error *err = hf_symbols_open(image, module, &symbols);
	struct hf_range code;

	if (err)
		return err;
	code = allocator_code(symbols);
	for (size_t i = 0; i < num; i++) {
		uint64_t pc = threads[i].regs.rip;

		if (hf_image_find_module(image, pc) != module)
			continue;
		if (hf_symbols_source(symbols) == HF_SYMBOLS_NONE)
			ret[i] = HF_IN_ALLOCATOR_UNKNOWN;
		else if (pc - code.start < code.end - code.start)
			ret[i] = HF_IN_ALLOCATOR;
		else
			ret[i] = HF_NOT_IN_ALLOCATOR;
	}
	return NULL;
}

struct hf_error *hf_in_allocator(const struct hf_image *image,
				 enum hf_in_allocator *ret)
{
	size_t num_threads, num_modules;
	const struct hf_thread *threads =
		hf_image_threads(image, &num_threads);
	const struct hf_module *modules =
		hf_image_modules(image, &num_modules);

	for (size_t i = 0; i < num_threads; i++)
		ret[i] = HF_IN_ALLOCATOR_UNKNOWN;
	for (size_t m = 0; m < num_modules; m++) {
		bool wanted = false;
		struct hf_error *err;

		for (size_t i = 0; i < num_threads; i++)
			wanted |= hf_image_find_module(image,
						       threads[i].regs.rip) ==
				  &modules[m];
		err = wanted ? check_module(image, &modules[m], ret) : NULL;
		if (err)
			return err;
	}
	return NULL;
}
