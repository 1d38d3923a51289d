/* Snapshot prepare: huge pages before the pause, and words about them.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_CLI_SNAPSHOT_PREPARE_H
#define HF_QUERY_CLI_SNAPSHOT_PREPARE_H

#include "fork-agent/prepare.h"
#include "query/cli/snapshot_options.h"

/**
 * What --prepare asks for. Says on standard error what was done, and why not
 * more, if so.
 *
 * @param deadline_ns of the whole capture, monotonic; half of what is left may
 * be spent here. 0: none.
 * @param ret filled in in any case.
 * @return INTERRUPTED if the user stopped it, else NULL: nothing else here is a
 * reason not to take the snapshot.
 */
struct hf_error *hf_snapshot_prepare(const struct hf_snapshot_options *options,
				     pid_t pid, uint64_t deadline_ns,
				     const struct hf_progress *progress,
				     struct hf_prepare_report *ret)
	HF_MUST_CHECK;

#endif
