/* Frame state: the registers of one frame, in the order of DWARF.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_STACKS_FRAME_STATE_H
#define HF_INDEXER_STACKS_FRAME_STATE_H

#include "coredump/image.h"

/* System V ABI for x86-64, figure 3.36: rax 0, rdx 1, rcx 2, rbx 3, rsi 4,
 * rdi 5, rbp 6, rsp 7, r8-r15 8-15, return address 16. */
enum {
	HF_DWARF_RBP = 6,
	HF_DWARF_RSP = 7,
	HF_DWARF_RIP = 16,
	HF_DWARF_NUM_REGS = 17,
};

struct hf_frame_state {
	uint64_t regs[HF_DWARF_NUM_REGS];
};

/** Of the innermost frame. */
void hf_frame_state_of_thread(const struct hf_thread *thread,
			      struct hf_frame_state *ret);

#endif
