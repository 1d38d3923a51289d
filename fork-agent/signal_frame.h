/* Signal frame: a thread's whole state as rt_sigreturn takes it back.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_SIGNAL_FRAME_H
#define HF_FORK_AGENT_SIGNAL_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

enum {
	HF_SIGNAL_FRAME_BYTES = 320,   /* without the extended state; a
					* multiple of 64 */
	HF_SIGNAL_FRAME_REACH = 440,   /* what the kernel takes for the frame:
					* the rest it does not read */
	HF_FPSTATE_ALIGN = 64,
};

struct hf_signal_frame {
	uint64_t return_address;       /* of a signal restorer */
	struct user_regs_struct regs;  /* but fs_base, gs_base, ds .. gs: a
					* signal does not change them */
	uint64_t mask;                 /* signals that are blocked */
	uint64_t fpstate;              /* address of the extended state; 0: the
					* thread's is set to its start values */
};

/** Write the frame. It belongs at `addr`, 8 modulo 16 or not; a thread goes
 * back through it when it executes `ret` with its stack pointer at `addr`. */
void hf_signal_frame_build(const struct hf_signal_frame *frame,
			   uint8_t buf[HF_SIGNAL_FRAME_BYTES]);

/** Room for the extended state of a frame, in bytes; a multiple of 64.
 * @param xstate_bytes of what ptrace gives (NT_X86_XSTATE; 512 of the older
 * NT_PRFPREG). 0: this is not an extended state. */
size_t hf_fpstate_bytes(size_t xstate_bytes);

/** Turn what ptrace gives into what a frame has. `buf` has room for
 * hf_fpstate_bytes(xstate_bytes) and belongs at an address of 64 modulo 64. */
void hf_fpstate_build(const uint8_t *xstate, size_t xstate_bytes,
		      uint8_t *buf);

/** The most that NT_X86_XSTATE can be on this machine. */
size_t hf_xstate_max_bytes(void);

/** Bytes of the extended state in a frame of a thread that has asked for no
 * further registers (AMX), when the features of `mask` are on. */
size_t hf_fpstate_default_bytes(uint64_t mask);

#endif
