/* Victim: has mappings of 4 KiB pages, full and not, and watches their bytes.
 * SPDX-License-Identifier: MIT
 *
 * usage: small_pages [MIB]   (of the full one; default 64)
 *
 * Prints "map NAME START END" in hexadecimal. A thread goes on writing to the
 * full one. "exec" on standard input makes it start itself again, with the
 * same argument; "leave" ends its main thread, and it prints "left"; the end of
 * it makes it check all. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, HUGE = 2 << 20, WORDS = PAGE / 8 };

static uint64_t value_of(const uint64_t *word)
{
	return (uintptr_t)word * UINT64_C(0x9e3779b97f4a7c15) | 1;
}

/* Aligned, so that the blocks in it are known. */
static uint64_t *map(const char *name, size_t bytes)
{
	char *ptr = mmap(NULL, bytes + 2 * HUGE, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *start;

	if (ptr == MAP_FAILED)
		exit(2);
	start = (char *)(((uintptr_t)ptr + HUGE) & ~(uintptr_t)(HUGE - 1));
	if (mprotect(start, bytes, PROT_READ | PROT_WRITE))
		exit(2);
	printf("map %s %lx %lx\n", name, (unsigned long)start,
	       (unsigned long)start + bytes);
	return (uint64_t *)start;
}

/* Word 0 of each page is left to the writer. @param skip each so many pages
 * one is left out; 0: none. */
static void fill(uint64_t *words, size_t bytes, size_t skip)
{
	for (size_t i = 0; i < bytes / 8; i++) {
		if (skip && i / WORDS % skip == skip - 1)
			continue;
		words[i] = i % WORDS ? value_of(&words[i]) : 0;
	}
}

/* A page that was not there is zero, and stays so. */
static size_t num_wrong(const uint64_t *words, size_t bytes, size_t skip)
{
	size_t num = 0;

	for (size_t i = 0; i < bytes / 8; i++) {
		if (skip && i / WORDS % skip == skip - 1)
			num += words[i] != 0;
		else if (i % WORDS)
			num += words[i] != value_of(&words[i]);
	}
	return num;
}

static uint64_t *full;
static size_t full_bytes;
static atomic_bool stopping;
static atomic_ulong num_laps;

/* Count up word 0 of each page, page after page. */
static void *write_on(void *arg)
{
	(void)arg;
	while (!atomic_load(&stopping)) {
		for (size_t i = 0; i < full_bytes / 8; i += WORDS)
			((volatile uint64_t *)full)[i]++;
		num_laps++;
		usleep(1000);
	}
	return NULL;
}

static size_t num_lost(void)
{
	size_t num = 0;

	for (size_t i = 0; i < full_bytes / 8; i += WORDS)
		num += full[i] != num_laps;
	return num;
}

static uint64_t *shared, *holes, *forbidden;
static const size_t some_bytes = 8 << 20, hole = 512;
static pthread_t writer;
static pid_t child;

/* Until the input ends; then the whole process does. */
static void *check_at_end(void *arg)
{
	size_t wrong, lost;
	char byte;

	(void)arg;
	while (read(0, &byte, 1) == 1)
		;
	atomic_store(&stopping, true);
	pthread_join(writer, NULL);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	wrong = num_wrong(full, full_bytes, 0) +
		num_wrong(shared, some_bytes, 0) +
		num_wrong(holes, some_bytes, hole) +
		num_wrong(forbidden, some_bytes, 0);
	lost = num_lost();
	printf("num_laps %lu\nnum_wrong %zu\nnum_lost %zu\n", num_laps, wrong,
	       lost);
	exit(wrong || lost || !num_laps);
}

int main(int argc, char **argv)
{
	char line[16] = "";
	pthread_t id;

	full_bytes = (size_t)(argc > 1 ? atoi(argv[1]) : 64) << 20;
	/* Whatever this machine does by itself: small pages for a start. */
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	shared = map("shared", some_bytes);
	fill(shared, some_bytes, 0);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	holes = map("holes", some_bytes);
	fill(holes, some_bytes, hole);
	forbidden = map("forbidden", some_bytes);
	madvise(forbidden, some_bytes, MADV_NOHUGEPAGE);
	fill(forbidden, some_bytes, 0);
	full = map("full", full_bytes);
	fill(full, full_bytes, 0);
	prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);

	if (child < 0 || pthread_create(&writer, NULL, write_on, NULL))
		return 2;
	while (!num_laps)
		usleep(100);
	printf("ready\n");
	fflush(stdout);
	if (fgets(line, sizeof(line), stdin) && !strcmp(line, "exec\n")) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		execv(argv[0], argv);
		return 2;
	}
	if (!strcmp(line, "leave\n")) {
		if (pthread_create(&id, NULL, check_at_end, NULL))
			return 2;
		printf("left\n");
		fflush(stdout);
		pthread_exit(NULL);
	}
	check_at_end(NULL);
}
