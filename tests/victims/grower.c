/* Victim: holds as many blocks as it is told, and tells what happens to it.
 * SPDX-License-Identifier: MIT
 *
 * usage: grower [ARGUMENTS]
 *
 * Prints "pid N", "ignores HEX" (its ignored signals), "blocks HEX" (its
 * blocked ones), "argument TEXT" for each, "ready"; then for each line:
 *	hold N	holds N blocks of 333 bytes more, prints "held TOTAL"
 *	fill N	touches N MiB more, prints "filled"
 *	drop	gives them back, prints "dropped"
 *	exec	becomes this program again
 *	exit N	ends with this code
 * For SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH,
 * SIGABRT: "signal NUMBER"; for SIGRTMIN "value NUMBER". */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { OBJECT_BYTES = 333, MIB = 1 << 20, MAX_OBJECTS = 100000 };

/* Volatile: nobody reads it here, but it has to hold them. */
static void *volatile objects[MAX_OBJECTS];
static int num_objects;
static char *memory;
static size_t memory_bytes;

static void on_signal(int number)
{
	char text[32];
	int len = snprintf(text, sizeof(text), "signal %d\n", number);

	if (write(1, text, (size_t)len) < 0)
		_exit(3);
}

static void on_value(int number, siginfo_t *info, void *context)
{
	char text[32];
	int len = snprintf(text, sizeof(text), "value %d\n",
			   info->si_value.sival_int);

	(void)number;
	(void)context;
	if (write(1, text, (size_t)len) < 0)
		_exit(3);
}

static void say_status(const char *field, const char *name)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, field, strlen(field)))
			printf("%s %s", name, line + strlen(field) + 2);
	if (file)
		fclose(file);
}

static void obey(const char *line, char **argv)
{
	long number = 0;

	sscanf(line, "%*s %ld", &number);
	if (!strncmp(line, "hold", 4)) {
		while (number-- > 0 && num_objects < MAX_OBJECTS)
			objects[num_objects++] = malloc(OBJECT_BYTES);
		printf("held %d\n", num_objects);
	} else if (!strncmp(line, "fill", 4)) {
		memory_bytes = (size_t)number * MIB;
		memory = mmap(NULL, memory_bytes, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED)
			abort();
		memset(memory, 1, memory_bytes);
		printf("filled\n");
	} else if (!strncmp(line, "drop", 4)) {
		munmap(memory, memory_bytes);
		printf("dropped\n");
	} else if (!strncmp(line, "exec", 4)) {
		execv("/proc/self/exe", argv);
		abort();
	} else if (!strncmp(line, "exit", 4)) {
		exit((int)number);
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT,
				       SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH,
				       SIGABRT };
	struct sigaction action = { .sa_handler = on_signal,
				    .sa_flags = SA_RESTART };
	char line[256];

	say_status("SigIgn", "ignores");
	say_status("SigBlk", "blocks");
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &action, NULL);
	action.sa_sigaction = on_value;
	action.sa_flags |= SA_SIGINFO;
	sigaction(SIGRTMIN, &action, NULL);
	printf("pid %d\n", getpid());
	for (int i = 1; i < argc; i++)
		printf("argument %s\n", argv[i]);
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		obey(line, argv);
	return 0;
}
