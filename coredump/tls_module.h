/* TLS of a module: its variables, and where its blocks are.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_TLS_MODULE_H
#define HF_COREDUMP_TLS_MODULE_H

#include "coredump/image.h"
#include "util/array.h"

struct hf_tls_variable {
	uint64_t offset;  /* from the start of the module's block */
	uint64_t size;    /* bytes; it ends within the block */
	char *name;       /* as in the file; owned */
};

/** What the dynamic linker wrote into the module's own memory when it
 * relocated it. All zero: nothing is known. */
struct hf_tls_module {
	HF_ARRAY(struct hf_tls_variable) variables; /* ascending, disjoint */
	uint64_t id;      /* in each thread's dtv; 0: not told */
	uint64_t below;   /* its block starts so many bytes below the thread
			   * pointer; 0: not told, or no static block */
};

/** A module without a file, or without TLS, gives an empty one. */
struct hf_error *hf_tls_module_read(const struct hf_image *image,
				    const struct hf_module *module,
				    struct hf_tls_module *ret) HF_MUST_CHECK;
void hf_tls_module_deinit(struct hf_tls_module *tls);

#endif
