/* A program with pointers only where a fork does not copy them.
 * SPDX-License-Identifier: MIT */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Prints "table NAME START END" for each table, "object TABLE ADDRESS" for
 * each object that only this table points to, "ready", and then waits. */

enum { NUM_OBJECTS = 1000, TABLE_BYTES = 1 << 20 };

/* Not inlined: no pointer to an object stays in main's registers. */
static __attribute__((noinline)) void fill(const char *name, int advice)
{
	void **table = mmap(NULL, TABLE_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (table == MAP_FAILED || madvise(table, TABLE_BYTES, advice))
		abort();
	printf("table %s %lx %lx\n", name, (unsigned long)(uintptr_t)table,
	       (unsigned long)(uintptr_t)table + TABLE_BYTES);
	for (int i = 0; i < NUM_OBJECTS; i++) {
		table[i] = malloc(333);
		if (!table[i])
			abort();
		printf("object %s %lx\n", name,
		       (unsigned long)(uintptr_t)table[i]);
	}
}

int main(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fill("dontfork", MADV_DONTFORK);
	fill("wipeonfork", MADV_WIPEONFORK);
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
