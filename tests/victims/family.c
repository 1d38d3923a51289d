/* Victim: a process with workers, one of which has a worker of its own.
 * SPDX-License-Identifier: MIT
 *
 * usage: family
 *
 * Prints "member PID NUM_OBJECTS" for each, "ready", and ends with its input.
 * A member holds so many blocks of 333 bytes. The first has most. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OBJECT_BYTES = 333, NUM_WORKERS = 3 };

static void **objects;

static void hold(int num)
{
	objects = malloc((size_t)num * sizeof(*objects));
	for (int i = 0; objects && i < num; i++)
		objects[i] = malloc(OBJECT_BYTES);
	if (!objects)
		abort();
	printf("member %d %d\n", getpid(), num);
	fflush(stdout);
}

static void wait_for_parent(void)
{
	for (;;)
		pause();
}

static void work(int number)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* What the parent held by then is held here, too. */
	hold(100 * (number + 1));
	if (number == 0 && fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		hold(100 * (NUM_WORKERS + 1));
	}
	wait_for_parent();
}

int main(void)
{
	int status;
	char byte;

	for (int i = 0; i < NUM_WORKERS; i++)
		if (fork() == 0)
			work(i);
	hold(20000);
	/* Their lines come in any order; the test counts them. */
	while (read(0, &byte, 1) == 1)
		;
	signal(SIGTERM, SIG_IGN);
	kill(0, SIGTERM);
	while (wait(&status) > 0)
		;
	return 0;
}
