/* Checkup rows: the checks of a doctor, for people or as rows.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_CLI_CHECKUP_ROWS_H
#define HF_QUERY_CLI_CHECKUP_ROWS_H

#include "fork-agent/doctor/doctor.h"
#include "query/cli/cli.h"

/**
 * Look at a process and print what was found to standard output: as the
 * formats of all verbs, as a table followed by causes and fixes. Sets the exit
 * code that a snapshot would end with: that of the first blocker.
 */
struct hf_error *hf_checkup_print(struct hf_cli *cli,
				  const struct hf_doctor_options *options)
	HF_MUST_CHECK;

#endif
