/* Sequence: the steps of one capture, in the order that makes it safe.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_SEQUENCE_H
#define HF_FORK_AGENT_SEQUENCE_H

#include "fork-agent/capture_steps.h"
#include "fork-agent/child.h"
#include "fork-agent/journal.h"
#include "fork-agent/preflight.h"
#include "fork-agent/remote_attach.h"
#include "fork-agent/watch.h"
#include "fork-agent/stand.h"

struct hf_sequence {
	struct hf_target target;
	enum hf_capture_mode mode;
	uint32_t stop_timeout_ms;       /* for messages */
	uint64_t stop_left_ns;          /* to wait for threads, in all */
	const struct hf_safe_point *safe_point; /* borrowed; may be NULL */
	uint32_t safe_point_tries;      /* at least 1 */
	bool exact;                     /* only a safe point will do */
	uint64_t deadline_ns;           /* monotonic; 0: none */
	const volatile sig_atomic_t *cancelled; /* borrowed; may be NULL */
	struct hf_capture_hooks hooks;
	struct hf_trace_calls calls;    /* all that were made */
	struct hf_wait_clock clock;     /* only while tracees are waited for */
	struct hf_attachment attachment;
	struct hf_child child;          /* in HF_CAPTURE_FORK */
	struct hf_stand stand;          /* in HF_CAPTURE_STOP */
	uint64_t site;                  /* of a syscall instruction */
	struct hf_way way;              /* for the threads that are borrowed */
	const char *journal_dir;        /* borrowed; NULL: the default */
	struct hf_journal journal;      /* until the child is reaped */
	struct hf_thread *threads;      /* leader first; owned */
	size_t num_threads;
	struct hf_capture_report report;
	pid_t injector_tid;             /* 0: none */
	uint64_t fork_done_ns;          /* monotonic */
	uint32_t num_late_stops;        /* released: not all had stopped */
	uint64_t back_off_ns;           /* until the next stop */
	struct hf_watch *watch;         /* owned; NULL: nothing is forked */
	uint64_t keep_free_bytes;       /* for it */
	uint64_t next_peak_ns;          /* when the child is measured again */
	uint64_t faults_before;         /* of the target; UINT64_MAX: unknown */
	bool is_given_up;               /* its child goes at once, unmeasured */
	bool retry;                     /* the failure may not happen again */
};

/**
 * Attach, stop, fork, resume, adopt the child, close its descriptors; in
 * HF_CAPTURE_STOP attach and stop. Every call on a sequence comes from the same
 * thread.
 *
 * On failure every thread of the target runs (or will, when the calling
 * thread ends: threads that never stopped) and no child is left.
 */
struct hf_error *hf_sequence_run(struct hf_sequence *sequence) HF_MUST_CHECK;

/** Let go threads that were late for the stop; look after a process that
 * stands. @return whether it has to be called again soon. */
bool hf_sequence_serve(struct hf_sequence *sequence);

/**
 * Is there still memory for the child? If not, it is killed.
 *
 * @param next_ns_ret after how long to ask again; 0: there is no child.
 * @return NULL, or NO_SPACE: hf_sequence_release is next.
 */
struct hf_error *hf_sequence_watch(struct hf_sequence *sequence,
				   uint64_t *next_ns_ret) HF_MUST_CHECK;

/** Have the child give pages back: see hf_child_drop. */
void hf_sequence_drop(struct hf_sequence *sequence,
		      const struct hf_range *ranges, size_t num_ranges);

/** Kill the child and have it reaped, or let the process go; complete the
 * report. @return as hf_frozen_release. */
struct hf_error *hf_sequence_release(struct hf_sequence *sequence)
	HF_MUST_CHECK;

void hf_sequence_deinit(struct hf_sequence *sequence);

#endif
