/* Names of C++ and Rust symbols as their authors wrote them.
 * SPDX-License-Identifier: MIT */
#include "indexer/demangle.h"

#include <libiberty/demangle.h>
#include <string.h>

enum { HF_MAX_MANGLED = 4096 };

char *hf_demangle(const char *symbol)
{
	/* Demanglers recurse; libiberty's own limit stays on, and longer
	 * texts than any compiler's are not worth the risk. */
	if (symbol[0] != '_' || strnlen(symbol, HF_MAX_MANGLED) ==
					HF_MAX_MANGLED)
		return NULL;
	return cplus_demangle(symbol, DMGL_PARAMS | DMGL_ANSI | DMGL_AUTO);
}

char *hf_demangle_or_copy(const char *symbol)
{
	char *name = hf_demangle(symbol);

	return name ? name : strdup(symbol);
}
