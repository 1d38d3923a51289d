/* Way home: how a borrowed thread finds back if its tool is killed.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_WAY_HOME_H
#define HF_FORK_AGENT_WAY_HOME_H

#include "fork-agent/capture.h"
#include "fork-agent/syscall_site.h"
#include "fork-agent/tracee.h"

/**
 * A tool may be killed at any instruction (by a user, by the OOM killer). The
 * kernel then lets its tracees run on with the registers that they have at that
 * moment, which are ours while a thread is borrowed. So before any register
 * is changed, this is written below the red zone of its stack, where nothing
 * of the program may be:
 *
 *	rsp ->   |  the thread's stack                    |
 *	         |  red zone, 128 bytes                   |
 *	         |  up to 63 bytes, to a multiple of 64   |
 *	         |  signal frame of a child    320 bytes  |
 *	child -> |    return address: restorer            |
 *	         |  extended state of the thread          |
 *	         |  signal frame of the thread 320 bytes  |
 *	slot ->  |    return address: restorer            |
 *	         |  free: a handler may be called here    |
 *
 * and each call is made at a `syscall; ret` with rsp = slot. A thread that is
 * left alone returns from the call to the restorer, which calls rt_sigreturn,
 * which puts back every register and the signal mask from the frame: as after a
 * signal handler. A call that was interrupted when the thread was stopped is
 * begun again. A forked child whose stack pointer is `child` comes back as
 * exit(0).
 *
 * The bytes that were there are kept and put back before the thread is let go,
 * so a capture that is not killed leaves no byte of the target changed.
 *
 * Only stacks whose bounds are certain are written to: the initial thread's
 * [stack], and one that the C library gave to a thread and that the thread's
 * descriptor, which lies at its upper end, tells the bounds of (glibc, musl).
 * Coroutines and goroutines have theirs in a heap, next to something else. A
 * signal handler may run on an alternate stack which is an array of the very
 * stack that it has interrupted; the kernel's signal frame above tells. What
 * cannot be told is a coroutine that does the same: its stack is an array of a
 * thread's own, and below it are the frames of the thread that has entered it.
 */
struct hf_way {
	/* found before the stop, by _prepare */
	pid_t pid;               /* of the process */
	int mem_fd;              /* /proc/PID/mem, if is_open */
	bool is_open;
	struct hf_syscall_site site;
	struct hf_stack_range *stacks; /* sorted; owned */
	size_t num_stacks;
	uint8_t *frames, *saved; /* room_bytes each; owned */
	uint8_t *scan;           /* room to look at a stack; owned */
	size_t room_bytes;
	/* at the stop, by _is_certain */
	pid_t certain_tid;       /* the thread that was looked at; 0: none */
	bool is_certain;
	/* at the stop, by _lay */
	enum hf_way_home state;  /* of the thread for which it was laid, or
				  * why there is none */
	bool laid;
	uint64_t start;          /* of what was written; = slot */
	size_t num_bytes;
	uint64_t child;          /* stack pointer for a forked child */
};

struct hf_stack_range {
	uint64_t start, end;
	bool is_initial;         /* [stack] */
};

/** An all-zero way is one for which nothing was prepared yet. */
void hf_way_deinit(struct hf_way *way);

/**
 * Before the stop: find the instructions, and where stacks are; make room. May
 * be repeated, which forgets a way that was laid.
 *
 * @param tid a thread of the process with memory.
 * @return NULL, also if there will be no way (but site.call.addr is known);
 * NOT_FOUND if there is no syscall instruction, TARGET_GONE, PERMISSION, OS.
 */
struct hf_error *hf_way_prepare(struct hf_way *way, pid_t tid)
	HF_MUST_CHECK;

/** Is the thread, which stands and whose registers were read, on a stack
 * with room for sure, as far as that can be told without a system call? */
bool hf_way_has_room(const struct hf_way *way,
		     const struct hf_tracee *tracee);

/** Is it so, after a look at its stack and its descriptor? (Some system calls;
 * the answer is kept for the same thread until the next _prepare.) */
bool hf_way_is_certain(struct hf_way *way, struct hf_tracee *tracee);

/** Are the bytes at site.call still those that were found? The tracee
 * stands. */
bool hf_way_check_site(struct hf_way *way, struct hf_tracee *tracee);

/**
 * Write the frames for this thread, which stands; its registers, extended
 * state and interrupted_call are known. Checks the instructions again. After
 * it way->state tells the reason if `laid` is false; where it is not FULL
 * although it was laid (SECCOMP), the way leads home but may be forbidden.
 */
void hf_way_lay(struct hf_way *way, struct hf_tracee *tracee);

/** Registers with which the thread goes home, and nothing else. */
struct user_regs_struct hf_way_registers(const struct hf_way *way,
					 const struct hf_tracee *tracee);

/** Put back what was overwritten in the memory of `pid`: the thread's process,
 * or the child that was forked. Not before it needs the way no more. */
void hf_way_clear(const struct hf_way *way, struct hf_trace_calls *calls,
		  pid_t pid);

#endif
