/* Names of C++ and Rust symbols as their authors wrote them.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_DEMANGLE_H
#define HF_INDEXER_DEMANGLE_H

#include "util/error.h"

/** @return the readable form of a mangled symbol (caller frees), or NULL when
 * it is not mangled, too long (4 KiB) or memory is short. */
char *hf_demangle(const char *symbol);

/** hf_demangle, or a copy of the symbol itself. NULL only without memory. */
char *hf_demangle_or_copy(const char *symbol);

#endif
