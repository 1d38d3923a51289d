/* Where in the target a `syscall` instruction can be found.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/syscall_site.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>

#include "util/file.h"

enum { SYSCALL_BYTES = 2 };
static const uint8_t syscall_insn[SYSCALL_BYTES] = { 0x0f, 0x05 };

/* Search [start, end) of the open /proc/PID/mem. */
static bool search_mapping(int mem_fd, uint64_t start, uint64_t end,
			   uint64_t *addr_ret)
{
	uint8_t buf[16 * 1024];

	while (end - start >= SYSCALL_BYTES) {
		size_t want = end - start < sizeof(buf) ? end - start :
							  sizeof(buf);
		ssize_t n = pread(mem_fd, buf, want, (off_t)start);

		if (n < SYSCALL_BYTES)
			return false;

		uint8_t *hit = memmem(buf, (size_t)n, syscall_insn,
				      SYSCALL_BYTES);

		if (hit) {
			*addr_ret = start + (uint64_t)(hit - buf);
			return true;
		}
		/* The last byte again: the two may lie across the edge. */
		start += (uint64_t)n - (SYSCALL_BYTES - 1);
	}
	return false;
}

static bool search_maps(int mem_fd, const char *maps, bool vdso,
			uint64_t *addr_ret)
{
	for (const char *line = maps; *line;) {
		const char *line_end = strchrnul(line, '\n');
		uint64_t start, end;
		char prot[5], head[128];
		int name_off = 0;

		/* sscanf measures all of its text first: give it a line. */
		snprintf(head, sizeof(head), "%.*s", (int)(line_end - line),
			 line);
		if (sscanf(head,
			   "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %*s %n",
			   &start, &end, prot, &name_off) == 3 &&
		    prot[2] == 'x' && end > start) {
			const char *name = head + name_off;
			bool is_vdso = !strncmp(name, "[vdso]", 6);
			/* Emulated by the kernel, not executable really. */
			bool is_vsyscall = !strncmp(name, "[vsyscall]", 10);

			if (is_vdso == vdso && !is_vsyscall &&
			    search_mapping(mem_fd, start, end, addr_ret))
				return true;
		}
		line = *line_end ? line_end + 1 : line_end;
	}
	return false;
}

struct hf_error *hf_syscall_site_find(pid_t tid, uint64_t *addr_ret)
{
	HF_AUTO_FREE char *maps = NULL;
	struct hf_error *err;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/maps", tid);
	err = hf_read_file(path, &maps, NULL);
	if (err)
		return err;
	snprintf(path, sizeof(path), "/proc/%d/mem", tid);

	HF_AUTO_FD int mem_fd = open(path, O_RDONLY | O_CLOEXEC);

	if (mem_fd < 0)
		return hf_error_os(errno, "cannot open '%s'", path);
	if (search_maps(mem_fd, maps, true, addr_ret) ||
	    search_maps(mem_fd, maps, false, addr_ret))
		return NULL;
	return hf_error_create(HF_ERROR_NOT_FOUND,
			       "process %d has no syscall instruction", tid);
}

bool hf_syscall_site_check(struct hf_tracee *tracee, uint64_t addr)
{
	/* Whole aligned words, so that a site in the last bytes of a mapping
	 * can be read, too. */
	for (int i = 0; i < SYSCALL_BYTES; i++) {
		uint64_t at = addr + (uint64_t)i;
		long word;

		errno = 0;
		word = hf_tracee_ptrace(tracee, PTRACE_PEEKTEXT,
				(void *)(at & ~7ul), NULL);
		if ((word == -1 && errno) ||
		    (uint8_t)((uint64_t)word >> (at % 8 * 8)) !=
			    syscall_insn[i])
			return false;
	}
	return true;
}
