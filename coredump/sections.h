/* Sections of one module's file that are writable at start-up.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_SECTIONS_H
#define HF_COREDUMP_SECTIONS_H

#include "coredump/image.h"

/** A section with SHF_ALLOC and SHF_WRITE, where it lies in the target. */
struct hf_section {
	struct hf_range range; /* bias added */
	char name[24];         /* ".data", cut if it is longer */
};

/**
 * Read the section table of the module's file: .data, .bss, .got,
 * .data.rel.ro and their like, also where they were made read-only after
 * relocation. Thread-local .tbss is left out: it has no address.
 *
 * @param ret caller frees; ascending, disjoint. NULL with *num_ret 0 when the
 * module has no readable file or no section table: not an error.
 */
struct hf_error *hf_sections_read(const struct hf_image *image,
				  const struct hf_module *module,
				  struct hf_section **ret, size_t *num_ret)
	HF_MUST_CHECK;

#endif
