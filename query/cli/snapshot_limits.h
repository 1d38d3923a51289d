/* Snapshot limits: how long a snapshot may stop its process, and take.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_CLI_SNAPSHOT_LIMITS_H
#define HF_QUERY_CLI_SNAPSHOT_LIMITS_H

#include "query/cli/snapshot_options.h"

/**
 * Predict the pause, if anybody wants to know: --max-pause, or -v.
 *
 * @param pause_ns_ret HF_UNKNOWN_U64: nobody, or it cannot be predicted.
 * @return TOO_LONG if it is longer than --max-pause, or cannot be told; nothing
 * was stopped. Without --max-pause NULL.
 */
struct hf_error *
hf_snapshot_check_pause(const struct hf_snapshot_options *options, pid_t pid,
			uint64_t *pause_ns_ret) HF_MUST_CHECK;

/** Begin --timeout. @return the monotonic time of its end; 0: no limit. */
uint64_t hf_snapshot_timeout_begin(const struct hf_snapshot_options *options);

/**
 * End --timeout. What it interrupted is told as TIMEOUT.
 *
 * @param err of the work, or NULL. Taken and returned.
 */
struct hf_error *
hf_snapshot_timeout_end(const struct hf_snapshot_options *options, pid_t pid,
			struct hf_error *err) HF_MUST_CHECK;

#endif
