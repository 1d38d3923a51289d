/* Progress: one line on a terminal, after a second, erased at the end.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_CLI_PROGRESS_H
#define HF_QUERY_CLI_PROGRESS_H

#include "query/cli/cli.h"

struct hf_cli_progress {
	struct hf_progress hooks; /* to give to long work */
	const struct hf_cli *cli; /* borrowed */
	bool terminal;            /* standard error is one */
	bool shown;               /* a line stands there */
	uint64_t start_ns, last_ns;
};

/** Fill in `progress`; it must not move while its hooks are in use. */
void hf_cli_progress_init(struct hf_cli_progress *progress,
			  const struct hf_cli *cli);

/** Erase the line, if there is one. */
void hf_cli_progress_clear(struct hf_cli_progress *progress);

#endif
