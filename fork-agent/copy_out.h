/* Copy out: the frozen child's memory becomes ours, and the child may go.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_COPY_OUT_H
#define HF_FORK_AGENT_COPY_OUT_H

#include "coredump/spool.h"
#include "fork-agent/capture.h"

enum hf_copy_way {
	HF_COPY_AUTO,  /* to memory if there is plenty, else to a file in `dir`
			* if that is given, else not */
	HF_COPY_FILE,  /* to a file in `dir` in any case */
	HF_COPY_NEVER,
};

struct hf_copy_options {
	enum hf_copy_way way;
	const char *dir;       /* or NULL */
	const struct hf_progress *progress; /* phase "copy" */
};

struct hf_copy_report {
	struct hf_spool_report spool;
	uint64_t elapsed_ns;
	uint64_t dropped_bytes_asked; /* of the child's memory */
};

/**
 * Copy the image of a frozen child out, see coredump/spool.h. The child gives
 * back what has been copied as soon as 16 MiB of it have, so that the target
 * does not have to copy what it writes there.
 *
 * If report_ret->spool.is_whole the caller releases the frozen at once, and
 * goes on with the image. Else the image still reads from the child: the
 * reason is in report_ret->spool.why.
 *
 * @return NULL, NO_MEMORY, INTERRUPTED, or why the child was given up.
 */
struct hf_error *hf_copy_out(struct hf_frozen *frozen, struct hf_image *image,
			     const struct hf_copy_options *options,
			     struct hf_copy_report *report_ret) HF_MUST_CHECK;

#endif
