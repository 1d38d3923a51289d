/* Victim: a signal handler on a stack that is an array of main's.
 * SPDX-License-Identifier: MIT
 *
 * usage: nested NUM_THREADS
 *
 * Below the array are frames with known bytes; main stands in the handler for
 * each line of stdin, NUM_THREADS others sleep. Prints "ready", for each line
 * "intact" or "spoiled", and at the end the same. A second copy of the program
 * prints "copy". */
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Not more than the handler needs. */
enum { ALT_ROOM_BYTES = 1536, FRAME_BYTES = 1024, DEPTH = 48 };

static volatile uint8_t *frames[DEPTH];
static pid_t own_pid;

static const char *look(void)
{
	if (syscall(SYS_getpid) != own_pid)
		return "copy\n";
	for (int i = 0; i < DEPTH; i++)
		for (int k = 0; k < FRAME_BYTES; k++)
			if (frames[i][k] != (uint8_t)(i + k))
				return "spoiled\n";
	return "intact\n";
}

/* No stdio: the handler needs no stack to speak of. */
static void say(const char *text)
{
	if (write(STDOUT_FILENO, text, strlen(text)) < 0)
		_exit(98);
}

static void on_signal(int signal_number)
{
	char byte;

	(void)signal_number;
	say("ready\n");
	while (read(STDIN_FILENO, &byte, 1) == 1)
		if (byte == '\n')
			say(look());
}

__attribute__((noinline)) static void go_down(int depth)
{
	volatile uint8_t frame[FRAME_BYTES];

	frames[depth] = frame;
	for (int k = 0; k < FRAME_BYTES; k++)
		frame[k] = (uint8_t)(depth + k);
	if (depth + 1 < DEPTH)
		go_down(depth + 1);
	if (depth + 1 < DEPTH)
		return;
	raise(SIGUSR1);
	say(look());
}

static void *sleep_long(void *arg)
{
	for (;;)
		pause();
	return arg;
}

int main(int argc, char **argv)
{
	struct sigaction action = {
		.sa_handler = on_signal,
		.sa_flags = SA_ONSTACK,
	};
	long num_bytes = sysconf(_SC_MINSIGSTKSZ) + ALT_ROOM_BYTES;
	stack_t stack = { .ss_sp = alloca((size_t)num_bytes),
			  .ss_size = (size_t)num_bytes };

	own_pid = getpid();
	for (int i = 0; argc > 1 && i < atoi(argv[1]); i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, sleep_long, NULL))
			return 2;
	}
	if (sigaltstack(&stack, NULL) || sigaction(SIGUSR1, &action, NULL))
		return 2;
	go_down(0);
	return 0;
}
