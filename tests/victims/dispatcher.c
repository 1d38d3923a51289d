/* Victim: gets a signal instead of its system calls, and makes them itself.
 * SPDX-License-Identifier: MIT
 *
 * usage: dispatcher alone   its only thread does (syscall user dispatch)
 *        dispatcher two     another thread makes its calls as usual
 *
 * Answers each line with "alive". Any redirected call but its own read and
 * write is one too many. Exit code 77: this kernel has no such thing. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_OFF 0
#define PR_SYS_DISPATCH_ON 1
#endif

enum { ALLOW = 0, BLOCK = 1 }; /* SYSCALL_DISPATCH_FILTER_… */

/* The code whose calls the kernel executes: one system call, and the return
 * from a handler. */
extern const char exempt_start[], exempt_end[];
void exempt_return(void);
long exempt_call(long number, long a, long b, long c);
__asm__(".pushsection .text\n"
	"exempt_start:\n"
	"exempt_call:\n"
	"	mov %rdi, %rax\n"
	"	mov %rsi, %rdi\n"
	"	mov %rdx, %rsi\n"
	"	mov %rcx, %rdx\n"
	"	syscall\n"
	"	ret\n"
	"exempt_return:\n"
	"	mov $15, %eax\n"
	"	syscall\n"
	"	ud2\n"
	"exempt_end:\n"
	".popsection\n");

/* What rt_sigaction(2) takes on x86-64. */
struct kernel_action {
	void (*handler)(int, siginfo_t *, void *);
	unsigned long flags;
	void (*restorer)(void);
	unsigned long mask;
};

static volatile char selector = ALLOW;
static long num_reads, num_writes, num_wrong;
static atomic_int stopping;
static atomic_long num_plain;

static void on_call(int signal_number, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;

	(void)signal_number;
	if (info->si_code != 2 /* SYS_USER_DISPATCH */) {
		num_wrong++;
		return;
	}
	num_reads += info->si_syscall == SYS_read;
	num_writes += info->si_syscall == SYS_write;
	if (info->si_syscall != SYS_read && info->si_syscall != SYS_write) {
		num_wrong++;
		regs[REG_RAX] = -ENOSYS;
		return;
	}
	regs[REG_RAX] = exempt_call(info->si_syscall, regs[REG_RDI],
				    regs[REG_RSI], regs[REG_RDX]);
}

static void *call_as_usual(void *arg)
{
	(void)arg;
	while (!atomic_load(&stopping)) {
		syscall(SYS_getppid);
		atomic_fetch_add(&num_plain, 1);
		usleep(1000);
	}
	return NULL;
}

static int redirect(void)
{
	struct kernel_action action = {
		.handler = on_call,
		.flags = SA_SIGINFO | 0x04000000 /* SA_RESTORER */,
		.restorer = exempt_return,
	};

	if (syscall(SYS_rt_sigaction, SIGSYS, &action, NULL, 8) < 0)
		return 2;
	return prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON,
		     exempt_start, (unsigned long)(exempt_end - exempt_start),
		     &selector) < 0 ? 77 : 0;
}

int main(int argc, char **argv)
{
	int is_two = argc > 1 && !strcmp(argv[1], "two");
	long lines = 0;
	pthread_t other;
	char byte;
	int rc;

	if (is_two && pthread_create(&other, NULL, call_as_usual, NULL))
		return 2;
	rc = redirect();
	if (rc)
		return rc;
	selector = BLOCK;
	rc = write(1, "ready\n", 6) != 6;
	while (read(0, &byte, 1) == 1 && byte == '\n') {
		lines++;
		rc |= write(1, "alive\n", 6) != 6;
	}
	selector = ALLOW;
	prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0);
	atomic_store(&stopping, 1);
	if (is_two)
		pthread_join(other, NULL);
	num_wrong += num_reads != lines + 1 || num_writes != lines + 1;
	printf("num_redirected %ld\nnum_plain %ld\nnum_wrong %ld\n",
	       num_reads + num_writes, atomic_load(&num_plain), num_wrong);
	return rc || num_wrong;
}
