/* Snapshot options: what the verbs that take snapshots are told.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_CLI_SNAPSHOT_OPTIONS_H
#define HF_QUERY_CLI_SNAPSHOT_OPTIONS_H

#include "fork-agent/exit_hold.h"
#include "query/cli/cli.h"
#include "query/cli/core_options.h"

/** To add an option: a field here; a key, a line of the table and a case in
 * snapshot_options.c; its use in snapshot_take.c; heapfork-snapshot(1). */
struct hf_snapshot_options {
	struct hf_cli *cli; /* first: it is an input of hf_cli_parse */

	/* Which process, and where to: of `snapshot` only. */
	uint64_t pid;       /* 0: not given */
	const char *output; /* NULL: not given */
	bool all_children;
	uint64_t start_time; /* of the process that is meant, as in
			      * hf_capture_report; 0: whoever has the pid */
	bool dry_run;       /* take none */

	struct hf_exit_hold *at_exit; /* that stands so; NULL: capture it */

	/* The file. */
	bool force;
	struct hf_core_options core; /* of `snapshot` only */

	/* The capture. */
	enum hf_capture_mode mode;
	bool prepare;
	uint64_t prepare_rate; /* bytes each second; 0: the default */
	uint64_t keep_memory_free; /* bytes; 0: the capture's own */
	bool spool_none;       /* read the child itself, to the end */
	const char *spool_dir; /* for what memory has no room for, or NULL */
	uint64_t safe_point_tries; /* 0: the capture's own */
	bool no_safe_point; /* stop wherever the threads are */
	bool exact;         /* only at a safe point */
	uint64_t timeout_ns; /* for capture and index; 0: no limit */
	uint64_t stop_timeout_ns; /* in all attempts together; 0: the capture's
				   * own */
	uint64_t max_pause_ns; /* predicted; 0: any */
};

/** How a snapshot is taken: for any verb that takes some, as a child of its
 * argp. Its input is the struct hf_snapshot_options. */
extern const struct argp hf_capture_argp;

/** The command line of `heapfork snapshot`. */
extern const struct argp hf_snapshot_argp;

#endif
