/* Snapshot core: the core that is written beside a snapshot.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_CLI_SNAPSHOT_CORE_H
#define HF_QUERY_CLI_SNAPSHOT_CORE_H

#include "coredump/core/core_write.h"
#include "indexer/db/snapshot_row.h"
#include "query/cli/cli.h"
#include "query/cli/core_options.h"
#include "util/output.h"

/** All zero: no core is wanted, and every function does nothing. */
struct hf_snapshot_core {
	const struct hf_core_options *options; /* borrowed */
	struct hf_output *output;
	struct hf_process_info process;
	struct hf_core_summary summary;
};

/**
 * Before the capture: begin the file, look at the process, and check that
 * there is room for all that it has in memory.
 *
 * @return NULL, NO_SPACE, TARGET_GONE, or as hf_output_begin.
 */
struct hf_error *hf_snapshot_core_begin(struct hf_snapshot_core *core,
					const struct hf_core_options *options,
					pid_t pid, bool force) HF_MUST_CHECK;

/** Write it. @param row what is known of the capture. */
struct hf_error *hf_snapshot_core_write(struct hf_snapshot_core *core,
					const struct hf_image *image,
					const struct hf_snapshot_row *row,
					const struct hf_progress *progress)
	HF_MUST_CHECK;

/** Give it its name. */
struct hf_error *hf_snapshot_core_commit(struct hf_snapshot_core *core)
	HF_MUST_CHECK;

/** Say what was written, and whether all of it is there.
 * @return whether it is partial. */
bool hf_snapshot_core_report(const struct hf_snapshot_core *core,
			     const struct hf_cli *cli);

/** Without a commit before it, nothing is left. */
void hf_snapshot_core_deinit(struct hf_snapshot_core *core);

HF_DEFINE_AUTO(struct hf_snapshot_core *, hf_snapshot_core,
	       hf_snapshot_core_deinit)

#endif
