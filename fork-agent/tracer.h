/* Tracer: the one thread that makes all ptrace calls of one capture.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_TRACER_H
#define HF_FORK_AGENT_TRACER_H

#include "fork-agent/capture_steps.h"
#include "fork-agent/preflight.h"

/**
 * ptrace ties a tracee to a thread, not to a process. A thread of our own for
 * each attempt has three advantages:
 *
 * - whatever goes wrong, its end makes the kernel detach what is attached;
 * - a thread of the target that could not be stopped in time (vfork, disk
 *   sleep) runs into the stop later, and somebody has to let it go at once,
 *   also while the caller is busy with the image;
 * - hf_frozen_release may be called from any thread.
 */
struct hf_tracer;

struct hf_tracer_result {
	struct hf_thread *threads;       /* owned by the tracer */
	size_t num_threads;
	pid_t child;
	struct hf_capture_report report;
};

/**
 * Make one attempt.
 *
 * @param stop_left_ns how long threads may be waited for; gets what is left
 * of it.
 * @param retry_ret whether another attempt makes sense, set on failure.
 * @return as hf_capture.
 */
struct hf_error *hf_tracer_create(const struct hf_target *target,
				  const struct hf_capture_options *options,
				  const struct hf_capture_hooks *hooks,
				  uint64_t *stop_left_ns, bool *retry_ret,
				  struct hf_tracer **ret) HF_MUST_CHECK;

/** Borrowed. The report is complete after hf_tracer_release. */
const struct hf_tracer_result *
hf_tracer_result(const struct hf_tracer *tracer);

/** See hf_frozen_drop. Returns when it is done. */
void hf_tracer_drop(struct hf_tracer *tracer, const struct hf_range *ranges,
		    size_t num_ranges);

/** See hf_frozen_check. */
struct hf_error *hf_tracer_check(struct hf_tracer *tracer) HF_MUST_CHECK;

/** Kill the child, have the target reap it, end the thread. Only once. */
struct hf_error *hf_tracer_release(struct hf_tracer *tracer) HF_MUST_CHECK;

/** Releases too, if that was not done. */
void hf_tracer_destroy(struct hf_tracer *tracer);

HF_DEFINE_AUTO(struct hf_tracer *, hf_tracer, hf_tracer_destroy)

#endif
