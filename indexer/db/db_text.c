/* Texts for the database: always valid UTF-8.
 * SPDX-License-Identifier: MIT */
#include "indexer/db/db_text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Bytes of the character at the start of text, 0 if it is not one. The range
 * of the second byte is what keeps out overlong forms, surrogates, and what
 * is beyond U+10FFFF (RFC 3629, section 4). The NUL at the end of the text is
 * no continuation byte, so nothing behind it is read. */
static size_t character_bytes(const unsigned char *text)
{
	unsigned char low = 0x80, high = 0xbf;
	size_t num;

	if (text[0] < 0x80)
		return 1;
	if (text[0] >= 0xc2 && text[0] <= 0xdf)
		num = 2;
	else if (text[0] >= 0xe0 && text[0] <= 0xef)
		num = 3;
	else if (text[0] >= 0xf0 && text[0] <= 0xf4)
		num = 4;
	else
		return 0;
	if (text[0] == 0xe0)
		low = 0xa0;
	else if (text[0] == 0xed)
		high = 0x9f;
	else if (text[0] == 0xf0)
		low = 0x90;
	else if (text[0] == 0xf4)
		high = 0x8f;
	if (text[1] < low || text[1] > high)
		return 0;
	for (size_t i = 2; i < num; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	return num;
}

bool hf_db_text_is_utf8(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;

	while (*p) {
		size_t num = character_bytes(p);

		if (!num)
			return false;
		p += num;
	}
	return true;
}

char *hf_db_text_repair(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t len = strlen(text), used = 0;
	char *copy = len < SIZE_MAX / 4 ? malloc(4 * len + 1) : NULL;

	if (!copy)
		return NULL;
	while (*p) {
		size_t num = character_bytes(p);

		if (num) {
			memcpy(copy + used, p, num);
			used += num;
			p += num;
		} else {
			used += (size_t)snprintf(copy + used, 5, "\\x%02x",
						 *p++);
		}
	}
	copy[used] = '\0';
	return copy;
}
