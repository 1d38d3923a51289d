/* Victim: spins with known values in all registers and verifies them; and
 * keeps two words of memory in step with a register.
 * SPDX-License-Identifier: MIT
 *
 * usage: registers [THREADS]   (0: the main thread spins itself)
 *
 * Prints "counter ADDRESS" of struct counter: see below. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/victims/register_bank.h"

enum { TURNS = 300000 };

static atomic_long num_laps, num_wrong;
static atomic_int stopping;

static void lap(uint64_t seed)
{
	if (!register_bank_lap(seed, TURNS))
		atomic_fetch_add(&num_wrong, 1);
	atomic_fetch_add(&num_laps, 1);
}

static void *spinner(void *arg)
{
	uint64_t seed = (uintptr_t)arg;

	while (!atomic_load(&stopping))
		lap(seed++ * 0x9e3779b97f4a7c15u);
	return NULL;
}

/* r12 is counted up, then stored to `first`, then to `second`, which are on
 * different pages. So at any instant second <= first <= r12 <= second + 1. */
static struct counter {
	uint64_t first;
	char gap[2 * 4096];
	uint64_t second;
} counter __attribute__((aligned(4096)));

static void *count(void *arg)
{
	(void)arg;
	while (!atomic_load(&stopping))
		__asm__ volatile("mov %0, %%r12\n"
				 "mov $100000, %%ecx\n"
				 "1: inc %%r12\n"
				 "mov %%r12, %0\n"
				 "mov %%r12, %1\n"
				 "dec %%ecx\n jnz 1b\n"
				 : "+m"(counter.first), "+m"(counter.second)
				 :
				 : "rcx", "r12", "memory");
	return NULL;
}

int main(int argc, char **argv)
{
	int num_threads = argc > 1 ? atoi(argv[1]) : 2;
	struct pollfd input = { .fd = 0, .events = POLLIN };
	pthread_t ids[64], counter_id;

	printf("first %#lx\nsecond %#lx\n", (long)&counter.first,
	       (long)&counter.second);
	if (num_threads > 0 &&
	    pthread_create(&counter_id, NULL, count, NULL))
		return 2;
	for (int i = 0; i < num_threads && i < 64; i++)
		if (pthread_create(&ids[i], NULL, spinner,
				   (void *)(uintptr_t)(i + 1)))
			return 2;
	if (num_threads > 0)
		pthread_setname_np(counter_id, "counter");
	printf("ready\n");
	fflush(stdout);
	if (num_threads > 0)
		poll(&input, 1, -1);
	else
		while (poll(&input, 1, 0) == 0)
			lap((uint64_t)num_laps);
	atomic_store(&stopping, 1);
	for (int i = 0; i < num_threads && i < 64; i++)
		pthread_join(ids[i], NULL);
	if (num_threads > 0)
		pthread_join(counter_id, NULL);
	printf("num_laps %ld\nnum_wrong %ld\n", num_laps, num_wrong);
	return num_wrong != 0;
}
