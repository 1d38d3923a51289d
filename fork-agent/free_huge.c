/* Free huge pages: how much memory the kernel has in pieces of 2 MiB or more.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/free_huge.h"

#include <string.h>

#include "util/file.h"

/* A line of /proc/buddyinfo (Linux 6.18 mm/vmstat.c, frag_show_print) counts
 * the free pieces of one zone, by size, the smallest first:
 *
 *	Node 0, zone   Normal   6519   8819   5044 ...
 *	                        4 KiB  8 KiB  16 KiB
 */
enum {
	PAGE_BYTES = 4096,
	MAX_ORDER = 32, /* the kernel has 10 */
};

/* Behind the digits of a number, or NULL if there are none, or too many. */
static const char *take_number(const char *text, uint64_t *ret)
{
	const char *start = text;
	uint64_t value = 0;

	for (; *text >= '0' && *text <= '9'; text++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, *text - '0', &value))
			return NULL;
	*ret = value;
	return text == start ? NULL : text;
}

static const char *skip_blanks(const char *text)
{
	return text + strspn(text, " \t");
}

/* One line up to its end; NULL if it is something else. */
static const char *take_line(const char *at, uint64_t *bytes)
{
	static const char node[] = "Node ", zone[] = ", zone";
	uint64_t number;
	bool is_dma;

	if (strncmp(at, node, sizeof(node) - 1))
		return NULL;
	at = take_number(skip_blanks(at + sizeof(node) - 1), &number);
	if (!at || strncmp(at, zone, sizeof(zone) - 1))
		return NULL;
	at = skip_blanks(at + sizeof(zone) - 1);
	is_dma = !strncmp(at, "DMA ", 4);
	at += strcspn(at, " \t\n");
	for (unsigned int order = 0;; order++) {
		uint64_t piece = (uint64_t)PAGE_BYTES << order, sum;

		at = skip_blanks(at);
		if (!*at || *at == '\n')
			return at;
		at = take_number(at, &number);
		if (!at || order > MAX_ORDER)
			return NULL;
		if (is_dma || piece < HF_HUGE_BYTES)
			continue;
		if (__builtin_mul_overflow(number, piece, &sum) ||
		    __builtin_add_overflow(*bytes, sum, bytes))
			return NULL;
	}
}

struct hf_error *hf_free_huge_parse(const char *text, uint64_t *bytes_ret)
{
	uint64_t bytes = 0;

	while (*text) {
		const char *end = take_line(text, &bytes);

		if (!end)
			return hf_bad_data("'%.*s' is not a line of "
					   "/proc/buddyinfo",
					   (int)strcspn(text, "\n"), text);
		text = *end ? end + 1 : end;
	}
	*bytes_ret = bytes;
	return NULL;
}

struct hf_error *hf_free_huge_read(uint64_t *bytes_ret)
{
	HF_AUTO_FREE char *text = NULL;
	struct hf_error *err = hf_read_file("/proc/buddyinfo", &text, NULL);

	return err ? err : hf_free_huge_parse(text, bytes_ret);
}
