/* Where in the target the instructions are that a borrowed thread runs.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/syscall_site.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	/* Reading brings pages into the target: not the whole of a giant. */
	SEARCH_MAX_BYTES = 256 * 1024 * 1024,
	CHUNK_BYTES = 16 * 1024,
	NUM_PATTERNS = 4,
};

static const struct pattern {
	size_t offset;        /* of the field of struct hf_syscall_site */
	uint32_t num_bytes;
	uint8_t bytes[HF_SITE_BYTES];
} patterns[NUM_PATTERNS] = {
	{ offsetof(struct hf_syscall_site, call), 2, { 0x0f, 0x05 } },
	{ offsetof(struct hf_syscall_site, call_ret), 3, { 0x0f, 0x05, 0xc3 } },
	/* mov $15, %rax; syscall: glibc, Go, older musl */
	{ offsetof(struct hf_syscall_site, restorer), 9,
	  { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 } },
	/* mov $15, %eax; syscall */
	{ offsetof(struct hf_syscall_site, restorer), 7,
	  { 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05 } },
};

static struct hf_site *site_of(struct hf_syscall_site *sites,
			       const struct pattern *pattern)
{
	return (struct hf_site *)((char *)sites + pattern->offset);
}

static bool is_complete(const struct hf_syscall_site *sites)
{
	return sites->call.addr && sites->call_ret.addr &&
	       sites->restorer.addr;
}

static void search_chunk(const uint8_t *buf, size_t len, uint64_t start,
			 struct hf_syscall_site *ret)
{
	for (int i = 0; i < NUM_PATTERNS; i++) {
		const struct pattern *pattern = &patterns[i];
		struct hf_site *site = site_of(ret, pattern);
		const uint8_t *hit;

		if (site->addr)
			continue;
		hit = memmem(buf, len, pattern->bytes, pattern->num_bytes);
		if (!hit)
			continue;
		site->addr = start + (uint64_t)(hit - buf);
		site->num_bytes = pattern->num_bytes;
		memcpy(site->bytes, pattern->bytes, sizeof(site->bytes));
	}
}

/* @param budget bytes that may still be read. */
static void search_mapping(int mem_fd, const struct hf_mapping *mapping,
			   uint64_t *budget, struct hf_syscall_site *ret)
{
	uint64_t start = mapping->start, end = mapping->end;
	uint8_t buf[CHUNK_BYTES];

	while (start < end && !is_complete(ret) && *budget >= sizeof(buf)) {
		size_t want = end - start < sizeof(buf) ? end - start :
							  sizeof(buf);
		ssize_t n = pread(mem_fd, buf, want, (off_t)start);

		if (n <= 0)
			return;
		*budget -= (uint64_t)n;
		search_chunk(buf, (size_t)n, start, ret);
		/* The last bytes again: a hit may lie across the edge. */
		if (n <= HF_SITE_BYTES)
			return;
		start += (uint64_t)n == end - start ?
				 (uint64_t)n : (uint64_t)n - HF_SITE_BYTES;
	}
}

/* In which round a mapping is searched; -1: in none. */
static int round_of(const struct hf_mapping *mapping)
{
	const char *path = mapping->path ? mapping->path : "";
	const char *name = strrchr(path, '/');

	/* vsyscall is emulated by the kernel, not executable really. */
	if (!(mapping->prot & PROT_EXEC) || !strcmp(path, "[vsyscall]"))
		return -1;
	if (!strcmp(path, "[vdso]"))
		return 0;
	if (name && (!strncmp(name, "/libc.", 6) ||
		     !strncmp(name, "/libc-", 6) || !strncmp(name, "/ld-", 4)))
		return 1;
	return 2;
}

void hf_syscall_site_search(int mem_fd, const struct hf_proc_maps *maps,
			    struct hf_syscall_site *ret)
{
	uint64_t budget = SEARCH_MAX_BYTES;

	memset(ret, 0, sizeof(*ret));
	for (int round = 0; round <= 2; round++)
		for (size_t i = 0; i < maps->num && !is_complete(ret); i++)
			if (round_of(&maps->data[i]) == round)
				search_mapping(mem_fd, &maps->data[i],
					       &budget, ret);
}
