/* Checkup rows: the checks of a doctor, for people or as rows.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_CLI_CHECKUP_ROWS_H
#define HF_QUERY_CLI_CHECKUP_ROWS_H

#include "fork-agent/doctor/doctor.h"
#include "query/cli/snapshot_options.h"

/**
 * Look at a process and print what was found to standard output: as the
 * formats of all verbs, as a table followed by causes and fixes. Sets the exit
 * code that a snapshot with these options would end with.
 */
struct hf_error *hf_checkup_print(const struct hf_snapshot_options *options)
	HF_MUST_CHECK;

#endif
