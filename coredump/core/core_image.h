/* An ELF core as an image.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_CORE_CORE_IMAGE_H
#define HF_COREDUMP_CORE_CORE_IMAGE_H

#include "coredump/core/core_format.h"
#include "coredump/image.h"
#include "coredump/process_info.h"
#include "util/progress.h"

struct hf_core_open_options {
	const char *exe;       /* the executable's file, or NULL: by its path */
	const char *sysroot;   /* put before paths of mapped files, or NULL */
	const char *const *debug_dirs; /* searched by build id, before
				* /usr/lib/debug; NULL-terminated, or NULL */
	bool partial;          /* take a truncated core for what is there */
	const char *scratch_dir; /* for the unpacked core, if it is compressed;
				* NULL: $TMPDIR or /var/tmp */
	const struct hf_progress *progress;
};

/** What a core says besides the image. */
struct hf_core_info {
	struct hf_process_info process;
	char *capture;         /* text of HF_NOTE_CAPTURE, or NULL; owned */
	char writer[32];       /* heapfork, or kernel, gdb, ... as far as it
				* can be told: a guess */
	bool truncated;        /* taken as partial */
	uint64_t missing_bytes; /* of memory that the core should have */
};

void hf_core_info_deinit(struct hf_core_info *info);

/**
 * Open a core: of the kernel, of gdb, of heapfork or of anything else that
 * follows core(5); plain, sparse, or compressed with zstd.
 *
 * @return NULL; BAD_DATA: no core, damaged, or truncated (the message names
 * the ranges that are missing); UNSUPPORTED: another architecture; OS.
 */
struct hf_error *hf_core_image_open(const char *path,
				    const struct hf_core_open_options *options,
				    struct hf_core_info *info_ret,
				    struct hf_image **ret) HF_MUST_CHECK;

HF_DEFINE_AUTO(struct hf_core_info *, hf_core_info, hf_core_info_deinit)

#endif
