/* Snapshot take: one snapshot of one process into one file.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_CLI_SNAPSHOT_TAKE_H
#define HF_QUERY_CLI_SNAPSHOT_TAKE_H

#include "fork-agent/capture.h"
#include "indexer/index.h"
#include "query/cli/snapshot_options.h"

/** What came of it. */
struct hf_snapshot_result {
	struct hf_capture_report report; /* all zero: no capture */
	struct hf_index_summary summary;
	bool partial; /* a file was written, but not all is in it */
};

void hf_snapshot_result_deinit(struct hf_snapshot_result *result);

HF_DEFINE_AUTO(struct hf_snapshot_result *, hf_snapshot_result,
	       hf_snapshot_result_deinit)

/**
 * Capture a process, index it, let go; the file appears whole or not at all.
 * Says on standard error what it costs and finds. SIGPIPE must be ignored: a
 * reader of our messages that goes away must not kill us while we hold a
 * process.
 *
 * @param options how; its pid and output are not looked at.
 * @param result_ret filled in after an error, too, as far as things got.
 */
struct hf_error *hf_snapshot_take(const struct hf_snapshot_options *options,
				  pid_t pid, const char *output,
				  struct hf_snapshot_result *result_ret)
	HF_MUST_CHECK;

#endif
