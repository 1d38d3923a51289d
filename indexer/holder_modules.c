/* Root holders of modules: global variables, or what a section has of them.
 * SPDX-License-Identifier: MIT */
#include "indexer/holder_internal.h"

#include <stdio.h>
#include <string.h>

#include "coredump/sections.h"
#include "coredump/symbols.h"
#include "indexer/demangle.h"

/* A claim's `data`: index of a symbol, or of a section with this bit. */
#define SECTION_BIT (UINT32_C(1) << 31)

struct module_claims {
	const struct hf_module *module;
	uint32_t module_id;
	const struct hf_symbol *symbols;
	const struct hf_section *sections;
	struct hf_holder_list *holders;
	HF_ARRAY(struct hf_claim) claims;
};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static char *section_text(const char *path, const char *section)
{
	char *text;

	if (asprintf(&text, "%s %s", base_name(path), section) < 0)
		return NULL;
	return text;
}

static struct hf_error *took_part(void *arg, uint32_t data,
				  struct hf_range part)
{
	struct module_claims *mc = arg;
	struct hf_holder holder = {
		.kind = HF_HOLDER_GLOBAL,
		.range = part,
		.thread_index = UINT32_MAX,
		.frame = UINT32_MAX,
		.module_id = mc->module_id,
	};

	/* Padding between variables has no room for a pointer. */
	if ((part.start + 7) / 8 >= part.end / 8)
		return NULL;
	if (data & SECTION_BIT)
		holder.name = section_text(
			mc->module->path,
			mc->sections[data & ~SECTION_BIT].name);
	else
		holder.name = hf_demangle_or_copy(mc->symbols[data].name);
	return hf_holder_list_take(mc->holders, &holder);
}

static struct hf_error *add_claim(struct module_claims *mc, uint64_t start,
				  uint64_t end, uint32_t data)
{
	struct hf_claim claim = { { start, end }, data };

	return start < end ? hf_array_append(&mc->claims, claim) : NULL;
}

/* Cut a section at the variables in it; *next_symbol moves on. */
static struct hf_error *cut_section(struct module_claims *mc, uint32_t index,
				    size_t num_symbols, size_t *next_symbol)
{
	struct hf_range left = mc->sections[index].range;
	struct hf_error *err = NULL;

	for (; !err && *next_symbol < num_symbols; ++*next_symbol) {
		const struct hf_symbol *s = &mc->symbols[*next_symbol];
		uint64_t end;

		if (s->addr >= left.end)
			break;
		if (!s->is_data || s->addr < left.start || !s->size ||
		    __builtin_add_overflow(s->addr, s->size, &end))
			continue;
		if (end > left.end)
			end = left.end;
		err = add_claim(mc, left.start, s->addr, index | SECTION_BIT);
		if (!err)
			err = add_claim(mc, s->addr, end,
					(uint32_t)*next_symbol);
		left.start = end;
	}
	return err ? err
		   : add_claim(mc, left.start, left.end, index | SECTION_BIT);
}

static struct hf_error *of_module(const struct hf_image *image,
				  const struct hf_module *module,
				  uint32_t module_id,
				  struct hf_ranges *free_ranges,
				  struct hf_holder_list *holders)
{
	HF_AUTO(hf_symbols) struct hf_symbols *symbols = NULL;
	HF_AUTO_FREE struct hf_section *sections = NULL;
	struct module_claims mc = { .module = module, .module_id = module_id,
				    .holders = holders };
	size_t num_symbols, num_sections, next_symbol = 0;
	struct hf_error *err;

	err = hf_sections_read(image, module, &sections, &num_sections);
	if (err)
		return err;
	err = hf_symbols_open(image, module, &symbols);
	if (err)
		return err;
	mc.sections = sections;
	mc.symbols = hf_symbols_all(symbols, &num_symbols);
	for (size_t i = 0; !err && i < num_sections; i++)
		err = cut_section(&mc, (uint32_t)i, num_symbols, &next_symbol);
	if (!err) {
		size_t num = hf_claims_normalize(mc.claims.data, mc.claims.num);

		err = hf_carve(free_ranges, mc.claims.data, num, took_part,
			       &mc);
	}
	hf_array_deinit(&mc.claims);
	return err;
}

/* Whatever of a module's own mappings no section explained: modules whose
 * file is gone, or has no section table. */
struct rest {
	const struct hf_image *image;
	struct hf_holder_list *holders;
};

static struct hf_error *took_rest(void *arg, uint32_t data,
				  struct hf_range part)
{
	struct rest *rest = arg;
	size_t num;
	const struct hf_module *module =
		&hf_image_modules(rest->image, &num)[data];
	struct hf_holder holder = {
		.kind = HF_HOLDER_GLOBAL,
		.range = part,
		.thread_index = UINT32_MAX,
		.frame = UINT32_MAX,
		.module_id = data,
	};

	if (!hf_resident_bytes(rest->image, part))
		return NULL;
	holder.name = section_text(module->path, "data");
	return hf_holder_list_take(rest->holders, &holder);
}

static struct hf_error *of_rest(const struct hf_image *image,
				struct hf_ranges *free_ranges,
				struct hf_holder_list *holders)
{
	struct rest rest = { image, holders };
	HF_ARRAY(struct hf_claim) claims = { 0 };
	struct hf_error *err = NULL;
	size_t num;
	const struct hf_segment *segments = hf_image_segments(image, &num);

	for (size_t i = 0; !err && i < num; i++) {
		struct hf_claim claim = { { segments[i].start,
					    segments[i].end },
					  segments[i].module_id };

		if (segments[i].module_id != HF_NO_MODULE)
			err = hf_array_append(&claims, claim);
	}
	if (!err)
		err = hf_carve(free_ranges, claims.data,
			       hf_claims_normalize(claims.data, claims.num),
			       took_rest, &rest);
	hf_array_deinit(&claims);
	return err;
}

struct hf_error *hf_holders_of_modules(const struct hf_image *image,
				       struct hf_ranges *free_ranges,
				       struct hf_holder_list *holders,
				       const struct hf_progress *progress)
{
	size_t num;
	const struct hf_module *modules = hf_image_modules(image, &num);

	for (size_t i = 0; i < num; i++) {
		struct hf_error *err =
			hf_progress_update(progress, "roots", i, num);

		if (!err)
			err = of_module(image, &modules[i], (uint32_t)i,
					free_ranges, holders);
		if (err)
			return err;
	}
	return of_rest(image, free_ranges, holders);
}
