/* Core options: how a core is written.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_CLI_CORE_OPTIONS_H
#define HF_QUERY_CLI_CORE_OPTIONS_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

struct hf_core_options {
	const char *path;         /* NULL: no core is wanted */
	uint32_t filter;          /* HF_CORE_* of coredump/core */
	bool with_dontdump;
	int zstd_level;           /* 0: not compressed */
	uint64_t max_bytes;       /* 0: any */
	uint64_t keep_free_bytes; /* on the file system */
};

/** As they are without any option. */
void hf_core_options_init(struct hf_core_options *options);

/** --core and its like: a child of argp. Its input is the struct. */
extern const struct argp hf_core_argp;

#endif
