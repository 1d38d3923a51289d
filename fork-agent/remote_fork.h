/* Make a stopped process fork, without its noticing.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_REMOTE_FORK_H
#define HF_FORK_AGENT_REMOTE_FORK_H

#include "fork-agent/remote_attach.h"
#include "fork-agent/remote_syscall.h"

/**
 * The stopped thread that can run a system call with the least risk: one that
 * is blocked in a call; else one in user code outside of a restartable
 * sequence; and before either of them one with a stack on which a way home can
 * be laid. A thread with a signal in hand, inside clone or exec, with 32-bit
 * code or with its system calls redirected is never taken.
 *
 * @return NULL if there is none right now; *why_ret then says what was wrong
 * with the last one (a constant text).
 */
struct hf_tracee *hf_remote_fork_choose(struct hf_attachment *attachment,
					struct hf_way *way,
					const char **why_ret);

/**
 * Run clone(CLONE_FILES, exit signal 0) in the thread. The copy of the address
 * space is complete when this returns. The thread is then in the middle of the
 * call: park it with hf_remote_call_park, which tells the child's pid as the
 * target itself sees it.
 *
 * exit signal 0: the target gets no SIGCHLD and waitpid(-1) does not see the
 * child. CLONE_FILES: the child holds no reference of its own to open files,
 * so a descriptor that the target closes is closed.
 *
 * Until it is a tracee that dies with us, the child is one step away from its
 * end: with a way home its stack pointer leads to exit(0), without one to an
 * address that nobody may read, where SIGSEGV ends it (with a core file, if such
 * are wanted).
 *
 * @param child_ret in our pid namespace. It is a tracee of this thread and
 * about to stop before its first instruction.
 */
struct hf_error *hf_remote_fork(struct hf_remote_call *call, pid_t *child_ret)
	HF_MUST_CHECK;

#endif
