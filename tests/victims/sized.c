/* Victim: as much memory, in pages of a kind, and as many threads as told.
 * SPDX-License-Identifier: MIT
 *
 * usage: sized MIB small|huge [THREADS]; sized THOUSANDS blocks
 *
 * Prints "skipped" if there are no such pages here. Sleeps until its input
 * ends. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE_BYTES = 2 << 20 };

static void *sleeper(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static long huge_kb(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	char line[256];
	long kb = 0;

	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "AnonHugePages: %ld", &kb);
	if (file)
		fclose(file);
	return kb;
}

static int fill(size_t bytes, int huge)
{
	char *ptr = mmap(NULL, bytes + HUGE_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (ptr == MAP_FAILED)
		return 0;
	ptr = (char *)(((uintptr_t)ptr + HUGE_BYTES - 1) &
		       ~(uintptr_t)(HUGE_BYTES - 1));
	madvise(ptr, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	if (madvise(ptr, bytes, 23 /* MADV_POPULATE_WRITE */) != 0)
		memset(ptr, 1, bytes);
	return !huge || (size_t)huge_kb() * 1024 > bytes / 10 * 9;
}

/* A chain of so many small objects. */
static void *chain(size_t num)
{
	void **first = NULL;

	while (num--) {
		void **block = malloc(24);

		if (!block)
			exit(2);
		*block = first;
		first = block;
	}
	return first;
}

int main(int argc, char **argv)
{
	size_t size = argc > 1 ? strtoull(argv[1], NULL, 10) : 8;
	const char *kind = argc > 2 ? argv[2] : "small";
	int num_threads = argc > 3 ? atoi(argv[3]) : 0;
	void *volatile keep = NULL;

	if (!strcmp(kind, "blocks"))
		keep = chain(size * 1000);
	else if (!fill(size << 20, !strcmp(kind, "huge")))
		puts("skipped");
	for (int i = 0; i < num_threads; i++) {
		pthread_t thread;
		pthread_attr_t attr;

		pthread_attr_init(&attr);
		pthread_attr_setstacksize(&attr, 64 << 10);
		if (pthread_create(&thread, &attr, sleeper, NULL))
			return 2;
	}
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return keep == (void *)1;
}
