/* Core unpack: a compressed core into a file without a name.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_CORE_CORE_UNPACK_H
#define HF_COREDUMP_CORE_CORE_UNPACK_H

#include "util/progress.h"

/** Does the file begin like one that zstd made? */
bool hf_core_is_packed(int fd);

/**
 * Unpack into a file of `dir` (NULL: $TMPDIR or /var/tmp) that nobody else
 * sees, with holes for its zeros.
 *
 * @param name of the packed file, for messages.
 * @param partial if it ends too early or is damaged on the way, take what is
 * there; else that is BAD_DATA.
 * @param fd_ret the caller closes it.
 */
struct hf_error *hf_core_unpack(int fd, const char *name, const char *dir,
				bool partial,
				const struct hf_progress *progress,
				int *fd_ret) HF_MUST_CHECK;

#endif
