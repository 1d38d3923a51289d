/* Symbols of one module, by address.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_SYMBOLS_H
#define HF_COREDUMP_SYMBOLS_H

#include "coredump/image.h"

struct hf_symbol {
	uint64_t addr;    /* in the target (bias added) */
	uint64_t size;    /* bytes, 0 if the file does not say */
	const char *name; /* as in the file; owned by the symbols */
	bool is_data;     /* STT_OBJECT or STT_COMMON; else a function */
	bool is_global;   /* STB_GLOBAL, STB_WEAK or STB_GNU_UNIQUE */
};

struct hf_symbols;

/** Where the names come from. */
enum hf_symbols_source {
	HF_SYMBOLS_NONE,    /* stripped, and no debug file: no symbols at all */
	HF_SYMBOLS_DYNSYM,  /* only what the module exports */
	HF_SYMBOLS_SYMTAB,  /* the module's own .symtab */
	HF_SYMBOLS_DEBUG,   /* separate debug file, found by build id */
};

/**
 * Data and function symbols with an address, sorted by address, from .symtab,
 * else from the separate debug file /usr/lib/debug/.build-id, merged with
 * .dynsym. TLS symbols are left out: they have no address. Of several at one
 * address the table has one: a global before a local one, then the longer,
 * then that with the shortest name.
 *
 * A module without a readable file gives an empty table, not an error.
 */
struct hf_error *hf_symbols_open(const struct hf_image *image,
				 const struct hf_module *module,
				 struct hf_symbols **ret) HF_MUST_CHECK;
void hf_symbols_close(struct hf_symbols *symbols);

enum hf_symbols_source hf_symbols_source(const struct hf_symbols *symbols);

const struct hf_symbol *hf_symbols_all(const struct hf_symbols *symbols,
				       size_t *num_ret);
/** The symbol that contains addr (a symbol of size 0 only its own address),
 * or NULL. */
const struct hf_symbol *hf_symbols_at(const struct hf_symbols *symbols,
				      uint64_t addr);
/** By exact name, also of an alias that hf_symbols_all does not list, or NULL.
 * Linear. */
const struct hf_symbol *hf_symbols_named(const struct hf_symbols *symbols,
					 const char *name);

HF_DEFINE_AUTO(struct hf_symbols *, hf_symbols, hf_symbols_close)

#endif
