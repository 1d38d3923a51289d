/* Name pattern: the names of several snapshot files.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_CLI_NAME_PATTERN_H
#define HF_QUERY_CLI_NAME_PATTERN_H

#include <sys/types.h>

#include "util/error.h"

/** Has the pattern this one in it: 'p' or 'n'? */
bool hf_name_pattern_has(const char *pattern, char letter);

/**
 * %p becomes the pid, %n the number, %% a percent sign; anything else behind a
 * percent sign is a USAGE error.
 *
 * @param ret the caller frees.
 */
struct hf_error *hf_name_pattern_expand(const char *pattern, pid_t pid,
					uint64_t number, char **ret)
	HF_MUST_CHECK;

/** A pattern that stands for `text` itself. The caller frees. */
struct hf_error *hf_name_pattern_quote(const char *text, char **ret)
	HF_MUST_CHECK;

#endif
