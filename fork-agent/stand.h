/* Stand: a stopped process that is read itself, instead of a fork of it.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_STAND_H
#define HF_FORK_AGENT_STAND_H

#include "fork-agent/capture.h"
#include "fork-agent/remote_attach.h"

/**
 * HF_CAPTURE_STOP. All threads stay in their stops until the image was read:
 * nothing is injected, no process is made, and all memory is of one instant,
 * also what forks share or leave out. The price is a pause as long as the
 * reading takes.
 *
 * The thread that traces looks after it meanwhile: threads that were late for
 * the stop stay in it, too; deaths are taken note of, since only a tracer that
 * waits for them lets the process's parent know; and it lets the process go
 * when the user or a deadline says so, whatever the reader is doing.
 */
struct hf_stand {
	bool active;             /* they stand */
	uint64_t start_ns;       /* of the pause; monotonic */
	uint64_t deadline_ns;    /* 0: none */
	const volatile sig_atomic_t *cancelled; /* borrowed; may be NULL */
	enum hf_error_code lapse; /* why they were let go, or fell, before they
				   * were asked for; 0: they were not */
};

/** All threads have stopped, and their registers were read. */
void hf_stand_begin(struct hf_stand *stand, uint64_t start_ns);

/** Never blocks. @return whether it has to be called again soon. */
bool hf_stand_serve(struct hf_stand *stand, struct hf_attachment *attachment,
		    struct hf_capture_report *report);

/**
 * Let all threads go; fills in the report's times.
 *
 * @return NULL, or why what was read is not of one instant: TARGET_GONE,
 * TIMEOUT, INTERRUPTED.
 */
struct hf_error *hf_stand_end(struct hf_stand *stand,
			      struct hf_attachment *attachment,
			      struct hf_capture_report *report) HF_MUST_CHECK;

/** Say in the fix of an error about a fork that there is a way without, and
 * what it costs. Takes and returns err. */
struct hf_error *hf_stand_advise(struct hf_error *err) HF_MUST_CHECK;

#endif
