/* Sharers: processes that run in the target's memory, stopped with it.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_SHARERS_H
#define HF_FORK_AGENT_SHARERS_H

#include "fork-agent/standstill.h"

/**
 * The child of a vfork, or of clone with CLONE_VM, runs in the memory of its
 * parent: with only the parent's threads stopped, that memory is not of one
 * instant. So such children, their threads, and children of them in the same
 * memory are stopped, too: attached, interrupted, waited for, and let go after
 * the target's threads. Nothing else is done to them; their calls are cured of
 * EINTR as those of the target.
 *
 * Whether two processes share their memory is what kcmp(2) says. Where that is
 * forbidden, the children of a thread that waits in vfork whose memory has the
 * size of the target's are taken for sharers: one of them is.
 */

/** Before the pause, attached: note which threads have children that share
 * their memory. Those that are born later stop as they are born. */
void hf_sharers_look(struct hf_attachment *attachment);

/**
 * All threads of the target stand: stop the sharers, within the limit.
 *
 * A child inside exec is not attached to, since that would last as long as the
 * exec does, perhaps on a slow disk: it is waited for, for at most 10 ms.
 *
 * @param num_stopped_ret processes.
 * @param num_running_ret processes that run on: not stopped in time, traced by
 * another, or not to be found although a thread waits for it in vfork.
 * @return REACHED, also if some run on; TOO_LATE (there is time for another
 * try), CANCELLED: all must be let go.
 */
enum hf_standstill hf_sharers_stop(struct hf_attachment *attachment,
				   const struct hf_stop_limit *limit,
				   uint32_t *num_stopped_ret,
				   uint32_t *num_running_ret);

#endif
