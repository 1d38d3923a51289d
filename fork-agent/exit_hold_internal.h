/* Inside of an exit hold: for exit_hold.c and exit_hold_threads.c only.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_EXIT_HOLD_INTERNAL_H
#define HF_FORK_AGENT_EXIT_HOLD_INTERNAL_H

#include <pthread.h>

#include "fork-agent/exit_hold.h"
#include "fork-agent/tracee.h"
#include "fork-agent/wait_clock.h"
#include "util/array.h"

enum hf_exit_hold_phase {
	HF_EXIT_HOLD_STARTING,
	HF_EXIT_HOLD_FAILED,
	HF_EXIT_HOLD_RUNNING,
	HF_EXIT_HOLD_HELD,
	HF_EXIT_HOLD_GONE,
};

struct hf_exit_hold {
	pid_t pid;
	pthread_t thread;
	pid_t tid;                 /* of the thread */
	int event_fd;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum hf_exit_hold_phase phase; /* guarded by lock, as `end` is */
	bool end;                  /* asked to let go */
	bool joined;
	struct hf_error *err;
	/* The thread's own, until it is held: */
	struct hf_trace_calls calls;
	struct hf_wait_clock clock;
	HF_ARRAY(pid_t) running;   /* attached, and not at their ends */
	HF_ARRAY(pid_t) leaving;   /* ended by themselves, but still there */
	HF_ARRAY(struct hf_tracee) held;   /* at their ends */
	uint64_t first_ns;         /* when the first of them came; 0: none */
	bool is_end;               /* it is clear that all end */
	struct user_regs_struct leader_regs; /* when it was last let go */
	bool has_leader_regs;
	bool killed;
	HF_ARRAY(struct hf_thread) threads;
	struct hf_capture_report report;
};

/* For the thread that traces only. */

/** Attach to threads that are not yet. @return NULL, PERMISSION, OS. */
struct hf_error *hf_exit_hold_attach(struct hf_exit_hold *hold) HF_MUST_CHECK;

/** At each tick: attach to new threads, let the leader go if it can be. */
void hf_exit_hold_attach_new(struct hf_exit_hold *hold);

/** Detach from all that do not stand at their ends; bounded in time. */
void hf_exit_hold_detach_all(struct hf_exit_hold *hold);

/** What a wait has reported: the thread goes on, or stands at its end. */
void hf_exit_hold_take_event(struct hf_exit_hold *hold, pid_t tid, int status);

/** Forget all of them: nothing is attached. */
void hf_exit_hold_forget(struct hf_exit_hold *hold);

/** Do all that are left stand at their ends? If they do because of an exec,
 * they are let go. */
bool hf_exit_hold_is_gathered(struct hf_exit_hold *hold);

bool hf_exit_hold_has(const struct hf_exit_hold *hold, pid_t tid);

/** Does a thread live that does not stand at its end? */
bool hf_exit_hold_has_others(const struct hf_exit_hold *hold);

/** Those that stand go to their ends. */
void hf_exit_hold_let_all_go(struct hf_exit_hold *hold);

#endif
