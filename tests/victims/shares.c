/* Victim: maps files and shared memory, and has touched only parts of them.
 * SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

static char *map(int prot, int flags, int fd)
{
	char *memory = mmap(NULL, MIB, prot, flags, fd, 0);

	if (memory == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	/* A fault of one page is to be one page. */
	madvise(memory, MIB, MADV_RANDOM);
	return memory;
}

/* With bytes in every second page; its name is gone. */
static int make_file(int fd)
{
	char page[4096];

	memset(page, 'x', sizeof(page));
	if (fd < 0 || ftruncate(fd, MIB) < 0) {
		perror("file");
		exit(1);
	}
	for (off_t at = 0; at < MIB; at += 2 * (off_t)sizeof(page))
		if (pwrite(fd, page, sizeof(page), at) < 0)
			exit(1);
	return fd;
}

int main(void)
{
	char name[] = "/tmp/victim-shares-XXXXXX";
	int file = make_file(mkstemp(name));
	int memory = make_file(memfd_create("shares", 0));
	volatile char *maps[] = {
		map(PROT_READ | PROT_WRITE, MAP_PRIVATE, file),
		map(PROT_READ | PROT_WRITE, MAP_SHARED, file),
		map(PROT_READ | PROT_WRITE, MAP_PRIVATE, memory),
		map(PROT_READ | PROT_WRITE, MAP_SHARED, memory),
		map(PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1),
	};

	unlink(name);
	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
		maps[i][0] = 'w';                /* written */
		(void)maps[i][4 * 4096];         /* only looked at */
	}
	printf("ready\n");
	fflush(stdout);
	getchar();
	return 0;
}
