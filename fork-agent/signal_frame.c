/* Signal frame: a thread's whole state as rt_sigreturn takes it back.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/signal_frame.h"

#include <cpuid.h>
#include <string.h>

/* struct rt_sigframe of arch/x86/include/asm/sigframe.h, with ucontext and
 * sigcontext_64 of arch/x86/include/uapi/asm, Linux 6.12 (the same since
 * 2.6.12 but for `ss`, which came with 4.7). rt_sigreturn is entered with the
 * stack pointer behind `pretcode`, which a `ret` has taken.
 *
 *	   0  pretcode       address of the restorer
 *	   8  uc_flags       UC_* below
 *	  16  uc_link        0
 *	  24  uc_stack       ss_sp 24, ss_flags 32 (int), ss_size 40
 *	  48  r8 r9 r10 r11 r12 r13 r14 r15 di si bp bx dx ax cx sp ip
 *	 184  flags
 *	 192  cs, gs, fs, ss (16 bits each; gs and fs are not read)
 *	 200  err, trapno, oldmask, cr2 (not read)
 *	 232  fpstate        address, a multiple of 64; 0: start values
 *	 240  reserved       8 words
 *	 304  uc_sigmask     8 bytes
 *	 312  siginfo        128 bytes, not read
 *	 440
 *
 * The alternate signal stack would be set from uc_stack, and nobody outside
 * can know it. The kernel ignores a uc_stack that makes no sense, though
 * (restore_altstack: "squash all but EFAULT"): ss_flags that do not exist leave
 * the thread's own as it is.
 *
 * The extended state is what XSAVE writes, in its standard form (struct
 * _fpstate and _fpx_sw_bytes of uapi/asm/sigcontext.h):
 *
 *	   0  legacy area    x87, MXCSR at 24, SSE
 *	 464  magic1, extended_size (u32), xfeatures (u64), xstate_size (u32)
 *	 512  XSTATE_BV      which features are not in their start values
 *	 576  AVX and so on, at the offsets that CPUID gives
 *	xstate_size  magic2
 *
 * ptrace gives the mask of all features that are on where xfeatures is.
 * magic2 is looked for behind the state that *this thread* can have: at
 * xstate_size (before Linux 6.8), or at the size that the kernel itself knows.
 * They differ for AMX only, which a thread has to ask for: then the state is
 * 8 KiB longer. Without the magics the kernel takes the legacy area alone. */

enum {
	UC_FP_XSTATE = 1,
	UC_SIGCONTEXT_SS = 2,
	UC_STRICT_RESTORE_SS = 4,
	NO_SUCH_SS_FLAGS = 0x70000000,

	LEGACY_BYTES = 512,
	HEADER_BYTES = 64,
	SW_AT = 464,
	XSTATE_BV_AT = LEGACY_BYTES,
	MAGIC_BYTES = 4,
	XSTATE_MIN_BYTES = 1024,
	CPUID_XSTATE = 0x0d,
	FIRST_EXTENDED = 2,
	NUM_FEATURES = 63,
	FEATURE_PKRU = 9,
	FEATURE_TILE_DATA = 18, /* the one that is there on demand */
};

static const uint32_t magic1 = 0x46505853; /* FP_XSTATE_MAGIC1 */
static const uint32_t magic2 = 0x46505845; /* FP_XSTATE_MAGIC2 */

static void put_u64(uint8_t *buf, size_t at, uint64_t value)
{
	memcpy(buf + at, &value, sizeof(value));
}

static void put_u32(uint8_t *buf, size_t at, uint32_t value)
{
	memcpy(buf + at, &value, sizeof(value));
}

static void put_u16(uint8_t *buf, size_t at, uint16_t value)
{
	memcpy(buf + at, &value, sizeof(value));
}

static uint64_t get_u64(const uint8_t *buf, size_t at)
{
	uint64_t value;

	memcpy(&value, buf + at, sizeof(value));
	return value;
}

void hf_signal_frame_build(const struct hf_signal_frame *frame,
			   uint8_t buf[HF_SIGNAL_FRAME_BYTES])
{
	const struct user_regs_struct *regs = &frame->regs;
	const uint64_t words[] = {
		regs->r8,  regs->r9,  regs->r10, regs->r11, regs->r12,
		regs->r13, regs->r14, regs->r15, regs->rdi, regs->rsi,
		regs->rbp, regs->rbx, regs->rdx, regs->rax, regs->rcx,
		regs->rsp, regs->rip, regs->eflags,
	};

	memset(buf, 0, HF_SIGNAL_FRAME_BYTES);
	put_u64(buf, 0, frame->return_address);
	put_u64(buf, 8, UC_FP_XSTATE | UC_SIGCONTEXT_SS |
			UC_STRICT_RESTORE_SS);
	put_u32(buf, 32, NO_SUCH_SS_FLAGS);
	memcpy(buf + 48, words, sizeof(words));
	put_u16(buf, 192, (uint16_t)regs->cs);
	put_u16(buf, 198, (uint16_t)regs->ss);
	put_u64(buf, 232, frame->fpstate);
	put_u64(buf, 304, frame->mask);
}

size_t hf_xstate_max_bytes(void)
{
	unsigned int eax, ebx, ecx, edx;

	/* ecx is the size with every feature of this CPU. */
	if (!__get_cpuid_count(CPUID_XSTATE, 0, &eax, &ebx, &ecx, &edx) ||
	    ecx < XSTATE_MIN_BYTES)
		return XSTATE_MIN_BYTES;
	return ((size_t)ecx + HF_FPSTATE_ALIGN - 1) / HF_FPSTATE_ALIGN *
	       HF_FPSTATE_ALIGN;
}

/* Where a feature lies in the standard form; false: not in it. */
static bool find_feature(uint32_t feature, size_t *start_ret, size_t *end_ret)
{
	enum { SUPERVISOR = 1 };
	unsigned int eax, ebx, ecx, edx;

	if (!__get_cpuid_count(CPUID_XSTATE, feature, &eax, &ebx, &ecx, &edx))
		return false;
	if (eax == 0 || (ecx & SUPERVISOR))
		return false;
	*start_ret = ebx;
	*end_ret = (size_t)ebx + eax;
	return true;
}

size_t hf_fpstate_default_bytes(uint64_t mask)
{
	size_t bytes = LEGACY_BYTES + HEADER_BYTES, start, end;

	for (uint32_t i = FIRST_EXTENDED; i < NUM_FEATURES; i++)
		if (mask >> i & 1 && i != FEATURE_TILE_DATA &&
		    find_feature(i, &start, &end) && end > bytes)
			bytes = end;
	return bytes;
}

size_t hf_fpstate_bytes(size_t xstate_bytes)
{
	if (xstate_bytes == LEGACY_BYTES)
		return LEGACY_BYTES;
	if (xstate_bytes < LEGACY_BYTES + HEADER_BYTES)
		return 0;
	return (xstate_bytes + MAGIC_BYTES + HF_FPSTATE_ALIGN - 1) /
	       HF_FPSTATE_ALIGN * HF_FPSTATE_ALIGN;
}

/* Memory protection keys start as "all allowed" for XRSTOR, but not for the
 * kernel: ptrace gives the value whether or not its bit is set. */
static uint64_t with_pkru(const uint8_t *xstate, size_t xstate_bytes,
			  uint64_t mask, uint64_t xstate_bv)
{
	size_t start, end;
	uint32_t pkru;

	if (!(mask >> FEATURE_PKRU & 1) ||
	    !find_feature(FEATURE_PKRU, &start, &end) || end > xstate_bytes)
		return xstate_bv;
	memcpy(&pkru, xstate + start, sizeof(pkru));
	return pkru ? xstate_bv | 1u << FEATURE_PKRU :
		      xstate_bv & ~(1ull << FEATURE_PKRU);
}

void hf_fpstate_build(const uint8_t *xstate, size_t xstate_bytes, uint8_t *buf)
{
	uint64_t mask, xstate_bv;
	size_t bytes;

	memset(buf, 0, hf_fpstate_bytes(xstate_bytes));
	memcpy(buf, xstate, xstate_bytes);
	memset(buf + SW_AT, 0, LEGACY_BYTES - SW_AT);
	if (xstate_bytes < LEGACY_BYTES + HEADER_BYTES)
		return;
	mask = get_u64(xstate, SW_AT);
	xstate_bv = with_pkru(xstate, xstate_bytes, mask,
			      get_u64(xstate, XSTATE_BV_AT) & mask);
	bytes = hf_fpstate_default_bytes(mask);
	if (bytes > xstate_bytes || xstate_bv >> FEATURE_TILE_DATA & 1)
		bytes = xstate_bytes;
	else
		mask &= ~(1ull << FEATURE_TILE_DATA);
	put_u64(buf, XSTATE_BV_AT, xstate_bv);
	put_u32(buf, SW_AT, magic1);
	put_u32(buf, SW_AT + 4, (uint32_t)(bytes + MAGIC_BYTES));
	put_u64(buf, SW_AT + 8, mask);
	put_u32(buf, SW_AT + 16, (uint32_t)bytes);
	put_u32(buf, bytes, magic2);
	/* A thread that may have AMX but does not use it has room for it all
	 * the same, and its magic2 is behind that. */
	put_u32(buf, xstate_bytes, magic2);
}
