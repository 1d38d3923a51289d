/* Symbols of one module, by address.
 * SPDX-License-Identifier: MIT */
#include "coredump/symbols.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "coredump/debug_file.h"
#include "coredump/elf_symbols.h"
#include "coredump/image_internal.h"
#include "coredump/symbols_internal.h"

/* Of symbols at one address one is shown, so that an address has one name; the
 * others (environ for __environ) are kept behind them to be found by name.
 * What is shown is sorted, but may still be nested (a label with a size inside
 * a function): each symbol knows the last one before it that reaches beyond
 * its start, and a lookup goes outwards along these.
 *
 *      a              0..........9
 *      b                12         outer: a
 *      c                    45     outer: a
 *   lookup of 7: last start <= 7 is c; not in c; outer is a: found */

enum {
	NO_OUTER = -1,
	/* Real files nest two or three deep. */
	MAX_NESTING = 64,
	/* The largest programs have a few millions. */
	MAX_SYMBOLS = 1 << 26,
};

struct symbol_file {
	int fd;   /* -1: none */
	Elf *elf; /* names point into it */
};

struct hf_symbols {
	struct symbol_file file, debug;
	enum hf_symbols_source source;
	HF_ARRAY(struct hf_symbol) all; /* sorted by address, no two alike;
					 * then the others, as aliases */
	size_t num_aliases;             /* behind the all.num symbols */
	int32_t *outer;                 /* all.num entries */
};

struct collector {
	struct hf_symbols *symbols;
	const struct hf_module *module;
};

static struct hf_error *collect(void *arg, const GElf_Sym *symbol,
				const char *name)
{
	struct collector *collector = arg;
	const struct hf_module *module = collector->module;
	uint64_t addr = module->bias + symbol->st_value;
	unsigned int bind = GELF_ST_BIND(symbol->st_info);
	unsigned int type = GELF_ST_TYPE(symbol->st_info);
	struct hf_symbol entry;

	if (addr < module->start || addr >= module->end ||
	    collector->symbols->all.num == MAX_SYMBOLS)
		return NULL;
	entry = (struct hf_symbol){
		.addr = addr,
		.size = hf_min_u64(symbol->st_size, module->end - addr),
		.name = name,
		.is_data = type == STT_OBJECT || type == STT_COMMON,
		.is_global = bind == STB_GLOBAL || bind == STB_WEAK ||
			     bind == STB_GNU_UNIQUE,
	};
	return hf_array_append(&collector->symbols->all, entry);
}

/* By address; of equal ones the best first. */
static int compare_symbols(const void *a, const void *b)
{
	const struct hf_symbol *x = a, *y = b;
	size_t x_len, y_len;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	if (x->is_global != y->is_global)
		return x->is_global ? -1 : 1;
	if (x->size != y->size)
		return x->size > y->size ? -1 : 1;
	x_len = strlen(x->name);
	y_len = strlen(y->name);
	if (x_len != y_len)
		return x_len < y_len ? -1 : 1;
	return strcmp(x->name, y->name);
}

static bool contains(const struct hf_symbol *symbol, uint64_t addr)
{
	return symbol->addr == addr || addr - symbol->addr < symbol->size;
}

static struct hf_error *arrange(struct hf_symbols *symbols)
{
	HF_AUTO_FREE struct hf_symbol *aliases = NULL;
	struct hf_symbol *all = symbols->all.data;
	size_t num = 0;

	if (!symbols->all.num)
		return NULL;
	qsort(all, symbols->all.num, sizeof(*all), compare_symbols);
	aliases = malloc(symbols->all.num * sizeof(*aliases));
	if (!aliases)
		return &hf_enomem;
	for (size_t i = 0; i < symbols->all.num; i++) {
		if (!num || all[num - 1].addr != all[i].addr)
			all[num++] = all[i];
		else
			aliases[symbols->num_aliases++] = all[i];
	}
	memcpy(all + num, aliases, symbols->num_aliases * sizeof(*aliases));
	symbols->all.num = num;
	symbols->outer = malloc(num * sizeof(*symbols->outer));
	if (!symbols->outer)
		return &hf_enomem;
	for (size_t i = 0; i < num; i++) {
		/* What does not reach here reaches no later symbol either, so
		 * the total number of steps is linear. */
		int32_t outer = (int32_t)i - 1;

		while (outer != NO_OUTER && !contains(&all[outer], all[i].addr))
			outer = symbols->outer[outer];
		symbols->outer[i] = outer;
	}
	return NULL;
}

static struct hf_error *take_symbols(struct hf_symbols *symbols,
				     const struct hf_module *module)
{
	struct collector collector = { symbols, module };
	struct hf_error *err;
	bool any;

	if (symbols->file.elf) {
		err = hf_elf_symbol_for_each(symbols->file.elf, SHT_DYNSYM,
					     collect, &collector, &any);
		if (err)
			return err;
		if (any)
			symbols->source = HF_SYMBOLS_DYNSYM;
		err = hf_elf_symbol_for_each(symbols->file.elf, SHT_SYMTAB,
					     collect, &collector, &any);
		if (err)
			return err;
		if (any) {
			symbols->source = HF_SYMBOLS_SYMTAB;
			return NULL;
		}
	}
	if (symbols->debug.elf) {
		err = hf_elf_symbol_for_each(symbols->debug.elf, SHT_SYMTAB,
					     collect, &collector, &any);
		if (err)
			return err;
		if (any)
			symbols->source = HF_SYMBOLS_DEBUG;
	}
	return NULL;
}

struct hf_error *hf_symbols_from_files(const struct hf_module *module, int fd,
				       int debug_fd, struct hf_symbols **ret)
{
	HF_AUTO(hf_symbols) struct hf_symbols *symbols =
		calloc(1, sizeof(*symbols));
	struct hf_error *err;

	if (!symbols) {
		if (fd >= 0)
			close(fd);
		if (debug_fd >= 0)
			close(debug_fd);
		return &hf_enomem;
	}
	symbols->file.fd = fd;
	symbols->debug.fd = debug_fd;
	if (fd >= 0)
		symbols->file.elf = hf_elf_open(fd);
	if (debug_fd >= 0)
		symbols->debug.elf = hf_elf_open(debug_fd);
	err = take_symbols(symbols, module);
	if (!err)
		err = arrange(symbols);
	if (err)
		return err;
	*ret = HF_TAKE(symbols);
	return NULL;
}

struct hf_error *hf_symbols_open(const struct hf_image *image,
				 const struct hf_module *module,
				 struct hf_symbols **ret)
{
	int fd = -1;
	struct hf_error *err = hf_image_open_module(image, module, &fd);

	if (err && err->code == HF_ERROR_NO_MEMORY)
		return err;
	/* Deleted, replaced, or the vdso: the build id may still lead to the
	 * debug file. */
	hf_error_ignore(err);
	return hf_symbols_from_files(module, fd,
				     hf_debug_file_open(image, module), ret);
}

static void close_file(struct symbol_file *file)
{
	elf_end(file->elf);
	if (file->fd >= 0)
		close(file->fd);
}

void hf_symbols_close(struct hf_symbols *symbols)
{
	if (!symbols)
		return;
	close_file(&symbols->file);
	close_file(&symbols->debug);
	hf_array_deinit(&symbols->all);
	free(symbols->outer);
	free(symbols);
}

enum hf_symbols_source hf_symbols_source(const struct hf_symbols *symbols)
{
	return symbols->source;
}

const struct hf_symbol *hf_symbols_all(const struct hf_symbols *symbols,
				       size_t *num_ret)
{
	*num_ret = symbols->all.num;
	return symbols->all.data;
}

const struct hf_symbol *hf_symbols_at(const struct hf_symbols *symbols,
				      uint64_t addr)
{
	size_t low = 0, high = symbols->all.num;
	int32_t i;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (symbols->all.data[mid].addr <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	i = (int32_t)low - 1;
	for (int depth = 0; i != NO_OUTER && depth < MAX_NESTING; depth++) {
		if (contains(&symbols->all.data[i], addr))
			return &symbols->all.data[i];
		i = symbols->outer[i];
	}
	return NULL;
}

const struct hf_symbol *hf_symbols_named(const struct hf_symbols *symbols,
					 const char *name)
{
	for (size_t i = 0; i < symbols->all.num + symbols->num_aliases; i++)
		if (!strcmp(symbols->all.data[i].name, name))
			return &symbols->all.data[i];
	return NULL;
}
