/* Output files that appear whole or not at all.
 * SPDX-License-Identifier: MIT */
#ifndef HF_UTIL_OUTPUT_H
#define HF_UTIL_OUTPUT_H

#include "util/error.h"

struct hf_output;

/**
 * Begin an output file. The work happens in a fresh directory of mode 0700
 * beside the final name, so that helpers like SQLite can make files of their
 * own there; nothing is seen under the final name before the commit. Such
 * directories that killed runs have left there are removed.
 *
 * @param path final name. Existing files are refused unless `force`.
 * @param force replace an existing regular file at the commit.
 */
struct hf_error *hf_output_begin(const char *path, bool force,
				 struct hf_output **ret) HF_MUST_CHECK;

/** Path to write to until the commit; lives as long as the output. */
const char *hf_output_path(const struct hf_output *output);

/**
 * Set mode 0600, fsync, and give the file its final name (without replacing
 * a file that came into being meanwhile, unless `force`).
 */
struct hf_error *hf_output_commit(struct hf_output *output) HF_MUST_CHECK;

/** Without a commit before it, removes everything that was written. */
void hf_output_destroy(struct hf_output *output);

/**
 * The file that is being written is known to the user by its final name: put
 * that into an error of whoever wrote it. Takes and returns err.
 */
struct hf_error *hf_output_blame(const struct hf_output *output,
				 struct hf_error *err) HF_MUST_CHECK;

HF_DEFINE_AUTO(struct hf_output *, hf_output, hf_output_destroy)

#endif
