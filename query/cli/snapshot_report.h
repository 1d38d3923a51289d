/* Snapshot report: what a snapshot cost and found, for the user.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_CLI_SNAPSHOT_REPORT_H
#define HF_QUERY_CLI_SNAPSHOT_REPORT_H

#include "coredump/spool.h"
#include "fork-agent/capture.h"
#include "indexer/index.h"
#include "query/cli/cli.h"

/** After the fork: the pause, and what the capture could not do. */
void hf_snapshot_report_pause(const struct hf_cli *cli,
			      const struct hf_capture_report *report);

/** After the release: what the frozen child cost the process. */
void hf_snapshot_report_cost(const struct hf_cli *cli,
			     const struct hf_capture_report *report);

/** After the copy, if there is none: why. */
void hf_snapshot_report_copy(const struct hf_cli *cli,
			     const struct hf_spool_report *spool);

/** With -v: the pause beside its prediction; HF_UNKNOWN_U64: there is none. */
void hf_snapshot_report_prediction(const struct hf_cli *cli,
				   const struct hf_capture_report *report,
				   uint64_t predicted_ns);

/** At the end: the heap, and why the snapshot is partial, if it is. Takes
 * summary->unsupported. */
void hf_snapshot_report_result(const struct hf_cli *cli, const char *file,
			       struct hf_index_summary *summary,
			       uint64_t elapsed_ns);

#endif
