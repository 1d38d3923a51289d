/* Victim: heaps of every shape, by scenario, then stands still.
 * SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* Usage: malloc_log SCENARIO. The allocation log (tests/support/alloc_log.h)
 * says what is live. When all is built, one line goes to standard output:
 *
 *   ready PID arena ordblks hblks hblkhd fsmblks uordblks fordblks keepcost
 *
 * with the numbers of mallinfo2(), and the process waits to be killed. */

static void stand_still(void)
{
	struct mallinfo2 m = mallinfo2();
	char line[256];
	int len = snprintf(line, sizeof(line),
			   "ready %d %zu %zu %zu %zu %zu %zu %zu %zu\n",
			   getpid(), m.arena, m.ordblks, m.hblks, m.hblkhd,
			   m.fsmblks, m.uordblks, m.fordblks, m.keepcost);

	if (write(STDOUT_FILENO, line, len) != len)
		_exit(1);
	for (;;)
		pause();
}

/* A fixed sequence for each thread: the same heap every time. */
struct rng {
	uint64_t state;
};

static uint32_t rng_next(struct rng *rng)
{
	rng->state = rng->state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return rng->state >> 33;
}

static size_t random_size(struct rng *rng)
{
	switch (rng_next(rng) % 8) {
	case 0:
		return rng_next(rng) % 24;
	case 1:
	case 2:
	case 3:
		return rng_next(rng) % 200;
	case 4:
	case 5:
		return rng_next(rng) % 1100;
	case 6:
		return 640 + rng_next(rng) % 4; /* the size of a tcache */
	default:
		return rng_next(rng) % 20000;
	}
}

enum { NUM_SLOTS = 4096 };

/* Allocate, resize and free at random; half of the slots end up full. */
static void churn(struct rng *rng, void **slots, size_t num_slots,
		  size_t num_steps)
{
	for (size_t i = 0; i < num_steps; i++) {
		void **slot = &slots[rng_next(rng) % num_slots];
		size_t size = random_size(rng);

		switch (rng_next(rng) % 8) {
		case 0:
		case 1:
		case 2:
			free(*slot);
			*slot = NULL;
			break;
		case 3:
			*slot = realloc(*slot, size + 1);
			memset(*slot, 0xa5, size + 1);
			break;
		case 4:
			free(*slot);
			*slot = calloc(1, size);
			break;
		case 5:
			free(*slot);
			*slot = NULL;
			if (posix_memalign(slot, 16u << rng_next(rng) % 8,
					   size) == 0)
				memset(*slot, 0x5a, size);
			break;
		default:
			free(*slot);
			*slot = malloc(size);
			memset(*slot, 0xff, size);
		}
	}
}

static void single(void)
{
	static void *slots[NUM_SLOTS];
	struct rng rng = { 1 };

	churn(&rng, slots, NUM_SLOTS, 60000);
}

/* Threads exchange what they free through one array. */
static void *volatile shared_slots[NUM_SLOTS];
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;

static void *worker(void *arg)
{
	uintptr_t id = (uintptr_t)arg;
	struct rng rng = { id + 100 };
	void *slots[256] = { 0 };

	churn(&rng, slots, 256, 4000);
	for (int i = 0; i < 4000; i++) {
		size_t index = rng_next(&rng) % NUM_SLOTS;
		void *mine = malloc(random_size(&rng)), *old;

		pthread_mutex_lock(&shared_lock);
		old = shared_slots[index];
		shared_slots[index] = mine;
		pthread_mutex_unlock(&shared_lock);
		free(old);
	}
	if (id & 64) { /* what is left in its slots leaks */
		pthread_barrier_wait(&barrier);
		return NULL;
	}
	pthread_barrier_wait(&barrier);
	for (;;)
		pause();
	return NULL;
}

static void run_threads(int num_staying, int num_exiting)
{
	pthread_t threads[64];

	pthread_barrier_init(&barrier, NULL, num_staying + num_exiting + 1);
	for (int i = 0; i < num_staying + num_exiting; i++) {
		uintptr_t id = i < num_staying ? i : i + 64;

		if (pthread_create(&threads[i], NULL, worker, (void *)id) != 0)
			_exit(1);
	}
	single();
	pthread_barrier_wait(&barrier);
	for (int i = num_staying; i < num_staying + num_exiting; i++)
		pthread_join(threads[i], NULL);
}

/* A thread that needs several heaps of 64 MiB, and gives some back. */
static void *heap_eater(void *arg)
{
	static void *blocks[4096];

	(void)arg;
	for (int i = 0; i < 2400; i++)
		blocks[i] = malloc(100000 + i % 7 * 16);
	for (int i = 0; i < 2400; i += 3)
		free(blocks[i]);
	pthread_barrier_wait(&barrier);
	for (;;)
		pause();
	return NULL;
}

static void heaps(void)
{
	pthread_t thread;

	mallopt(M_MMAP_THRESHOLD, 1 << 20);
	pthread_barrier_init(&barrier, NULL, 2);
	if (pthread_create(&thread, NULL, heap_eater, NULL) != 0)
		_exit(1);
	pthread_barrier_wait(&barrier);
}

/* Sizes around the end of a heap: its last fenceposts in every form. */
static void *fence_maker(void *arg)
{
	size_t step = (uintptr_t)arg;
	size_t used = 0;

	/* Fill one heap of 64 MiB nearly, then by small steps over its end. */
	while (used < (64u << 20) - (300u << 10)) {
		if (!malloc(65536 - 8))
			_exit(1);
		used += 65536;
	}
	for (int i = 0; i < 40000; i++) {
		if (!malloc(step))
			_exit(1);
	}
	pthread_barrier_wait(&barrier);
	for (;;)
		pause();
	return NULL;
}

static void fences(void)
{
	pthread_t thread;

	pthread_barrier_init(&barrier, NULL, 9);
	for (uintptr_t i = 0; i < 8; i++) {
		if (pthread_create(&thread, NULL, fence_maker,
				   (void *)(16 * i + 8)) != 0)
			_exit(1);
	}
	pthread_barrier_wait(&barrier);
}

static void large(void)
{
	static void *blocks[256];
	struct rng rng = { 3 };

	for (int i = 0; i < 256; i++) {
		size_t size = 100000 + rng_next(&rng) % 3000000;

		blocks[i] = i % 3 ? malloc(size) : calloc(1, size);
	}
	for (int i = 0; i < 256; i++) {
		size_t size = 50000 + rng_next(&rng) % 5000000;

		if (i % 4 == 0) {
			free(blocks[i]);
			blocks[i] = NULL;
		} else if (i % 4 == 1) {
			blocks[i] = realloc(blocks[i], size);
		}
	}
}

static void large_fixed(void)
{
	mallopt(M_MMAP_THRESHOLD, 65536);
	single();
	large();
}

static void small_threshold(void)
{
	mallopt(M_MMAP_THRESHOLD, 4096);
	single();
}

static void aligned(void)
{
	static void *blocks[1024];
	struct rng rng = { 5 };

	for (int i = 0; i < 1024; i++) {
		size_t align = (size_t)16 << rng_next(&rng) % 20;
		size_t size = rng_next(&rng) % 300000;

		if (i % 64 == 0)
			size += 1 << 20;
		switch (i % 3) {
		case 0:
			blocks[i] = memalign(align, size);
			break;
		case 1:
			if (posix_memalign(&blocks[i], align, size) != 0)
				_exit(1);
			break;
		default:
			blocks[i] = aligned_alloc(align, size);
		}
	}
	for (int i = 0; i < 1024; i++) {
		if (i % 5 == 0) {
			free(blocks[i]);
			blocks[i] = NULL;
		} else if (i % 5 == 1) {
			blocks[i] = realloc(blocks[i],
					    rng_next(&rng) % 600000);
		}
	}
}

static void aligned_mmapped(void)
{
	mallopt(M_MMAP_THRESHOLD, 32768);
	aligned();
}

/* brk cannot grow: something stands right behind it. */
static void *put_obstacle(void)
{
	char *brk = (char *)(((uintptr_t)sbrk(0) + 4095) & ~(uintptr_t)4095);
	void *map = mmap(brk, 4096, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
			 0);

	if (map != brk)
		_exit(1);
	return map;
}

static void noncontiguous(void)
{
	static void *slots[NUM_SLOTS];
	struct rng rng = { 7 };
	void *obstacle;

	mallopt(M_MMAP_THRESHOLD, 1 << 20);
	churn(&rng, slots, NUM_SLOTS, 20000);
	obstacle = put_obstacle();
	for (int i = 0; i < 100; i++) {
		if (!malloc(30000 + 16 * i))
			_exit(1);
	}
	churn(&rng, slots, NUM_SLOTS, 60000);
	/* a mapping of the program's own among the segments */
	memset(mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 0x11, 1 << 20);
	large();
	/* now brk grows again, right behind its first part */
	munmap(obstacle, 4096);
	/* glibc 2.36 gives NULL when freeing the old top trims the new one. */
	for (int i = 0; i < 100; i++)
		shared_slots[i] = malloc(300000 + 16 * i);
	churn(&rng, slots, NUM_SLOTS, 60000);
}

/* The mapping right behind the heap is a readable one, of chunks even. */
static void blocked(void)
{
	static void *slots[NUM_SLOTS];
	struct rng rng = { 8 };
	char *brk;

	churn(&rng, slots, NUM_SLOTS, 20000);
	brk = (char *)(((uintptr_t)sbrk(0) + 4095) & ~(uintptr_t)4095);
	brk = mmap(brk, 1 << 20, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (brk == MAP_FAILED)
		_exit(1);
	memset(brk, 0x21, 1 << 20);
	churn(&rng, slots, NUM_SLOTS, 60000);
}

/* No brk from a limit: private mappings are limited too, so leave room. */
static void limited(void)
{
	static void *slots[NUM_SLOTS];
	struct rng rng = { 9 };
	struct rlimit none = { 1 << 20, 1 << 20 };

	churn(&rng, slots, NUM_SLOTS, 3000);
	setrlimit(RLIMIT_DATA, &none);
	for (int i = 0; i < 20000; i++) { /* until nothing is left */
		if (!malloc(100 + i % 900))
			break;
	}
}

/* Others use sbrk too. */
static void foreign_sbrk(void)
{
	static void *slots[NUM_SLOTS];
	struct rng rng = { 11 };

	for (int i = 0; i < 20; i++) {
		churn(&rng, slots, NUM_SLOTS, 2000);
		memset(sbrk(1000 + 16 * i), 0x41, 1000 + 16 * i);
		/* more than top has: the next chunk is behind the gap */
		if (!malloc(malloc_usable_size(malloc(100)) + 130000))
			_exit(1);
	}
	churn(&rng, slots, NUM_SLOTS, 20000);
}

static void fast(void)
{
	static void *blocks[60000];
	struct rng rng = { 13 };

	for (int i = 0; i < 60000; i++)
		blocks[i] = malloc(rng_next(&rng) % 120);
	for (int i = 0; i < 60000; i++) {
		if (rng_next(&rng) % 3)
			free(blocks[i]);
	}
}

static void trimmed(void)
{
	static void *blocks[20000];

	mallopt(M_TOP_PAD, 1 << 20);
	for (int i = 0; i < 20000; i++)
		blocks[i] = malloc(500);
	for (int i = 19999; i > 2000; i--)
		free(blocks[i]);
	malloc_trim(4096);
}

/* The target is a child: of several threads it has only the forking one. */
static void forked(void)
{
	run_threads(6, 2);
	if (fork() != 0) {
		for (;;)
			pause();
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < 200; i++)
		free(malloc(i));
}

static void nothing(void)
{
}

static void stdio(void)
{
	FILE *file = fopen("/dev/null", "w");

	if (!file || fprintf(file, "%s", "text") < 0)
		_exit(1);
	single();
}

/* As many chunks as the second argument says, a quarter of them freed. */
static size_t num_chunks = 1000000;

static void many(void)
{
	void **blocks = mmap(NULL, num_chunks * sizeof(*blocks),
			     PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct rng rng = { 17 };

	for (size_t i = 0; i < num_chunks; i++)
		blocks[i] = malloc(16 + rng_next(&rng) % 120);
	for (size_t i = 0; i < num_chunks; i++) {
		if (rng_next(&rng) % 4 == 0)
			free(blocks[i]);
	}
	munmap(blocks, num_chunks * sizeof(*blocks));
}

/* Threads that never stand still: they are stopped in the middle of it. */
static void *busy_worker(void *arg)
{
	struct rng rng = { (uintptr_t)arg + 1000 };
	void *slots[256] = { 0 };

	churn(&rng, slots, 256, 4000);
	pthread_barrier_wait(&barrier);
	for (;;)
		churn(&rng, slots, 256, 1000);
	return NULL;
}

static void busy(void)
{
	pthread_t thread;

	pthread_barrier_init(&barrier, NULL, 9);
	for (uintptr_t i = 0; i < 8; i++) {
		if (pthread_create(&thread, NULL, busy_worker, (void *)i) != 0)
			_exit(1);
	}
	pthread_barrier_wait(&barrier);
	usleep(20000);
}

static void threads_staying(void)
{
	run_threads(16, 0);
}

static void threads_exited(void)
{
	run_threads(4, 12);
}

static const struct {
	const char *name;
	void (*run)(void);
} scenarios[] = {
	{ "single", single },
	{ "threads", threads_staying },
	{ "exited", threads_exited },
	{ "heaps", heaps },
	{ "fences", fences },
	{ "large", large },
	{ "large-fixed", large_fixed },
	{ "small-threshold", small_threshold },
	{ "aligned", aligned },
	{ "aligned-mmapped", aligned_mmapped },
	{ "noncontiguous", noncontiguous },
	{ "blocked", blocked },
	{ "limited", limited },
	{ "foreign-sbrk", foreign_sbrk },
	{ "fast", fast },
	{ "trimmed", trimmed },
	{ "forked", forked },
	{ "nothing", nothing },
	{ "stdio", stdio },
	{ "many", many },
	{ "busy", busy },
};

int main(int argc, char **argv)
{
	if (argc > 2)
		num_chunks = strtoul(argv[2], NULL, 10);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	for (size_t i = 0; argc > 1 &&
	     i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		if (strcmp(scenarios[i].name, argv[1]) == 0) {
			scenarios[i].run();
			stand_still();
		}
	}
	return 2;
}
