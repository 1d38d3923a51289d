/* Frame names: function, source line and inlined functions of an address.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_STACKS_FRAME_NAMES_H
#define HF_INDEXER_STACKS_FRAME_NAMES_H

#include <elfutils/libdwfl.h>

#include "util/error.h"

enum { HF_MAX_INLINED = 64 };

struct hf_frame_name {
	char *function;   /* demangled; owned; NULL: no symbol */
	char *file;       /* owned; NULL: not known */
	uint32_t line;    /* 0: not known */
	bool is_inlined;  /* into the next name */
};

/** Names of one address, innermost first; the last is not inlined. */
struct hf_frame_names {
	struct hf_frame_name names[HF_MAX_INLINED + 1];
	size_t num;       /* at least 1 */
};

/** @param pc an address inside of the instruction that is meant. */
struct hf_error *hf_frame_names_find(Dwfl *dwfl, uint64_t pc,
				     struct hf_frame_names *ret)
	HF_MUST_CHECK;

/** Free what names own. */
void hf_frame_names_deinit(struct hf_frame_names *names);

#endif
