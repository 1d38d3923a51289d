/* Malloc version: which glibc is in this module?
 * SPDX-License-Identifier: MIT */
#include "indexer/glibc/malloc_layout.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "indexer/glibc/work.h"

/* libc.so.6 introduces itself. A static program has only what it needs; that
 * is malloc's messages, and often the bare number, "2.36", between two NULs.
 * Which messages a version has was read from malloc/malloc.c of each release
 * from 2.17 to 2.42, and of master in January 2026. */

struct message {
	const char *text;
	uint32_t since, until; /* versions that have it: [since, until) */
};

enum { FIRST_VERSION = 217, AFTER_LAST = 244 };

static const struct message messages[] = {
	{ "munmap_chunk(): invalid pointer", FIRST_VERSION, AFTER_LAST },
	{ "corrupted size vs. prev_size", 226, AFTER_LAST },
	{ "malloc(): invalid size (unsorted)", 229, AFTER_LAST },
	{ "malloc(): largebin double linked list corrupted (bk)", 230,
	  AFTER_LAST },
	{ "malloc(): unaligned tcache chunk detected", 232, AFTER_LAST },
	{ "malloc(): memory corruption (fast)", FIRST_VERSION, 243 },
};

enum { NUM_MESSAGES = sizeof(messages) / sizeof(messages[0]) };

struct search {
	bool has_message[NUM_MESSAGES];
	uint32_t named;        /* by the long text; 0: not there */
	uint32_t numbers[4];   /* bare ones, "2.36" */
	size_t num_numbers;
	char text[16];         /* of named */
};

enum {
	SEARCH_PIECE = 256 * 1024,
	SEARCH_OVERLAP = 256,            /* any of the texts fits into it */
	SEARCH_LIMIT = 256 * 1024 * 1024 /* of one module */
};

/* "... release version 2.36." -> 236 and "2.36". */
static bool parse_version(const char *text, struct search *search)
{
	static const char before[] = "release version ";
	const char *at = strstr(text, before);
	unsigned int major, minor, patch;
	int num;

	if (!at)
		return false;
	num = sscanf(at + sizeof(before) - 1, "%2u.%3u.%5u", &major, &minor,
		     &patch);
	if (num < 2 || major != 2)
		return false;
	snprintf(search->text, sizeof(search->text), "%u.%u", major, minor);
	search->named = major * 100 + minor;
	if (num == 3 && patch >= 9000) /* development towards the next one */
		search->named++;
	return true;
}

static void look_for_name(const char *piece, size_t len,
			  struct search *search)
{
	static const char needle[] = "GNU C Library";
	const char *at = piece;

	while (!search->named &&
	       (at = memmem(at, piece + len - at, needle,
			    sizeof(needle) - 1))) {
		parse_version(at, search);
		at++;
	}
}

static void look_for_numbers(const char *piece, size_t len,
			     struct search *search)
{
	static const char needle[] = "\0" "2.";
	const char *at = piece;

	while (search->num_numbers < 4 &&
	       (at = memmem(at, piece + len - at, needle, 3))) {
		size_t left = piece + len - at;
		uint32_t number;

		at++;
		if (left < 6 || at[2] < '1' || at[2] > '9' || at[3] < '0' ||
		    at[3] > '9' || at[4] != '\0')
			continue;
		number = 200 + (at[2] - '0') * 10 + (at[3] - '0');
		for (size_t i = 0; i < search->num_numbers; i++) {
			if (search->numbers[i] == number)
				number = 0;
		}
		if (number)
			search->numbers[search->num_numbers++] = number;
	}
}

static void look_for_messages(const char *piece, size_t len,
			      struct search *search)
{
	for (size_t i = 0; i < NUM_MESSAGES; i++) {
		if (!search->has_message[i])
			search->has_message[i] =
				memmem(piece, len, messages[i].text,
				       strlen(messages[i].text)) != NULL;
	}
}

static void look_at_segment(const struct hf_image *image,
			    const struct hf_segment *segment, char *piece,
			    bool no_texts, size_t *searched,
			    struct hf_work *work, struct search *search)
{
	uint64_t addr = segment->start;

	while (addr < segment->end && *searched < SEARCH_LIMIT &&
	       (no_texts || !search->named)) {
		size_t want = SEARCH_PIECE, got;

		if (segment->end - addr < want)
			want = segment->end - addr;
		work->num++; /* a fraction of a millisecond each */
		if (!hf_work_poll(work))
			return;
		got = hf_image_read_some(image, addr, piece, want);
		piece[got] = '\0';
		look_for_name(piece, got, search);
		look_for_numbers(piece, got, search);
		look_for_messages(piece, got, search);
		*searched += want;
		if (got < want) /* a hole: on with the next page */
			addr = (addr + got + 4096) & ~UINT64_C(4095);
		else if (want == SEARCH_PIECE)
			addr += want - SEARCH_OVERLAP;
		else
			break;
	}
}

/* The newest of each layout that has just these messages. */
static void choose_by_messages(const struct search *search, bool no_texts,
			       struct hf_malloc_versions *ret)
{
	uint32_t since = FIRST_VERSION, until = AFTER_LAST;

	for (size_t i = 0; i < NUM_MESSAGES; i++) {
		if (search->has_message[i]) {
			if (messages[i].since > since)
				since = messages[i].since;
			if (messages[i].until < until)
				until = messages[i].until;
		} else if (messages[i].until == AFTER_LAST) {
			if (messages[i].since < until)
				until = messages[i].since;
		} else if (messages[i].until > since) {
			since = messages[i].until;
		}
	}
	ret->since = since;
	ret->until = until;
	for (size_t i = 0; i < search->num_numbers && !no_texts; i++) {
		if (search->numbers[i] < since || search->numbers[i] >= until)
			continue;
		if (ret->num == 0)
			snprintf(ret->text, sizeof(ret->text), "2.%u",
				 search->numbers[i] % 100);
		ret->version[ret->num++] = search->numbers[i];
	}
	for (uint32_t version = until; version-- > since;) {
		if (hf_malloc_layout_find(version, NULL) !=
			    hf_malloc_layout_find(version + 1, NULL) ||
		    version + 1 == until)
			ret->version[ret->num++] = version;
	}
}

struct hf_error *hf_malloc_versions_find(const struct hf_image *image,
					 const struct hf_module *module,
					 bool no_texts, struct hf_work *work,
					 struct hf_malloc_versions *ret)
{
	HF_AUTO_FREE char *piece = malloc(SEARCH_PIECE + 1);
	struct search search = { 0 };
	struct hf_error *err;
	size_t num, searched = 0;
	const struct hf_segment *segments = hf_image_segments(image, &num);
	const struct hf_module *modules = hf_image_modules(image,
							   &(size_t){ 0 });

	if (!piece)
		return &hf_enomem;
	for (size_t i = 0; i < num; i++) {
		const struct hf_segment *segment = &segments[i];

		if (segment->module_id == HF_NO_MODULE ||
		    &modules[segment->module_id] != module ||
		    segment->kind == HF_SEGMENT_SPECIAL ||
		    (segment->prot & PROT_WRITE))
			continue;
		look_at_segment(image, segment, piece, no_texts, &searched,
				work, &search);
	}
	err = hf_work_check(work);
	if (err)
		return err;
	memset(ret, 0, sizeof(*ret));
	if (search.named && !no_texts) {
		ret->version[0] = search.named;
		ret->num = 1;
		ret->is_named = true;
		ret->since = search.named;
		ret->until = search.named + 1;
		memcpy(ret->text, search.text, sizeof(ret->text));
		return NULL;
	}
	if (!search.has_message[0])
		return &hf_not_found;
	choose_by_messages(&search, no_texts, ret);
	return ret->num ? NULL : &hf_not_found;
}
