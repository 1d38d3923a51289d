/* The symbols of an ELF file, one after the other.
 * SPDX-License-Identifier: MIT */
#include "coredump/elf_symbols.h"

Elf *hf_elf_open(int fd)
{
	HF_AUTO(elf) Elf *elf = NULL;
	GElf_Ehdr header;

	if (elf_version(EV_CURRENT) == EV_NONE)
		return NULL;
	/* Not mapped: the file is the target's, and a file that shrinks while
	 * it is mapped kills us. */
	elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!elf || elf_kind(elf) != ELF_K_ELF ||
	    gelf_getclass(elf) != ELFCLASS64 || !gelf_getehdr(elf, &header) ||
	    header.e_machine != EM_X86_64)
		return NULL;
	return HF_TAKE(elf);
}

static bool is_wanted(const GElf_Sym *symbol)
{
	switch (GELF_ST_TYPE(symbol->st_info)) {
	case STT_OBJECT:
	case STT_COMMON:
	case STT_FUNC:
	case STT_GNU_IFUNC:
		return symbol->st_shndx != SHN_UNDEF &&
		       symbol->st_shndx != SHN_ABS && symbol->st_name;
	default:
		return false;
	}
}

static bool is_tls(const GElf_Sym *symbol)
{
	return GELF_ST_TYPE(symbol->st_info) == STT_TLS &&
	       symbol->st_shndx != SHN_UNDEF && symbol->st_name;
}

static struct hf_error *walk_section(Elf *elf, Elf_Scn *section,
				     const GElf_Shdr *header, bool want_tls,
				     hf_elf_symbol_fn *fn, void *arg,
				     bool *any_ret)
{
	Elf_Data *data = elf_getdata(section, NULL);
	size_t num;

	/* d_size is what was really read; sh_size is only a claim. */
	if (!data || !data->d_buf || data->d_type != ELF_T_SYM)
		return NULL;
	num = data->d_size / sizeof(Elf64_Sym);
	for (size_t i = 0; i < num && i <= INT32_MAX; i++) {
		GElf_Sym symbol;
		const char *name;
		struct hf_error *err;

		if (!gelf_getsym(data, (int)i, &symbol))
			break;
		*any_ret = true;
		if (!(want_tls ? is_tls(&symbol) : is_wanted(&symbol)))
			continue;
		name = elf_strptr(elf, header->sh_link, symbol.st_name);
		if (!name || !*name)
			continue;
		err = fn(arg, &symbol, name);
		if (err)
			return err;
	}
	return NULL;
}

static struct hf_error *walk(Elf *elf, GElf_Word section_type, bool want_tls,
			     hf_elf_symbol_fn *fn, void *arg, bool *any_ret)
{
	Elf_Scn *section = NULL;

	*any_ret = false;
	while ((section = elf_nextscn(elf, section))) {
		GElf_Shdr header;
		struct hf_error *err;

		if (!gelf_getshdr(section, &header) ||
		    header.sh_type != section_type)
			continue;
		err = walk_section(elf, section, &header, want_tls, fn, arg,
				   any_ret);
		/* A file has one section of each type; a hostile one may have
		 * thousands that share their bytes. */
		if (err || *any_ret)
			return err;
	}
	return NULL;
}

struct hf_error *hf_elf_symbol_for_each(Elf *elf, GElf_Word section_type,
					hf_elf_symbol_fn *fn, void *arg,
					bool *any_ret)
{
	return walk(elf, section_type, false, fn, arg, any_ret);
}

struct hf_error *hf_elf_tls_symbol_for_each(Elf *elf, GElf_Word section_type,
					    hf_elf_symbol_fn *fn, void *arg,
					    bool *any_ret)
{
	return walk(elf, section_type, true, fn, arg, any_ret);
}
