/* Symbols from given files: for symbols.c, its tests and its fuzzer.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_SYMBOLS_INTERNAL_H
#define HF_COREDUMP_SYMBOLS_INTERNAL_H

#include "coredump/symbols.h"

/**
 * As hf_symbols_open, from these files. Both are owned from now on, also if
 * this fails; either may be -1.
 *
 * @param debug_fd separate debug file, used if fd has no .symtab.
 */
struct hf_error *hf_symbols_from_files(const struct hf_module *module, int fd,
				       int debug_fd, struct hf_symbols **ret)
	HF_MUST_CHECK;

#endif
