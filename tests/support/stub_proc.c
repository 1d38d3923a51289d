/* Preloaded: stands for security modules that this kernel does not have.
 * SPDX-License-Identifier: MIT
 *
 * HF_STUB_ROOT=DIR   files below DIR are opened instead of those of the same
 *                    path, if they are there
 * HF_STUB_REFUSE=PID opening /proc/PID/mem and attaching to PID fail as the
 *                    kernel's do when a module says no */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <unistd.h>

int open64(const char *path, int flags, ...);
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);

static int open_stubbed(const char *path, int flags, mode_t mode)
{
	int (*next)(const char *path, int flags, ...) =
		(int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
	const char *root = getenv("HF_STUB_ROOT");
	const char *refused = getenv("HF_STUB_REFUSE");
	char other[4096];

	if (refused) {
		snprintf(other, sizeof(other), "/proc/%s/mem", refused);
		if (!strcmp(path, other)) {
			errno = EACCES;
			return -1;
		}
	}
	if (root && path[0] == '/') {
		snprintf(other, sizeof(other), "%s%s", root, path);
		if (access(other, F_OK) == 0)
			return next(other, flags, mode);
	}
	return next(path, flags, mode);
}

int open(const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
	va_end(args);
	return open_stubbed(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
	va_end(args);
	return open_stubbed(path, flags, mode);
}

int __open_2(const char *path, int flags)
{
	return open_stubbed(path, flags, 0);
}

int __open64_2(const char *path, int flags)
{
	return open_stubbed(path, flags, 0);
}

long ptrace(enum __ptrace_request request, ...)
{
	long (*next)(enum __ptrace_request request, ...) =
		(long (*)(enum __ptrace_request, ...))dlsym(RTLD_NEXT,
							    "ptrace");
	const char *refused = getenv("HF_STUB_REFUSE");
	va_list args;
	pid_t pid;
	void *addr, *data;

	va_start(args, request);
	pid = va_arg(args, pid_t);
	addr = va_arg(args, void *);
	data = va_arg(args, void *);
	va_end(args);
	if (request == PTRACE_SEIZE && refused && pid == atoi(refused)) {
		errno = EPERM;
		return -1;
	}
	return next(request, pid, addr, data);
}
