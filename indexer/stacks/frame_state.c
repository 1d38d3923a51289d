/* Frame state: the registers of one frame, in the order of DWARF.
 * SPDX-License-Identifier: MIT */
#include "indexer/stacks/frame_state.h"

void hf_frame_state_of_thread(const struct hf_thread *thread,
			      struct hf_frame_state *ret)
{
	const struct user_regs_struct *regs = &thread->regs;

	*ret = (struct hf_frame_state){ {
		regs->rax, regs->rdx, regs->rcx, regs->rbx, regs->rsi,
		regs->rdi, regs->rbp, regs->rsp, regs->r8, regs->r9,
		regs->r10, regs->r11, regs->r12, regs->r13, regs->r14,
		regs->r15, regs->rip,
	} };
}
