/* Retainer rows: the tree of merged paths, given to a row sink.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_CLI_RETAINER_ROWS_H
#define HF_QUERY_CLI_RETAINER_ROWS_H

#include "query/cli/cli.h"
#include "query/retainers.h"

/**
 * Print the steps with the most bytes, as many as the limit allows; siblings
 * in this order too. A step is never printed without those above it.
 */
struct hf_error *hf_cli_retainer_rows(const struct hf_cli *cli,
				      struct hf_db *db,
				      const struct hf_retainers *retainers,
				      struct hf_row_sink *sink) HF_MUST_CHECK;

#endif
