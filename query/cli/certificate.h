/* Certificate: what a snapshot cost, and how far to believe it, for people.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_CLI_CERTIFICATE_H
#define HF_QUERY_CLI_CERTIFICATE_H

#include "query/cli/cli.h"

/**
 * Print the view `certificate` on standard output: its items in groups, times
 * and sizes in units for people, and a mark before what is not as it should
 * be.
 */
struct hf_error *hf_cli_print_certificate(const struct hf_cli *cli,
					  struct hf_db *db) HF_MUST_CHECK;

#endif
