/* Victim: lives under seccomp, is not dumpable, or may not fork.
 * SPDX-License-Identifier: MIT
 *
 * usage: confined errno|trap|kill|strict|undumpable|nproc|plain
 *
 * Answers each line with "alive". */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What a capture needs in the target: clone, close_range, wait4. */
static int forbid(unsigned int action)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_wait4, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 1, 0),
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
	const char *mode = argc > 1 ? argv[1] : "plain";
	static const char ready[] = "ready\n", alive[] = "alive\n";
	const struct rlimit no_more = { 1, 1 };
	char byte;

	if (!strcmp(mode, "errno") && forbid(SECCOMP_RET_ERRNO | EAGAIN))
		return 2;
	if (!strcmp(mode, "trap") && forbid(SECCOMP_RET_TRAP))
		return 2;
	if (!strcmp(mode, "kill") && forbid(SECCOMP_RET_KILL_PROCESS))
		return 2;
	if (!strcmp(mode, "strict") &&
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) < 0)
		return 2;
	if (!strcmp(mode, "undumpable") && prctl(PR_SET_DUMPABLE, 0) < 0)
		return 2;
	if (!strcmp(mode, "nproc") && setrlimit(RLIMIT_NPROC, &no_more) < 0)
		return 2;
	/* Strict mode allows read, write, and exit: no stdio. */
	if (write(1, ready, sizeof(ready) - 1) < 0)
		return 2;
	while (read(0, &byte, 1) == 1)
		if (byte == '\n' && write(1, alive, sizeof(alive) - 1) < 0)
			break;
	syscall(SYS_exit, 0);
	return 1;
}
