/* Seams of the capture, for tests: what happens between which steps.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_CAPTURE_STEPS_H
#define HF_FORK_AGENT_CAPTURE_STEPS_H

#include "fork-agent/capture.h"

/** Reached in this order. */
enum hf_capture_step {
	HF_STEP_CHECKED,       /* nothing attached yet */
	HF_STEP_SITE_FOUND,    /* the syscall instruction, too */
	HF_STEP_SEIZED,        /* all threads attached, running */
	HF_STEP_INTERRUPTED,   /* the pause has begun */
	HF_STEP_STOPPED,       /* all threads stopped */
	HF_STEP_REGISTERS,     /* ... and read */
	HF_STEP_BORROWED,      /* the injector's mask is ours */
	HF_STEP_FORKED,        /* the child exists */
	HF_STEP_PARKED,        /* the injector is back in its stop */
	HF_STEP_RESUMED,       /* the pause is over */
	HF_STEP_ADOPTED,       /* the child dies with us */
	HF_STEP_PREPARED,      /* the child holds no descriptor */
	HF_NUM_STEPS,
};

/** What a test may put into a capture. All zero: nothing. */
struct hf_capture_hooks {
	/** Called at each step, in the thread that traces. An error ends the
	 * capture as if the step had failed with it. */
	struct hf_error *(*at_step)(void *arg, enum hf_capture_step step);
	/** Called before each ptrace or wait call of the capture and of the
	 * release, in the thread that makes it. May be NULL. */
	void (*before_call)(void *arg, uint64_t num);
	void *arg;
	const char *proc;      /* read the limits of memory here instead of in
				* /proc; may be NULL */
	bool no_close_range;   /* behave as a kernel without it */
	uint64_t false_site;   /* run the fork here instead of at the syscall
				* instruction that was found; 0: do not */
};

/** As hf_capture. @param hooks borrowed as long as the frozen lives. */
struct hf_error *
hf_capture_with_hooks(const struct hf_capture_options *options,
		      const struct hf_capture_hooks *hooks,
		      struct hf_frozen **ret) HF_MUST_CHECK;

#endif
