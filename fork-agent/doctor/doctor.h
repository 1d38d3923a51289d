/* Doctor: everything that could be in the way of a capture, found beforehand.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_DOCTOR_DOCTOR_H
#define HF_FORK_AGENT_DOCTOR_DOCTOR_H

#include <sys/types.h>

#include "fork-agent/capture.h"
#include "fork-agent/doctor/checkup.h"
#include "fork-agent/predict.h"

struct hf_doctor_options {
	pid_t pid;
	enum hf_capture_mode mode;
	uint64_t max_pause_ns;    /* a longer prediction is a blocker; 0: none */
	uint64_t keep_free_bytes; /* that should stay free; 0: the default of
				   * headroom.h */
	bool exact_bytes;         /* sizes in texts: no KiB or MiB */
	/* What else a capture with these options needs; checked if set. */
	bool prepare;
	const char *spool_dir;    /* borrowed */
	const char *output;       /* name of the file; borrowed */
};

/**
 * Look at a process, at ourselves, at the machine, and at a process of our own
 * that stands in for the target. Nobody is stopped, nothing is changed. Takes
 * some tens of milliseconds, and a walk over the target's page tables.
 *
 * @param ret init to zero; hf_checkup_deinit releases it. If there is no such
 * process, it holds this one blocker.
 * @param prediction_ret pause_ns 0: there is no prediction.
 * @return NO_MEMORY. What is wrong is in the checks.
 */
struct hf_error *hf_doctor_examine(const struct hf_doctor_options *options,
				   struct hf_checkup *ret,
				   struct hf_prediction *prediction_ret)
	HF_MUST_CHECK;

#endif
