/* The symbols of an ELF file, one after the other.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_ELF_SYMBOLS_H
#define HF_COREDUMP_ELF_SYMBOLS_H

#include <gelf.h>

#include "util/error.h"

/** @param name lives as long as the Elf. An error ends the walk. */
typedef struct hf_error *hf_elf_symbol_fn(void *arg, const GElf_Sym *symbol,
					  const char *name);

/**
 * Call fn for each defined symbol with a name and an address in the sections
 * of `section_type` (SHT_SYMTAB or SHT_DYNSYM): objects, commons, functions
 * and indirect functions; not TLS, absolute and untyped ones. What is damaged
 * is skipped.
 *
 * @param any_ret whether there is such a section with content.
 */
struct hf_error *hf_elf_symbol_for_each(Elf *elf, GElf_Word section_type,
					hf_elf_symbol_fn *fn, void *arg,
					bool *any_ret) HF_MUST_CHECK;

/** The same for the TLS variables: their value is an offset in the module's
 * block. */
struct hf_error *hf_elf_tls_symbol_for_each(Elf *elf, GElf_Word section_type,
					    hf_elf_symbol_fn *fn, void *arg,
					    bool *any_ret) HF_MUST_CHECK;

/** Begin to read an x86-64 ELF file. @return NULL if it is none; else release
 * with elf_end(). The descriptor must stay open. */
Elf *hf_elf_open(int fd);

HF_DEFINE_AUTO(Elf *, elf, elf_end)

#endif
