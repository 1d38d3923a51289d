/* Path rows: the steps of a path, given to a row sink.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_CLI_PATH_ROWS_H
#define HF_QUERY_CLI_PATH_ROWS_H

#include "query/cli/cli.h"
#include "query/path.h"

/**
 * Print a path. If it has more steps than the limit, those in its middle are
 * left out, and counted on standard error.
 */
struct hf_error *hf_cli_path_rows(const struct hf_cli *cli, struct hf_db *db,
				  const struct hf_path *path,
				  struct hf_row_sink *sink) HF_MUST_CHECK;

#endif
