/* Core ELF files: the programs and libraries that a core was taken of.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_CORE_CORE_ELF_H
#define HF_COREDUMP_CORE_CORE_ELF_H

#include "coredump/core/core_file.h"
#include "coredump/core/core_image.h"
#include "coredump/core/core_notes.h"

/* A core rarely has the bytes of text and constants: they are in the files
 * that were mapped. Which file that was is told by the build id, in the page
 * with the ELF header, which most cores have. A file with another build id, or
 * one that cannot be compared, is not that file. */

/** One mapped file. */
struct hf_core_elf {
	const char *path;      /* as in the core; borrowed */
	int fd;                /* of the file, or -1 */
	uint64_t size;         /* bytes of the file */
	char why[96];          /* fd is -1: why, as a clause */
};

struct hf_core_elfs {
	const struct hf_core_open_options *options; /* borrowed */
	const char *exe_path;  /* of the main program in the core, or NULL */
	HF_ARRAY(struct hf_core_elf) list; /* ascending by path */
};

/**
 * Find the files of all mappings.
 *
 * @param exe_path which of them options->exe stands for; NULL: not known.
 */
struct hf_error *hf_core_elfs_find(const struct hf_core_open_options *options,
				   const struct hf_core_file *file,
				   const struct hf_core_mapped *mapped,
				   size_t num_mapped, const char *exe_path,
				   struct hf_core_elfs *ret) HF_MUST_CHECK;
void hf_core_elfs_deinit(struct hf_core_elfs *elfs);

/** By path as in the core, or NULL. */
const struct hf_core_elf *hf_core_elfs_at(const struct hf_core_elfs *elfs,
					  const char *path);

/** Open any file that a module or its debug information could be: through
 * --exe, --debug-dir, --sysroot. @return a descriptor, or -1. */
int hf_core_elfs_open(const struct hf_core_elfs *elfs, const char *path);

#endif
