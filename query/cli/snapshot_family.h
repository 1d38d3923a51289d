/* Snapshot family: one snapshot of each descendant of a process.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_CLI_SNAPSHOT_FAMILY_H
#define HF_QUERY_CLI_SNAPSHOT_FAMILY_H

#include "query/cli/snapshot_options.h"

/**
 * One after the other, so no two are stopped at once; prints one row for each.
 * What fails for one does not stop the others: it is told in its row, and
 * cli->exit_code is HF_EXIT_PARTIAL.
 *
 * @return NULL; why there was none at all; INTERRUPTED.
 */
struct hf_error *
hf_snapshot_family(const struct hf_snapshot_options *options) HF_MUST_CHECK;

#endif
