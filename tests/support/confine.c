/* Runs a command under a seccomp filter that forbids some system calls.
 * SPDX-License-Identifier: MIT
 *
 * usage: confine ptrace|readv|both|kill-ptrace COMMAND [ARGUMENT...] */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int forbid(unsigned int first, unsigned int second, unsigned int action)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, second, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, action),
	};
	struct sock_fprog program = {
		.len = sizeof(filter) / sizeof(filter[0]),
		.filter = filter,
	};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0;
}

int main(int argc, char **argv)
{
	const unsigned int refuse = SECCOMP_RET_ERRNO | EPERM;
	int failed;

	if (argc < 3)
		return 125;
	if (!strcmp(argv[1], "ptrace"))
		failed = forbid(SYS_ptrace, SYS_ptrace, refuse);
	else if (!strcmp(argv[1], "readv"))
		failed = forbid(SYS_process_vm_readv, SYS_process_vm_readv,
				refuse);
	else if (!strcmp(argv[1], "both"))
		failed = forbid(SYS_ptrace, SYS_process_vm_readv, refuse);
	else if (!strcmp(argv[1], "kill-ptrace"))
		failed = forbid(SYS_ptrace, SYS_ptrace,
				SECCOMP_RET_KILL_PROCESS);
	else
		return 125;
	if (failed) {
		perror("confine");
		return 126;
	}
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 127;
}
