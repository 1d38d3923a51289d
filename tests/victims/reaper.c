/* Victim: takes every child it gets notice of, and knows its own.
 * SPDX-License-Identifier: MIT
 *
 * usage: reaper handler   SIGCHLD has a handler, which waits for any child
 *        reaper loop      a loop waits for any child, blocking
 *        reaper ignored   SIGCHLD is ignored: the kernel reaps
 *        reaper nocldwait SIGCHLD has a handler with SA_NOCLDWAIT
 *
 * It forks one child after the other, each of which ends with its own code. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CODE = 9 };

static atomic_long num_own, num_handled, num_wrong;
static volatile sig_atomic_t expected; /* pid; 0: none */
static int do_reap;

static void take(pid_t pid, int status)
{
	if (pid != expected || !WIFEXITED(status) || WEXITSTATUS(status) != CODE)
		atomic_fetch_add(&num_wrong, 1);
	else
		atomic_fetch_add(&num_own, 1);
	expected = 0;
}

static void on_child(int signal_number)
{
	int saved = errno, status;
	pid_t pid;

	(void)signal_number;
	atomic_fetch_add(&num_handled, 1);
	while (do_reap && (pid = waitpid(-1, &status, WNOHANG)) > 0)
		take(pid, status);
	errno = saved;
}

static int input_ended(void)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };

	return poll(&input, 1, 0) > 0;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	int is_loop = !strcmp(mode, "loop");
	int is_ignored = !strcmp(mode, "ignored");
	int is_nocldwait = !strcmp(mode, "nocldwait");
	struct sigaction action = {
		.sa_handler = is_ignored ? SIG_IGN : on_child,
		.sa_flags = is_nocldwait ? SA_NOCLDWAIT : 0,
	};
	long num_forked = 0;
	sigset_t child, before;

	do_reap = !strcmp(mode, "handler");
	if (!is_loop)
		sigaction(SIGCHLD, &action, NULL);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	printf("ready\n");
	fflush(stdout);
	while (!input_ended()) {
		int status;
		pid_t pid;

		sigprocmask(SIG_BLOCK, &child, &before);
		pid = fork();
		if (pid == 0) {
			usleep(3000);
			_exit(CODE);
		}
		if (pid < 0)
			return 2;
		num_forked++;
		expected = pid;
		if (do_reap) {
			while (expected)
				sigsuspend(&before);
			sigprocmask(SIG_SETMASK, &before, NULL);
			continue;
		}
		sigprocmask(SIG_SETMASK, &before, NULL);
		if (is_loop) {
			pid = waitpid(-1, &status, 0);
			take(pid, pid > 0 ? status : -1);
			/* Nobody else was there. */
			if (waitpid(-1, &status, WNOHANG) != -1 ||
			    errno != ECHILD)
				num_wrong++;
			continue;
		}
		/* The kernel reaps: this ends with ECHILD when it has. */
		while ((pid = waitpid(-1, &status, 0)) < 0 && errno == EINTR)
			;
		num_wrong += pid != -1 || errno != ECHILD;
		num_own++;
	}
	if (do_reap || is_nocldwait)
		num_wrong += num_handled != num_forked;
	printf("num_own %ld\nnum_forked %ld\nnum_wrong %ld\n", num_own,
	       num_forked, num_wrong);
	return num_wrong || num_own != num_forked;
}
