/* TLS of a module: its variables, and where its blocks are.
 * SPDX-License-Identifier: MIT */
#include "coredump/tls_module.h"

#include <string.h>

#include "coredump/debug_file.h"
#include "coredump/elf_symbols.h"
#include "coredump/image_internal.h"

/* Two relocations tell where a module's blocks are (System V ABI for x86-64,
 * table 4.10; "ELF handling for thread-local storage", 3.4.6):
 *
 *	R_X86_64_DTPMOD64  the word is the id of the module
 *	R_X86_64_TPOFF64   the word is the distance of a variable from the
 *	                   thread pointer: S + A - below
 *
 * Both words stand in the module's memory. A symbol that is not defined here,
 * or could be another module's, proves nothing. Whoever uses the result
 * compares it with the threads' dtv. */

enum { MAX_VARIABLES = 65536 };

struct reader {
	const struct hf_image *image;
	const struct hf_module *module;
	struct hf_tls_module *tls;
};

static struct hf_error *take_variable(void *arg, const GElf_Sym *symbol,
				      const char *name)
{
	struct reader *reader = arg;
	struct hf_tls_variable variable = {
		.offset = symbol->st_value, .size = symbol->st_size,
	};
	struct hf_error *err;

	if (!variable.size || !name[0] ||
	    variable.offset >= reader->module->tls_bytes ||
	    variable.size > reader->module->tls_bytes - variable.offset ||
	    reader->tls->variables.num == MAX_VARIABLES)
		return NULL;
	variable.name = strdup(name);
	if (!variable.name)
		return &hf_enomem;
	err = hf_array_append(&reader->tls->variables, variable);
	if (err)
		free(variable.name);
	return err;
}

static void take_relocation(struct reader *reader, Elf_Data *symbols,
			    const GElf_Rela *rela)
{
	uint64_t type = GELF_R_TYPE(rela->r_info), value = 0, word;
	size_t index = GELF_R_SYM(rela->r_info);
	uint64_t addr = reader->module->bias + rela->r_offset;
	GElf_Sym symbol;

	if (type != R_X86_64_DTPMOD64 && type != R_X86_64_TPOFF64)
		return;
	if (index) {
		if (!symbols || !gelf_getsym(symbols, (int)index, &symbol) ||
		    symbol.st_shndx == SHN_UNDEF ||
		    GELF_ST_BIND(symbol.st_info) != STB_LOCAL)
			return;
		value = symbol.st_value;
	}
	if (hf_image_read_some(reader->image, addr, &word, sizeof(word)) !=
	    sizeof(word))
		return;
	if (type == R_X86_64_DTPMOD64)
		reader->tls->id = word;
	else
		reader->tls->below = value + (uint64_t)rela->r_addend - word;
}

static void take_relocations(struct reader *reader, Elf *elf)
{
	for (Elf_Scn *section = elf_nextscn(elf, NULL); section;
	     section = elf_nextscn(elf, section)) {
		Elf_Data *data, *symbols = NULL;
		Elf_Scn *linked;
		GElf_Shdr header;
		GElf_Rela rela;
		size_t num;

		if (!gelf_getshdr(section, &header) ||
		    header.sh_type != SHT_RELA || !header.sh_entsize)
			continue;
		data = elf_getdata(section, NULL);
		linked = elf_getscn(elf, header.sh_link);
		if (linked && header.sh_link)
			symbols = elf_getdata(linked, NULL);
		num = data ? data->d_size / sizeof(Elf64_Rela) : 0;
		for (size_t i = 0; i < num && i < INT32_MAX; i++)
			if (gelf_getrela(data, (int)i, &rela))
				take_relocation(reader, symbols, &rela);
	}
}

static int compare_variables(const void *a, const void *b)
{
	const struct hf_tls_variable *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* Of those that overlap the first. */
static void arrange(struct hf_tls_module *tls)
{
	struct hf_tls_variable *all = tls->variables.data;
	size_t num = 0;

	if (!tls->variables.num)
		return;
	qsort(all, tls->variables.num, sizeof(*all), compare_variables);
	for (size_t i = 0; i < tls->variables.num; i++) {
		if (num && all[i].offset <
				   all[num - 1].offset + all[num - 1].size)
			free(all[i].name);
		else
			all[num++] = all[i];
	}
	tls->variables.num = num;
}

/* Names from .symtab, else from that of the debug file; and from .dynsym. */
static struct hf_error *take_variables(struct reader *reader, Elf *elf)
{
	HF_AUTO_FD int fd = -1;
	HF_AUTO(elf) Elf *debug = NULL;
	struct hf_error *err = NULL;
	bool any = false;

	if (elf)
		err = hf_elf_tls_symbol_for_each(elf, SHT_SYMTAB,
						 take_variable, reader, &any);
	if (!err && !any) {
		fd = hf_debug_file_open(reader->image, reader->module);
		debug = fd >= 0 ? hf_elf_open(fd) : NULL;
	}
	if (!err && debug)
		err = hf_elf_tls_symbol_for_each(debug, SHT_SYMTAB,
						 take_variable, reader, &any);
	if (!err && elf)
		err = hf_elf_tls_symbol_for_each(elf, SHT_DYNSYM,
						 take_variable, reader, &any);
	return err;
}

struct hf_error *hf_tls_module_read(const struct hf_image *image,
				    const struct hf_module *module,
				    struct hf_tls_module *ret)
{
	struct hf_tls_module tls = { .id = 0 };
	struct reader reader = { image, module, &tls };
	HF_AUTO_FD int fd = -1;
	HF_AUTO(elf) Elf *elf = NULL;
	struct hf_error *err;

	*ret = tls;
	if (!module->tls_bytes)
		return NULL;
	hf_error_ignore(hf_image_open_module(image, module, &fd));
	elf = fd >= 0 ? hf_elf_open(fd) : NULL;
	if (elf)
		take_relocations(&reader, elf);
	err = take_variables(&reader, elf);
	arrange(&tls);
	if (err)
		hf_tls_module_deinit(&tls);
	else
		*ret = tls;
	return err;
}

void hf_tls_module_deinit(struct hf_tls_module *tls)
{
	for (size_t i = 0; i < tls->variables.num; i++)
		free(tls->variables.data[i].name);
	hf_array_deinit(&tls->variables);
}
