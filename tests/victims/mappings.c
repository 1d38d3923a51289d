/* A program with one mapping of each kind, which tells what it wrote where.
 * SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/victims/mappings.h"

/* Output: "m NAME START END" for each mapping, "w ADDR" for each page that was
 * written, "f NAME FD" for each file that stays open, "end"; then it stops. */

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

enum { PAGE = 4096 };

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static char *map(const char *name, size_t len, int prot, int flags, int fd)
{
	char *ptr = mmap(NULL, len, prot, flags, fd, 0);

	if (ptr == MAP_FAILED)
		die(name);
	if (!(flags & MAP_SHARED))
		madvise(ptr, len, MADV_NOHUGEPAGE);
	printf("m %s %" PRIxPTR " %" PRIxPTR "\n", name, (uintptr_t)ptr,
	       (uintptr_t)ptr + len);
	return ptr;
}

static char *map_anon(const char *name, size_t len, int prot)
{
	return map(name, len, prot,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
}

static void fill(char *page)
{
	uint64_t *words = (uint64_t *)page;

	for (size_t i = 0; i < PAGE / sizeof(*words); i++)
		words[i] = pattern((uintptr_t)&words[i]);
}

static void write_page(char *page)
{
	fill(page);
	printf("w %" PRIxPTR "\n", (uintptr_t)page);
}

/* A file of `num` pages in the current folder; page i begins with i + 1. */
static int make_file(const char *name, size_t num)
{
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || ftruncate(fd, num * PAGE))
		die(name);
	for (uint64_t i = 0; i < num; i++) {
		uint64_t word = i + 1;

		if (pwrite(fd, &word, sizeof(word), i * PAGE) != sizeof(word))
			die(name);
	}
	return fd;
}

static void make_anonymous(void)
{
	char *holes = map_anon("holes", 64 << 20, PROT_READ | PROT_WRITE);
	char *reserve = map_anon("reserve", (size_t)64 << 30,
				 PROT_READ | PROT_WRITE);
	char *none = map_anon("none", 8 * PAGE, PROT_READ | PROT_WRITE);
	char *write_only = map_anon("write_only", 4 * PAGE,
				    PROT_READ | PROT_WRITE);

	map_anon("none_empty", 8 * PAGE, PROT_NONE);
	write_page(holes);
	write_page(holes + 5 * PAGE);
	for (size_t i = 100; i < 200; i++)
		write_page(holes + i * PAGE);
	for (size_t i = 0; i < 1000; i++)
		write_page(reserve + i * 16001 * PAGE);
	write_page(none + 2 * PAGE);
	write_page(none + 3 * PAGE);
	write_page(write_only + PAGE);
	if (mprotect(none, 8 * PAGE, PROT_NONE) ||
	    mprotect(write_only, 4 * PAGE, PROT_WRITE))
		die("mprotect");
}

static void make_guard(void)
{
	char *guard = map_anon("guard", 4 * PAGE, PROT_READ | PROT_WRITE);

	write_page(guard);
	write_page(guard + 2 * PAGE);
	/* Linux 6.13; else it is a hole as any other. */
	if (madvise(guard + PAGE, PAGE, MADV_GUARD_INSTALL))
		fprintf(stderr, "no guard pages\n");
}

/* Pages written by another process: this one has not mapped them. */
static void write_by_other(char *ptr)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		fill(ptr + PAGE);
		fill(ptr + 3 * PAGE);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	printf("w %" PRIxPTR "\n", (uintptr_t)ptr + PAGE);
	printf("w %" PRIxPTR "\n", (uintptr_t)ptr + 3 * PAGE);
}

static void make_shared(void)
{
	int fd = memfd_create("victim", 0);

	if (fd < 0 || ftruncate(fd, 1 << 20))
		die("memfd");
	printf("f memfd %d\n", fd);
	write_by_other(map("memfd", 1 << 20, PROT_READ | PROT_WRITE,
			   MAP_SHARED, fd));
	write_by_other(map("shared", 16 * PAGE, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1));
}

static void make_files(void)
{
	int fd = make_file("a file\nof two lines", 4);
	char *ptr = map("file", 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE,
			fd);

	write_page(ptr + PAGE);
	close(fd);

	fd = make_file("deleted", 2);
	map("deleted", 2 * PAGE, PROT_READ, MAP_PRIVATE, fd);
	unlink("deleted");
	close(fd);

	fd = make_file("truncated", 4);
	map("truncated", 4 * PAGE, PROT_READ, MAP_PRIVATE, fd);
	if (ftruncate(fd, PAGE))
		die("ftruncate");
	close(fd);

	fd = make_file("shared file", 4);
	map("shared_file", 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
	close(fd);
}

int main(int argc, char **argv)
{
	if (argc != 2 || chdir(argv[1])) {
		fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
		return 2;
	}
	make_anonymous();
	make_guard();
	make_shared();
	make_files();
	printf("end\n");
	fflush(stdout);
	raise(SIGSTOP);
	return 0;
}
