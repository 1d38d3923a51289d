/* Victim: writes to its own memory as it is told, and checks what it wrote.
 * SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* usage: victim_writer MIB [rate]
 *
 * `pages` 4 KiB pages at `memory`; page i begins with i, and with the number of
 * times it was written. Commands, one a line:
 *
 *	write FIRST NUM   write those pages once; answers "faults N"
 *	storm             from now on write one page after the other, for ever,
 *	                  at most `rate` a millisecond
 *	calm              stop that; answers "laps N"
 *	end               check all pages; answers "wrong N"
 */

enum { PAGE_WORDS = 512 };

struct state {
	uint64_t *memory;
	uint64_t num_pages;
	uint64_t *times;           /* each page was written */
	uint64_t per_ms;           /* of the storm; 0: as fast as it can */
	atomic_bool in_storm;
	atomic_ulong num_laps;
	pthread_t thread;
};

static void write_page(struct state *state, uint64_t i)
{
	state->memory[i * PAGE_WORDS + 1] = ++state->times[i];
}

static void *storm(void *arg)
{
	struct state *state = arg;
	const struct timespec ms = { .tv_nsec = 1000 * 1000 };

	for (uint64_t i = 0; atomic_load(&state->in_storm); i++) {
		if (i == state->num_pages) {
			i = 0;
			atomic_fetch_add(&state->num_laps, 1);
		}
		write_page(state, i);
		if (state->per_ms && i % state->per_ms == 0)
			nanosleep(&ms, NULL);
	}
	return NULL;
}

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

static void calm(struct state *state)
{
	if (!atomic_load(&state->in_storm))
		return;
	atomic_store(&state->in_storm, false);
	pthread_join(state->thread, NULL);
	printf("laps %lu\n", atomic_load(&state->num_laps));
}

static void obey(struct state *state, const char *line)
{
	uint64_t first, num;

	if (sscanf(line, "write %" SCNu64 " %" SCNu64, &first, &num) == 2) {
		long before = faults();

		for (uint64_t i = first; i < first + num; i++)
			write_page(state, i);
		printf("faults %ld\n", faults() - before);
	} else if (!strcmp(line, "storm\n")) {
		atomic_store(&state->in_storm, true);
		if (pthread_create(&state->thread, NULL, storm, state))
			abort();
		printf("storming\n");
	} else if (!strcmp(line, "calm\n")) {
		calm(state);
	}
}

int main(int argc, char **argv)
{
	static struct state state;
	uint64_t wrong = 0;
	char line[128];

	if (argc < 2)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	state.num_pages = strtoull(argv[1], NULL, 10) * 256;
	if (argc > 2)
		state.per_ms = strtoull(argv[2], NULL, 10);
	state.times = calloc(state.num_pages, sizeof(*state.times));
	state.memory = mmap(NULL, state.num_pages * 4096,
			    PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (state.memory == MAP_FAILED || !state.times)
		return 2;
	madvise(state.memory, state.num_pages * 4096, MADV_NOHUGEPAGE);
	for (uint64_t i = 0; i < state.num_pages; i++) {
		state.memory[i * PAGE_WORDS] = i;
		write_page(&state, i);
	}
	printf("memory %p\npages %" PRIu64 "\nready\n", (void *)state.memory,
	       state.num_pages);
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "end\n"))
		obey(&state, line);
	calm(&state);
	for (uint64_t i = 0; i < state.num_pages; i++)
		wrong += state.memory[i * PAGE_WORDS] != i ||
			 state.memory[i * PAGE_WORDS + 1] != state.times[i];
	printf("wrong %" PRIu64 "\n", wrong);
	return wrong != 0;
}
