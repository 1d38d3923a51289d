/* Run a command that any process of the same user may look at with ptrace.
 * SPDX-License-Identifier: MIT
 *
 * usage: allow-ptrace COMMAND [ARGUMENT...]
 *
 * Where kernel.yama.ptrace_scope is 1 (the default of many distributions) a
 * process may trace only its descendants. A process can lift this for itself
 * before it becomes COMMAND; children it makes later are not included. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: allow-ptrace COMMAND [ARGUMENT...]\n");
		return 2;
	}
	/* EINVAL: this kernel has no Yama, nothing to lift. */
	if (prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0) < 0 &&
	    errno != EINVAL) {
		perror("allow-ptrace: prctl");
		return 1;
	}
	execvp(argv[1], argv + 1);
	fprintf(stderr, "allow-ptrace: cannot run '%s': %s\n", argv[1],
		strerror(errno));
	return 127;
}
