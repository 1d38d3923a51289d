/* Stop every thread of a process by ptrace, and let them all go again.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_REMOTE_ATTACH_H
#define HF_FORK_AGENT_REMOTE_ATTACH_H

#include "fork-agent/tracee.h"
#include "fork-agent/wait_clock.h"

/**
 * All threads of one target. ptrace binds a tracee to the thread that
 * attached it, so one thread makes every call on an attachment. When that
 * thread ends, the kernel detaches whatever is still attached.
 */
struct hf_attachment {
	pid_t pid;
	struct hf_wait_clock *clock;  /* borrowed */
	struct hf_tracee *tracees;
	size_t num;
	size_t capacity;
	size_t num_running;      /* tracees in HF_TRACEE_RUNNING */
	size_t num_stopped;      /* threads in HF_TRACEE_STOPPED */
	int task_fd;             /* of /proc/PID/task; -1 */
	uint32_t *slots;         /* hash table: tid to index + 1 */
	size_t num_slots;        /* a power of two */
	uint8_t *xstate;         /* xstate_room bytes for each of capacity */
	size_t xstate_room;
	uint64_t first_stop_ns;  /* monotonic; 0: none has stopped */
	bool execed;             /* the target called exec meanwhile */
	bool overflow;           /* more newborns than there is room for */
};

/** Nothing is attached yet. */
void hf_attachment_init(struct hf_attachment *attachment, pid_t pid,
			struct hf_wait_clock *clock);
/** Lets everything go first. Safe on an all-zero attachment. */
void hf_attachment_deinit(struct hf_attachment *attachment);

/**
 * Attach to all threads without stopping any, until a look at the process
 * shows no new one, and make room for those that may be born until the stop.
 *
 * @return NULL, TARGET_GONE, PERMISSION (without cause; see permission.h), OS.
 */
struct hf_error *hf_attachment_seize(struct hf_attachment *attachment)
	HF_MUST_CHECK;

/** Interrupt all threads. They stop soon, wherever they are: see
 * standstill.h. Their calls are counted from here. */
void hf_attachment_interrupt(struct hf_attachment *attachment);

/** Others have stopped, and there is a thread that is not attached: attach and
 * interrupt what is not in the table. @return how many that were. */
size_t hf_attachment_seize_missed(struct hf_attachment *attachment);

/**
 * In the pause: attach to a thread of process `sharer`, which runs in the
 * target's memory, without any option; nothing else is changed. Interrupt it,
 * so that it stops soon.
 *
 * @return whether it is attached now: it may be dead, or traced by another,
 * or there is no room.
 */
bool hf_attachment_seize_sharer(struct hf_attachment *attachment, pid_t sharer,
				pid_t tid);

/**
 * After hf_attachment_release: begin anew, with hf_attachment_seize. Threads
 * that were given up and are still attached stay so.
 */
void hf_attachment_restart(struct hf_attachment *attachment);

/** Change the state of a tracee; keeps the counts. */
void hf_attachment_set_state(struct hf_attachment *attachment,
			     struct hf_tracee *tracee,
			     enum hf_tracee_state state);

/** Registers of all stopped threads. @return how many it could read. */
size_t hf_attachment_read_registers(struct hf_attachment *attachment);

/** Most calls for one thread since the interruption, but for `but`. */
uint32_t hf_attachment_max_calls(const struct hf_attachment *attachment,
				 pid_t but);

/** Let those go on through which signals to the process come; before the
 * first other thread. Not `but`. */
void hf_attachment_release_receivers(struct hf_attachment *attachment,
				     const struct hf_tracee *but);

/** Let all stopped threads go on; after them what shares their memory. */
void hf_attachment_release(struct hf_attachment *attachment);

/**
 * After a failure: as hf_attachment_release, and wait a little for threads
 * that were interrupted and are about to stop, since the end of the calling
 * thread would let them go with EINTR.
 */
void hf_attachment_abandon(struct hf_attachment *attachment);

/**
 * Serve threads that were given up: those that have stopped by now are let
 * go. Never blocks.
 *
 * @return how many are still attached.
 */
size_t hf_attachment_serve(struct hf_attachment *attachment);

/** By thread id; NULL if it is not ours. */
struct hf_tracee *hf_attachment_find(struct hf_attachment *attachment,
				     pid_t tid);

/** Take in what a wait reported about one of the tracees. */
void hf_attachment_note(struct hf_attachment *attachment, pid_t tid,
			int status);

#endif
