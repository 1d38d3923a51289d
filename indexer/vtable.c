/* Vtables: from the first word of an object to the name of its C++ class.
 * SPDX-License-Identifier: MIT */
#include "indexer/vtable.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "coredump/symbols.h"
#include "indexer/carve.h"
#include "indexer/demangle.h"

/* Itanium C++ ABI, section 2.5 (vtables) and 2.9 (run-time type information);
 * what a polymorphic object points to with its first word:
 *
 *        -16  offset to top: 0 in the vtable of a complete object
 *         -8  pointer to the type_info, or 0 (-fno-rtti)
 *   addr:  0  first virtual function
 *
 * type_info:
 *          0  vtable of the type_info class itself
 *          8  pointer to the mangled name, without _Z: "N3app7SessionE";
 *             a leading '*' marks a name local to its translation unit
 *
 * The symbol _ZTV… starts at the first vbase offset or at offset to top, so
 * addr is at least 16 behind it. */

enum { HF_MAX_CLASS_NAME = 1024 };

struct hf_vtables {
	const struct hf_image *image;
	const struct hf_module *modules; /* borrowed from image */
	size_t num_modules;
	struct hf_symbols **symbols;     /* num_modules; NULL: not opened yet */
	struct hf_claim *ranges;         /* of the modules; normalized */
	size_t num_ranges;
};

struct hf_error *hf_vtables_create(const struct hf_image *image,
				   struct hf_vtables **ret)
{
	HF_AUTO(hf_vtables) struct hf_vtables *vtables =
		calloc(1, sizeof(*vtables));

	if (!vtables)
		return &hf_enomem;
	vtables->image = image;
	vtables->modules = hf_image_modules(image, &vtables->num_modules);
	vtables->symbols =
		calloc(vtables->num_modules + 1, sizeof(*vtables->symbols));
	if (!vtables->symbols)
		return &hf_enomem;
	vtables->ranges =
		calloc(vtables->num_modules + 1, sizeof(*vtables->ranges));
	if (!vtables->ranges)
		return &hf_enomem;
	for (size_t i = 0; i < vtables->num_modules; i++)
		vtables->ranges[i].range = (struct hf_range){
			vtables->modules[i].start, vtables->modules[i].end
		};
	vtables->num_ranges =
		hf_claims_normalize(vtables->ranges, vtables->num_modules);
	*ret = HF_TAKE(vtables);
	return NULL;
}

void hf_vtables_destroy(struct hf_vtables *vtables)
{
	if (!vtables)
		return;
	for (size_t i = 0; vtables->symbols && i < vtables->num_modules; i++)
		hf_symbols_close(vtables->symbols[i]);
	free(vtables->symbols);
	free(vtables->ranges);
	free(vtables);
}

bool hf_vtables_maybe(const struct hf_vtables *vtables, uint64_t addr)
{
	size_t low = 0, high = vtables->num_ranges;

	if (addr % 8)
		return false;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (vtables->ranges[middle].range.end <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low < vtables->num_ranges &&
	       addr >= vtables->ranges[low].range.start;
}

/* The text behind `prefix` in a demangled name, which is freed. */
static char *strip_prefix(char *demangled, const char *prefix)
{
	char *name = NULL;

	if (demangled && !strncmp(demangled, prefix, strlen(prefix)))
		name = strdup(demangled + strlen(prefix));
	free(demangled);
	return name;
}

static struct hf_error *by_symbol(struct hf_vtables *vtables, size_t module,
				  uint64_t addr, char **name_ret)
{
	const struct hf_symbol *symbol;
	struct hf_error *err;

	if (!vtables->symbols[module]) {
		err = hf_symbols_open(vtables->image, &vtables->modules[module],
				      &vtables->symbols[module]);
		if (err)
			return err;
	}
	symbol = hf_symbols_at(vtables->symbols[module], addr);
	if (symbol && addr - symbol->addr >= 16 &&
	    !strncmp(symbol->name, "_ZTV", 4))
		*name_ret = strip_prefix(hf_demangle(symbol->name),
					 "vtable for ");
	return NULL;
}

static bool in_module(const struct hf_vtables *vtables, uint64_t addr)
{
	return hf_vtables_maybe(vtables, addr) &&
	       hf_image_find_module(vtables->image, addr);
}

static char *by_rtti(struct hf_vtables *vtables, uint64_t addr)
{
	char name[HF_MAX_CLASS_NAME], mangled[HF_MAX_CLASS_NAME + 8];
	uint64_t head[2], info[2];
	const char *start = name;

	if (addr < 16 || hf_image_read_some(vtables->image, addr - 16, head,
					    sizeof(head)) != sizeof(head))
		return NULL;
	if (head[0] != 0 || !in_module(vtables, head[1]))
		return NULL;
	if (hf_image_read_some(vtables->image, head[1], info, sizeof(info)) !=
	    sizeof(info))
		return NULL;
	/* The name is text in a module, of any alignment. */
	if (!in_module(vtables, info[0]) ||
	    !hf_image_find_module(vtables->image, info[1]) ||
	    !hf_image_peek_string(vtables->image, info[1], name, sizeof(name)))
		return NULL;
	if (*start == '*')
		start++;
	if (!*start)
		return NULL;
	for (const char *p = start; *p; p++)
		if (!isalnum((unsigned char)*p) && *p != '_' && *p != '.')
			return NULL;
	snprintf(mangled, sizeof(mangled), "_ZTI%s", start);
	return strip_prefix(hf_demangle(mangled), "typeinfo for ");
}

struct hf_error *hf_vtables_find(struct hf_vtables *vtables, uint64_t addr,
				 enum hf_vtable_how *how_ret, char **name_ret,
				 uint32_t *module_id_ret)
{
	const struct hf_module *module;
	char *name = NULL;
	struct hf_error *err;

	*how_ret = HF_VTABLE_NONE;
	if (!hf_vtables_maybe(vtables, addr))
		return NULL;
	module = hf_image_find_module(vtables->image, addr);
	if (!module)
		return NULL;
	err = by_symbol(vtables, (size_t)(module - vtables->modules), addr,
			&name);
	if (err)
		return err;
	if (name)
		*how_ret = HF_VTABLE_SYMBOL;
	else if ((name = by_rtti(vtables, addr)))
		*how_ret = HF_VTABLE_RTTI;
	else
		return NULL;
	*name_ret = name;
	*module_id_ret = (uint32_t)(module - vtables->modules);
	return NULL;
}
