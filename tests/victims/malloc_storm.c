/* Victim: threads that allocate all the time, and write down what they hold.
 * SPDX-License-Identifier: MIT
 *
 * usage: malloc_storm THREADS WORK_US [small | twice]
 *
 * Between groups of eight calls a thread works for WORK_US microseconds, or not
 * at all. With `small` no block is larger than a fastbin's; with `twice` every
 * second thread uses the malloc of a second libc (dlmopen).
 *
 * Prints "log ADDR" and "ready". Lines of its input: "go", "park"; each is
 * answered when all threads do so.
 */
#include "tests/victims/malloc_storm.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* As volatile as the memory it is in: the order of its stores matters. */
static volatile struct storm_log *the_log;
static volatile int going, ending;
static int num_parked; /* atomic */
static long work_us;
static bool is_small;

struct allocator {
	void *(*malloc)(size_t size);
	void *(*calloc)(size_t num, size_t size);
	void *(*realloc)(void *ptr, size_t size);
	void (*free)(void *ptr);
};

static struct allocator allocators[2] = {
	{ malloc, calloc, realloc, free },
	{ malloc, calloc, realloc, free },
};

static uint32_t next_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return *state >> 33;
}

static size_t random_size(uint64_t *state)
{
	uint32_t kind = next_random(state) % 64;

	if (is_small)
		return 1 + next_random(state) % 100;
	if (kind == 0)
		return 140000 + next_random(state) % 100000; /* mapped */
	if (kind < 8)
		return next_random(state) % 20000;
	return 1 + next_random(state) % (kind < 40 ? 120 : 1200);
}

static void one_call(volatile struct storm_thread *thread,
		     const struct allocator *allocator, uint64_t *state)
{
	volatile uint64_t *slot =
		&thread->slots[next_random(state) % STORM_SLOTS];
	size_t size = random_size(state);

	if (*slot && next_random(state) % 4) {
		thread->op_ptr = *slot;
		thread->op = 1;
		*slot = 0;
		allocator->free((void *)thread->op_ptr);
	} else if (*slot) {
		thread->op_ptr = *slot;
		thread->op = 1;
		*slot = 0;
		*slot = (uint64_t)allocator->realloc((void *)thread->op_ptr,
						     size);
	} else {
		thread->op_ptr = 0;
		thread->op = 1;
		*slot = (uint64_t)(next_random(state) % 8 ?
					   allocator->malloc(size) :
					   allocator->calloc(1, size));
	}
	thread->op = 0;
	thread->num_ops++;
}

static void work(void)
{
	struct timespec start, now;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - start.tv_sec) * 1000000 +
		       (now.tv_nsec - start.tv_nsec) / 1000 < work_us);
}

static void *run(void *arg)
{
	volatile struct storm_thread *thread = arg;
	size_t index = (size_t)(thread - the_log->threads);
	const struct allocator *allocator = &allocators[index % 2];
	uint64_t state = index + 1;

	/* Its arena and its tcache. */
	allocator->free(allocator->malloc(10));
	for (;;) {
		if (!going) {
			__atomic_add_fetch(&num_parked, 1, __ATOMIC_SEQ_CST);
			while (!going && !ending)
				usleep(500);
			if (ending)
				return NULL;
			__atomic_sub_fetch(&num_parked, 1, __ATOMIC_SEQ_CST);
		}
		for (int i = 0; i < 8; i++)
			one_call(thread, allocator, &state);
		if (work_us)
			work();
	}
}

#ifndef NO_SECOND
static void *find(void *libc, const char *name)
{
	void *function = dlsym(libc, name);

	if (!function)
		_exit(3);
	return function;
}

static void load_second(void)
{
	void *libc = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);

	if (!libc) {
		printf("cannot load a second libc: %s\n", dlerror());
		_exit(3);
	}
	allocators[1] = (struct allocator){
		(void *(*)(size_t))find(libc, "malloc"),
		(void *(*)(size_t, size_t))find(libc, "calloc"),
		(void *(*)(void *, size_t))find(libc, "realloc"),
		(void (*)(void *))find(libc, "free"),
	};
}
#endif

static void wait_for(int wanted)
{
	while (__atomic_load_n(&num_parked, __ATOMIC_SEQ_CST) != wanted)
		usleep(500);
}

int main(int argc, char **argv)
{
	int num = argc > 2 ? atoi(argv[1]) : 0;
	pthread_t ids[STORM_THREADS];
	char line[16];

	if (num < 1 || num > STORM_THREADS)
		return 2;
	work_us = atol(argv[2]);
	is_small = argc > 3 && strcmp(argv[3], "small") == 0;
#ifndef NO_SECOND
	if (argc > 3 && strcmp(argv[3], "twice") == 0)
		load_second();
#endif
	the_log = mmap(NULL, sizeof(*the_log), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (the_log == MAP_FAILED)
		return 2;
	the_log->num_threads = num;
	for (int i = 0; i < num; i++)
		if (pthread_create(&ids[i], NULL, run,
				   (void *)&the_log->threads[i]))
			return 2;
	wait_for(num);
	printf("log %lu\nready\n", (unsigned long)the_log);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		going = line[0] == 'g';
		wait_for(going ? 0 : num);
		printf("%s", line);
		fflush(stdout);
	}
	ending = 1;
	going = 0;
	for (int i = 0; i < num; i++)
		pthread_join(ids[i], NULL);
	return 0;
}
