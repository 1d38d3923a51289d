/* Whole-file reads and writes.
 * SPDX-License-Identifier: MIT */
#ifndef HF_UTIL_FILE_H
#define HF_UTIL_FILE_H

#include "util/error.h"

/**
 * Read a whole file, also one of /proc whose size is not known beforehand.
 *
 * @param ret caller frees; one NUL byte follows the content.
 * @param len_ret bytes without that NUL; may be NULL.
 */
struct hf_error *hf_read_file(const char *path, char **ret, size_t *len_ret)
	HF_MUST_CHECK;

/** As hf_read_file from an open descriptor; `name` is for messages. */
struct hf_error *hf_read_fd(int fd, const char *name, char **ret,
			    size_t *len_ret) HF_MUST_CHECK;

/** Write all bytes; EINTR and short writes are handled. */
struct hf_error *hf_write_all(int fd, const char *name, const void *buf,
			      size_t len) HF_MUST_CHECK;

#endif
