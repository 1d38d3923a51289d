/* The text of /proc/PID/maps and smaps, as a table of mappings.
 * SPDX-License-Identifier: MIT */
#include "coredump/proc_maps.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

#include "util/array.h"

/* A mapping is one line (Linux 6.18 fs/proc/task_mmu.c, show_map_vma):
 *
 *   START-END PERM OFFSET MAJ:MIN INODE   PATH\n
 *   7f0c8a000000-7f0c8a021000 r-xs 00001000 fe:01 1234      /tmp/x (deleted)
 *
 * all numbers but INODE in hexadecimal, PERM of four characters. In smaps
 * lines of the form "Key: value" follow each of them; the last of these is
 * "VmFlags: rd wr mr ...". */

/* Digits up to the first other character. */
static bool take_number(char **text, unsigned int base, uint64_t *ret)
{
	const char *start = *text;
	uint64_t value = 0;

	for (;; (*text)++) {
		char c = **text;
		unsigned int digit;

		if (c >= '0' && c <= '9')
			digit = c - '0';
		else if (c >= 'a' && c <= 'f')
			digit = c - 'a' + 10;
		else
			break;
		if (digit >= base)
			break;
		if (__builtin_mul_overflow(value, base, &value) ||
		    __builtin_add_overflow(value, digit, &value))
			return false;
	}
	*ret = value;
	return *text != start;
}

static bool take_char(char **text, char c)
{
	if (**text != c)
		return false;
	(*text)++;
	return true;
}

static bool take_prot(char **text, struct hf_mapping *mapping)
{
	static const struct {
		char yes;
		uint32_t prot;
	} bits[] = {
		{ 'r', PROT_READ }, { 'w', PROT_WRITE }, { 'x', PROT_EXEC },
	};

	mapping->prot = 0;
	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++) {
		if (take_char(text, bits[i].yes))
			mapping->prot |= bits[i].prot;
		else if (!take_char(text, '-'))
			return false;
	}
	mapping->is_shared = **text == 's';
	return take_char(text, 's') || take_char(text, 'p');
}

/* Undo the kernel's escape of newlines, in place. */
static void unescape(char *text)
{
	char *to = text;

	for (const char *from = text; *from; to++) {
		if (!strncmp(from, "\\012", 4)) {
			*to = '\n';
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = '\0';
}

static bool parse_mapping(char *line, struct hf_mapping *ret)
{
	static const char deleted[] = " (deleted)";
	uint64_t major, minor;
	size_t len;

	*ret = (struct hf_mapping){ 0 };
	if (!take_number(&line, 16, &ret->start) || !take_char(&line, '-') ||
	    !take_number(&line, 16, &ret->end) || !take_char(&line, ' ') ||
	    !take_prot(&line, ret) || !take_char(&line, ' ') ||
	    !take_number(&line, 16, &ret->file_offset) ||
	    !take_char(&line, ' ') ||
	    !take_number(&line, 16, &major) || !take_char(&line, ':') ||
	    !take_number(&line, 16, &minor) || !take_char(&line, ' ') ||
	    !take_number(&line, 10, &ret->inode))
		return false;
	if (ret->start >= ret->end || major > UINT32_MAX || minor > UINT32_MAX)
		return false;
	ret->device = makedev((unsigned int)major, (unsigned int)minor);
	if (*line && *line != ' ')
		return false;
	while (*line == ' ')
		line++;
	if (!*line)
		return true;
	len = strlen(line);
	ret->is_deleted = len > sizeof(deleted) - 1 &&
			  !strcmp(line + len - (sizeof(deleted) - 1), deleted);
	unescape(line);
	ret->path = line;
	return true;
}

/* "Key: value", key of letters, digits and a few more. */
static bool is_field(const char *line)
{
	size_t len = strcspn(line, ": ");

	return len && line[len] == ':' && line[0] >= 'A' && line[0] <= 'Z';
}

/* Does the list of two-letter flags hold `flag`? */
static bool has_flag(const char *flags, const char *flag)
{
	for (; *flags; flags += strcspn(flags, " ")) {
		flags += strspn(flags, " ");
		if (!strncmp(flags, flag, 2) &&
		    (!flags[2] || flags[2] == ' '))
			return true;
	}
	return false;
}

/* What follows `key`, or NULL. */
static char *value_of(char *line, const char *key)
{
	size_t len = strlen(key);

	return strncmp(line, key, len) ? NULL : line + len;
}

/* "Key:   123 kB" as bytes. @return false if `key` is not the line's. */
static bool take_kib(char *line, const char *key, uint64_t *bytes_ret)
{
	char *value = value_of(line, key);
	uint64_t num;

	if (!value)
		return false;
	value += strspn(value, " ");
	if (!take_number(&value, 10, &num) ||
	    __builtin_mul_overflow(num, 1024, bytes_ret))
		*bytes_ret = 0;
	return true;
}

static void take_field(char *line, struct hf_mapping *mapping)
{
	/* Rss comes first and has no huge pages of hugetlbfs in it. */
	static const char *const others[] = {
		"Swap:", "Shared_Hugetlb:", "Private_Hugetlb:",
	};
	char *value = value_of(line, "VmFlags:");
	uint64_t num = 0;

	if (value) {
		mapping->is_io = has_flag(value, "io") || has_flag(value, "pf");
		mapping->is_dontfork = has_flag(value, "dc");
		mapping->has_wipe_flag = has_flag(value, "wf");
		mapping->is_wiped = mapping->has_wipe_flag &&
				    !has_flag(value, "dp");
		mapping->is_no_huge = has_flag(value, "nh");
		mapping->is_watched = has_flag(value, "um") ||
				      has_flag(value, "uw") ||
				      has_flag(value, "ui");
		mapping->is_hugetlb = has_flag(value, "ht");
		mapping->is_dontdump = has_flag(value, "dd");
		return;
	}
	if (take_kib(line, "Anonymous:", &mapping->anon_bytes) ||
	    take_kib(line, "AnonHugePages:", &mapping->huge_bytes))
		return;
	value = value_of(line, "Rss:");
	if (value) {
		value += strspn(value, " ");
		mapping->is_empty = take_number(&value, 10, &num) && !num;
		return;
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		value = value_of(line, others[i]);
		if (!value)
			continue;
		value += strspn(value, " ");
		if (!take_number(&value, 10, &num) || num)
			mapping->is_empty = false;
	}
}

struct hf_error *hf_proc_maps_parse(char *text, size_t len,
				    struct hf_proc_maps *ret)
{
	HF_ARRAY(struct hf_mapping) all = { 0 };
	char *end = text + len;
	struct hf_error *err = NULL;

	*end = '\0';
	for (char *line = text, *next; line < end && !err; line = next) {
		struct hf_mapping mapping;
		char *stop = memchr(line, '\n', end - line);

		next = stop ? stop + 1 : end;
		if (stop)
			*stop = '\0';
		if (all.num && is_field(line)) {
			take_field(line, &all.data[all.num - 1]);
			continue;
		}
		if (!parse_mapping(line, &mapping))
			err = hf_bad_data("'%.100s' is not a line of "
					  "/proc/PID/maps", line);
		else if (all.num && mapping.start < all.data[all.num - 1].end)
			err = hf_bad_data("mappings 0x%" PRIx64 " and 0x%"
					  PRIx64 " are out of order",
					  all.data[all.num - 1].start,
					  mapping.start);
		else
			err = hf_array_append(&all, mapping);
	}
	if (err) {
		hf_array_deinit(&all);
		return err;
	}
	ret->data = all.data;
	ret->num = all.num;
	return NULL;
}

void hf_proc_maps_deinit(struct hf_proc_maps *maps)
{
	free(maps->data);
	*maps = (struct hf_proc_maps){ 0 };
}
