/* Thread-local variables: where each thread has its own.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_HOLDER_TLS_H
#define HF_INDEXER_HOLDER_TLS_H

#include "coredump/tls_module.h"

/** A variable of one thread, in its static TLS block. */
struct hf_tls_part {
	struct hf_range range;
	uint32_t thread_index;  /* in hf_image_threads */
	uint32_t module_id;     /* in hf_image_modules */
	const char *name;       /* as in the file; owned by the parts */
};

struct hf_tls_parts {
	HF_ARRAY(struct hf_tls_part) list; /* by thread, then address */
	struct hf_tls_module *modules;     /* owns the names */
	size_t num_modules;
};

/** A module or thread of which the structures disagree has no parts: its TLS
 * block is then known as a whole only. */
struct hf_error *hf_tls_parts_find(const struct hf_image *image,
				   struct hf_tls_parts *ret) HF_MUST_CHECK;
void hf_tls_parts_deinit(struct hf_tls_parts *parts);

#endif
