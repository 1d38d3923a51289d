/* Name pattern: the names of several snapshot files.
 * SPDX-License-Identifier: MIT */
#include "query/cli/name_pattern.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NUMBER_CHARS = 21 };

bool hf_name_pattern_has(const char *pattern, char letter)
{
	for (const char *at = pattern; (at = strchr(at, '%')); at++) {
		at++;
		if (*at == letter)
			return true;
		if (!*at)
			break;
	}
	return false;
}

struct hf_error *hf_name_pattern_expand(const char *pattern, pid_t pid,
					uint64_t number, char **ret)
{
	/* A %p of two characters becomes a number at most. */
	HF_AUTO_FREE char *name =
		malloc(strlen(pattern) * NUMBER_CHARS + 1);
	char *to = name;

	if (!name)
		return &hf_enomem;
	for (const char *at = pattern; *at; at++) {
		if (*at != '%') {
			*to++ = *at;
			continue;
		}
		at++;
		if (*at == 'p')
			to += sprintf(to, "%d", pid);
		else if (*at == 'n')
			to += sprintf(to, "%" PRIu64, number);
		else if (*at == '%')
			*to++ = '%';
		else
			return hf_error_fix(
				hf_error_create(HF_ERROR_USAGE,
						"'%s': '%%%.1s' means nothing "
						"in the name of a file",
						pattern, at),
				"%%p is the pid, %%n the number of the "
				"snapshot, %%%% a percent sign");
	}
	*to = '\0';
	*ret = HF_TAKE(name);
	return NULL;
}

struct hf_error *hf_name_pattern_quote(const char *text, char **ret)
{
	char *quoted = malloc(strlen(text) * 2 + 1), *to = quoted;

	if (!quoted)
		return &hf_enomem;
	for (; *text; text++) {
		if (*text == '%')
			*to++ = '%';
		*to++ = *text;
	}
	*to = '\0';
	*ret = quoted;
	return NULL;
}
