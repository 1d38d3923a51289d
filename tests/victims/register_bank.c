/* Known values in all registers, for victims.
 * SPDX-License-Identifier: MIT */
#include "tests/victims/register_bank.h"

#include <immintrin.h>
#include <stddef.h>
#include <string.h>

enum { NUM_GPR = 15, NUM_YMM = 16 };

struct bank {
	uint64_t gpr[NUM_GPR];   /* rax rbx rcx rdx rsi rdi rbp r8 .. r15 */
	uint64_t remaining;
	uint32_t mxcsr, pad;
	uint8_t ymm[NUM_YMM][32];
};

/* Load everything from `in`, spin in->remaining times, store into `out`.
 * The spin counter is in memory, addressed from the stack pointer. */
__attribute__((naked, noinline)) static void
spin(const struct bank *in __attribute__((unused)),
     struct bank *out __attribute__((unused)),
     const void *has_avx __attribute__((unused)))
{
	__asm__ volatile(
		"push %rbx\n push %rbp\n push %r12\n push %r13\n"
		"push %r14\n push %r15\n"
		"sub $24, %rsp\n"
		"mov 120(%rdi), %rax\n mov %rax, (%rsp)\n" /* remaining */
		"mov %rsi, 8(%rsp)\n"
		"mov %rdx, 16(%rsp)\n"
		"ldmxcsr 128(%rdi)\n"
		"test %rdx, %rdx\n jz 1f\n"
		"vmovdqu 136+0*32(%rdi), %ymm0\n"
		"vmovdqu 136+1*32(%rdi), %ymm1\n"
		"vmovdqu 136+2*32(%rdi), %ymm2\n"
		"vmovdqu 136+3*32(%rdi), %ymm3\n"
		"vmovdqu 136+4*32(%rdi), %ymm4\n"
		"vmovdqu 136+5*32(%rdi), %ymm5\n"
		"vmovdqu 136+6*32(%rdi), %ymm6\n"
		"vmovdqu 136+7*32(%rdi), %ymm7\n"
		"vmovdqu 136+8*32(%rdi), %ymm8\n"
		"vmovdqu 136+9*32(%rdi), %ymm9\n"
		"vmovdqu 136+10*32(%rdi), %ymm10\n"
		"vmovdqu 136+11*32(%rdi), %ymm11\n"
		"vmovdqu 136+12*32(%rdi), %ymm12\n"
		"vmovdqu 136+13*32(%rdi), %ymm13\n"
		"vmovdqu 136+14*32(%rdi), %ymm14\n"
		"vmovdqu 136+15*32(%rdi), %ymm15\n"
		"1:\n"
		"mov 0(%rdi), %rax\n mov 8(%rdi), %rbx\n"
		"mov 16(%rdi), %rcx\n mov 24(%rdi), %rdx\n"
		"mov 32(%rdi), %rsi\n mov 48(%rdi), %rbp\n"
		"mov 56(%rdi), %r8\n mov 64(%rdi), %r9\n"
		"mov 72(%rdi), %r10\n mov 80(%rdi), %r11\n"
		"mov 88(%rdi), %r12\n mov 96(%rdi), %r13\n"
		"mov 104(%rdi), %r14\n mov 112(%rdi), %r15\n"
		"mov 40(%rdi), %rdi\n"
		"2: decq (%rsp)\n jnz 2b\n"
		"xchg 8(%rsp), %rdi\n"     /* rdi = out, slot = rdi's value */
		"mov %rax, 0(%rdi)\n mov %rbx, 8(%rdi)\n"
		"mov %rcx, 16(%rdi)\n mov %rdx, 24(%rdi)\n"
		"mov %rsi, 32(%rdi)\n mov %rbp, 48(%rdi)\n"
		"mov %r8, 56(%rdi)\n mov %r9, 64(%rdi)\n"
		"mov %r10, 72(%rdi)\n mov %r11, 80(%rdi)\n"
		"mov %r12, 88(%rdi)\n mov %r13, 96(%rdi)\n"
		"mov %r14, 104(%rdi)\n mov %r15, 112(%rdi)\n"
		"mov 8(%rsp), %rax\n mov %rax, 40(%rdi)\n"
		"stmxcsr 128(%rdi)\n"
		"cmpq $0, 16(%rsp)\n jz 3f\n"
		"vmovdqu %ymm0, 136+0*32(%rdi)\n"
		"vmovdqu %ymm1, 136+1*32(%rdi)\n"
		"vmovdqu %ymm2, 136+2*32(%rdi)\n"
		"vmovdqu %ymm3, 136+3*32(%rdi)\n"
		"vmovdqu %ymm4, 136+4*32(%rdi)\n"
		"vmovdqu %ymm5, 136+5*32(%rdi)\n"
		"vmovdqu %ymm6, 136+6*32(%rdi)\n"
		"vmovdqu %ymm7, 136+7*32(%rdi)\n"
		"vmovdqu %ymm8, 136+8*32(%rdi)\n"
		"vmovdqu %ymm9, 136+9*32(%rdi)\n"
		"vmovdqu %ymm10, 136+10*32(%rdi)\n"
		"vmovdqu %ymm11, 136+11*32(%rdi)\n"
		"vmovdqu %ymm12, 136+12*32(%rdi)\n"
		"vmovdqu %ymm13, 136+13*32(%rdi)\n"
		"vmovdqu %ymm14, 136+14*32(%rdi)\n"
		"vmovdqu %ymm15, 136+15*32(%rdi)\n"
		"vzeroupper\n"
		"3: add $24, %rsp\n"
		"pop %r15\n pop %r14\n pop %r13\n pop %r12\n"
		"pop %rbp\n pop %rbx\n ret\n");
}

_Static_assert(offsetof(struct bank, remaining) == 120, "as in the code");
_Static_assert(offsetof(struct bank, mxcsr) == 128, "as in the code");
_Static_assert(offsetof(struct bank, ymm) == 136, "as in the code");

bool register_bank_lap(uint64_t seed, uint64_t num_turns)
{
	const char *avx = __builtin_cpu_supports("avx") ? "" : NULL;
	struct bank in = { .remaining = num_turns }, out = { 0 };
	uint64_t x = seed | 1;

	for (int i = 0; i < NUM_GPR; i++)
		in.gpr[i] = x = x * 6364136223846793005u + 1442695040888963407u;
	for (size_t i = 0; i < sizeof(in.ymm); i++)
		in.ymm[i / 32][i % 32] = (uint8_t)(x = x * 31 + i);
	in.mxcsr = 0x1f80 | 3u << 13; /* round towards zero */
	spin(&in, &out, avx);
	_mm_setcsr(0x1f80);
	return !memcmp(in.gpr, out.gpr, sizeof(in.gpr)) &&
	       (in.mxcsr & ~0x3fu) == (out.mxcsr & ~0x3fu) &&
	       (!avx || !memcmp(in.ymm, out.ymm, sizeof(in.ymm)));
}
