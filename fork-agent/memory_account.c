/* Memory account: what a fork would copy of a process, from its smaps.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/memory_account.h"

#include <stdio.h>
#include <string.h>

#include "util/file.h"

/* What a fork copies (Linux 6.18 mm/mmap.c dup_mmap, mm/memory.c
 * vma_needs_copy): each mapping but those with VM_DONTCOPY (smaps: dc); the
 * page tables of private ones that have anonymous pages, with all entries,
 * also those of file pages beside them; not of VM_WIPEONFORK (wf). Of shared
 * ones and of files that were only read, the child finds its pages by faults.
 * A huge page is one entry, and a page table kept ready for its split.
 *
 * smaps has for each mapping
 *
 *	7f00a000-7f00b000 rw-p 00000000 fe:01 1234      /path
 *	Rss:                  12 kB
 *	...
 *	VmFlags: rd wr mr mw me ac sd
 *
 * where the path, chosen by the process, cannot hold a newline. */

enum {
	PAGE_KB = 4,
	HUGE_KB = 2048,
	TABLE_SPAN_BYTES = 2 << 20, /* that one page table maps */
	PAGE_BYTES = 4096,
};

/* The mapping that is being read. Sizes in kB. */
struct entry {
	uint64_t bytes;       /* of address space */
	bool is_private, is_writable;
	uint64_t rss, anonymous, anon_huge, file_huge, swap;
	bool dontfork, wipeonfork, accounted;
};

static void add(uint64_t *sum, uint64_t value)
{
	if (__builtin_add_overflow(*sum, value, sum))
		*sum = UINT64_MAX;
}

static void add_kb(uint64_t *sum, uint64_t kb)
{
	uint64_t bytes;

	add(sum, __builtin_mul_overflow(kb, 1024, &bytes) ? UINT64_MAX :
							    bytes);
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Page tables: one for each 2 MiB that has pages. How they lie is not known:
 * between as dense as possible and one page each. */
static uint64_t tables(const struct entry *entry, uint64_t small)
{
	uint64_t spans = entry->bytes / TABLE_SPAN_BYTES + 1;

	return smaller(spans, small);
}

static void close_entry(struct hf_memory_account *account,
			const struct entry *entry)
{
	uint64_t huge, small, kb;

	if (!entry->bytes)
		return;
	if (entry->dontfork) {
		add(&account->dontfork_bytes, entry->bytes);
		return;
	}
	add(&account->num_mappings, 1);
	if (entry->accounted)
		add(&account->committed_bytes, entry->bytes);
	if (!entry->is_private) {
		if (entry->is_writable)
			add_kb(&account->shared_bytes, entry->rss);
		return;
	}
	if (entry->wipeonfork) {
		add(&account->wipe_bytes, entry->bytes);
		return;
	}
	if (!entry->anonymous && !entry->swap)
		return;
	huge = entry->anon_huge / HUGE_KB;
	add(&huge, entry->file_huge / HUGE_KB);
	kb = less(less(entry->rss, entry->anon_huge), entry->file_huge);
	add(&kb, entry->swap);
	small = kb / PAGE_KB;
	add(&account->small_pages, small);
	add(&account->huge_pages, huge);
	add(&huge, tables(entry, small));
	if (__builtin_mul_overflow(huge, PAGE_BYTES, &huge))
		huge = UINT64_MAX;
	add(&account->table_bytes, huge);
	add_kb(&account->private_bytes, entry->anonymous);
	add_kb(&account->anon_huge_bytes, entry->anon_huge);
	add_kb(&account->swap_bytes, entry->swap);
}

static void mark(struct hf_memory_account *account, const char *path,
		 size_t len)
{
	static const struct {
		const char *part;
		enum hf_memory_mark mark;
	} marks[] = {
		{ "/libc.so.6", HF_MARK_GLIBC },
		{ "/libc-2.", HF_MARK_GLIBC },
		{ "/ld-musl-", HF_MARK_MUSL },
		{ "/libjemalloc", HF_MARK_JEMALLOC },
		{ "/libtcmalloc", HF_MARK_TCMALLOC },
		{ "/libmimalloc", HF_MARK_MIMALLOC },
		{ "/ntdll.so", HF_MARK_WINE },
		{ "[heap]", HF_MARK_BRK },
	};

	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		if (memmem(path, len, marks[i].part, strlen(marks[i].part)))
			account->marks |= marks[i].mark;
}

/* "START-END PERM ...": lower-case hexadecimal, which no field begins with. */
static bool open_entry(const char *line, size_t len, struct entry *ret)
{
	struct entry entry = { 0 };
	uint64_t value[2] = { 0 };
	size_t at = 0;

	for (int i = 0; i < 2; i++) {
		size_t first = at;

		for (; at < len; at++) {
			char c = line[at];
			unsigned int digit;

			if (c >= '0' && c <= '9')
				digit = (unsigned int)(c - '0');
			else if (c >= 'a' && c <= 'f')
				digit = (unsigned int)(c - 'a') + 10;
			else
				break;
			if (value[i] >> 60)
				return false;
			value[i] = value[i] << 4 | digit;
		}
		if (at == first || at >= len || line[at] != (i ? ' ' : '-'))
			return false;
		at++;
	}
	if (value[1] <= value[0] || len - at < 4)
		return false;
	entry.bytes = value[1] - value[0];
	entry.is_writable = line[at + 1] == 'w';
	entry.is_private = line[at + 3] == 'p';
	*ret = entry;
	return true;
}

static void read_flags(const char *line, size_t len, struct entry *entry)
{
	for (size_t at = 0; at + 2 <= len; at++) {
		if (at > 0 && line[at - 1] != ' ')
			continue;
		if (!memcmp(line + at, "dc", 2))
			entry->dontfork = true;
		else if (!memcmp(line + at, "wf", 2))
			entry->wipeonfork = true;
		else if (!memcmp(line + at, "ac", 2))
			entry->accounted = true;
	}
}

static uint64_t number(const char *text, size_t len)
{
	uint64_t value = 0;
	size_t at = 0;

	while (at < len && text[at] == ' ')
		at++;
	for (; at < len && text[at] >= '0' && text[at] <= '9'; at++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, text[at] - '0', &value))
			return UINT64_MAX;
	return value;
}

static void read_field(const char *line, size_t len, struct entry *entry)
{
	const struct {
		const char *name;
		uint64_t *value;
	} fields[] = {
		{ "Rss:", &entry->rss },
		{ "Anonymous:", &entry->anonymous },
		{ "AnonHugePages:", &entry->anon_huge },
		{ "FilePmdMapped:", &entry->file_huge },
		{ "Swap:", &entry->swap },
	};

	if (len > 8 && !memcmp(line, "VmFlags:", 8)) {
		read_flags(line + 8, len - 8, entry);
		return;
	}
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		size_t name_len = strlen(fields[i].name);

		if (len > name_len && !memcmp(line, fields[i].name, name_len))
			*fields[i].value =
				number(line + name_len, len - name_len);
	}
}

struct hf_error *hf_memory_account_parse(const char *text, size_t len,
					 struct hf_memory_account *ret)
{
	struct hf_memory_account account = { 0 };
	struct entry entry = { 0 };
	const char *end = text + len;
	bool has_entry = false;

	for (const char *line = text; line < end;) {
		const char *newline = memchr(line, '\n', (size_t)(end - line));
		size_t line_len = (size_t)((newline ? newline : end) - line);
		struct entry next;

		if (open_entry(line, line_len, &next)) {
			const char *path = memchr(line, '/', line_len);

			close_entry(&account, &entry);
			entry = next;
			has_entry = true;
			if (path)
				mark(&account, path,
				     line_len - (size_t)(path - line));
		} else if (has_entry) {
			read_field(line, line_len, &entry);
		} else {
			return hf_bad_data("smaps does not begin with a "
					   "mapping");
		}
		line += line_len + 1;
	}
	close_entry(&account, &entry);
	*ret = account;
	return NULL;
}

struct hf_error *hf_memory_account_read(pid_t pid,
					struct hf_memory_account *ret)
{
	HF_AUTO_FREE char *text = NULL;
	struct hf_error *err;
	char path[64];
	size_t len;

	snprintf(path, sizeof(path), "/proc/%d/smaps", pid);
	err = hf_read_file(path, &text, &len);
	if (!err && !len)
		err = hf_error_create(HF_ERROR_TARGET_GONE,
				      "process %d has no memory", pid);
	return err ? err : hf_memory_account_parse(text, len, ret);
}
