/* Capture text: what a core of ours says of its capture, a line each.
 * SPDX-License-Identifier: MIT */
#include "query/cli/capture_text.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct number {
	const char *key;
	size_t offset; /* in the row */
};

#define NUMBER(name) { #name, offsetof(struct hf_snapshot_row, name) }

static const struct number numbers[] = {
	NUMBER(taken_ns),      NUMBER(start_time),   NUMBER(pause_ns),
	NUMBER(stop_ns),       NUMBER(regs_ns),	     NUMBER(fork_ns),
	NUMBER(resume_ns),     NUMBER(attempts),     NUMBER(missed_pause_ns),
	NUMBER(pause_calls),   NUMBER(max_thread_calls),
	NUMBER(safe_point_tries),		     NUMBER(partial_threads),
};

enum { NUM_NUMBERS = sizeof(numbers) / sizeof(numbers[0]) };

static uint64_t *number_at(struct hf_snapshot_row *row, size_t i)
{
	return (uint64_t *)(void *)((char *)row + numbers[i].offset);
}

struct hf_error *hf_capture_text_write(const struct hf_snapshot_row *row,
				       char **ret)
{
	struct hf_snapshot_row copy = *row;
	size_t len;
	FILE *file = open_memstream(ret, &len);

	if (!file)
		return &hf_enomem;
	for (size_t i = 0; i < NUM_NUMBERS; i++)
		if (*number_at(&copy, i) != HF_UNKNOWN_U64)
			fprintf(file, "%s=%" PRIu64 "\n", numbers[i].key,
				*number_at(&copy, i));
	if (row->boot_id)
		fprintf(file, "boot_id=%s\n", row->boot_id);
	if (row->safe_point)
		fprintf(file, "safe_point=%s\n", row->safe_point);
	if (fclose(file) == 0)
		return NULL;
	free(*ret);
	*ret = NULL;
	return &hf_enomem;
}

static void take_number(const char *key, const char *value,
			struct hf_snapshot_row *row)
{
	for (size_t i = 0; i < NUM_NUMBERS; i++) {
		uint64_t number = 0;

		if (strcmp(key, numbers[i].key))
			continue;
		if (!value[0] || strspn(value, "0123456789") != strlen(value) ||
		    sscanf(value, "%19" SCNu64, &number) != 1 ||
		    number > INT64_MAX)
			return;
		*number_at(row, i) = number;
		return;
	}
}

static bool is_uuid(const char *text)
{
	return strlen(text) == 36 &&
	       strspn(text, "0123456789abcdef-") == 36;
}

static const char *safe_point_of(const char *text)
{
	static const char *const known[] = { "found", "missed", "unknown",
					     "none" };

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(text, known[i]))
			return known[i];
	return NULL;
}

void hf_capture_text_read(char *text, struct hf_snapshot_row *row)
{
	char *rest, *line;

	for (line = strtok_r(text, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		char *value = strchr(line, '=');

		if (!value)
			continue;
		*value++ = '\0';
		if (!strcmp(line, "boot_id")) {
			if (is_uuid(value))
				row->boot_id = value;
		} else if (!strcmp(line, "safe_point")) {
			row->safe_point = safe_point_of(value);
		} else {
			take_number(line, value, row);
		}
	}
}
