/* Printable: text of unknown origin made fit for a terminal or a data format.
 * SPDX-License-Identifier: MIT */
#include "query/printable.h"

#include <string.h>
#include <wchar.h>

size_t hf_utf8_decode(const char *text, size_t len, uint32_t *code_ret)
{
	const unsigned char *p = (const unsigned char *)text;
	uint32_t code, lowest;
	size_t need;

	if (!len)
		return 0;
	if (p[0] < 0x80) {
		if (code_ret)
			*code_ret = p[0];
		return 1;
	}
	if (p[0] >= 0xc2 && p[0] <= 0xdf) {
		need = 2;
		code = p[0] & 0x1f;
		lowest = 0x80;
	} else if ((p[0] & 0xf0) == 0xe0) {
		need = 3;
		code = p[0] & 0x0f;
		lowest = 0x800;
	} else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
		need = 4;
		code = p[0] & 0x07;
		lowest = 0x10000;
	} else {
		return 0;
	}
	if (len < need)
		return 0;
	for (size_t i = 1; i < need; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (p[i] & 0x3f);
	}
	if (code < lowest || code > 0x10ffff ||
	    (code >= 0xd800 && code <= 0xdfff))
		return 0;
	if (code_ret)
		*code_ret = code;
	return need;
}

bool hf_is_control(uint32_t code)
{
	return code < 0x20 || (code >= 0x7f && code <= 0x9f) ||
	       code == 0x061c ||                      /* Arabic letter mark */
	       (code >= 0x200b && code <= 0x200f) ||  /* zero width, LRM, RLM */
	       (code >= 0x2028 && code <= 0x202e) ||  /* separators, bidi */
	       (code >= 0x2060 && code <= 0x2069) ||  /* joiners, isolates */
	       code == 0xfeff;                        /* byte order mark */
}

struct hf_error *hf_printable(const char *text, size_t len, char **ret)
{
	/* The longest growth is \xNN for one byte. */
	size_t room, done = 0;
	char *out;

	if (__builtin_mul_overflow(len, (size_t)4, &room) ||
	    __builtin_add_overflow(room, (size_t)1, &room))
		return &hf_enomem;
	out = malloc(room);
	if (!out)
		return &hf_enomem;
	for (size_t i = 0; i < len;) {
		uint32_t code;
		size_t n = hf_utf8_decode(text + i, len - i, &code);

		if (!n) {
			done += (size_t)sprintf(out + done, "\\x%02x",
						(unsigned char)text[i]);
			i++;
			continue;
		}
		if (!hf_is_control(code)) {
			memcpy(out + done, text + i, n);
			done += n;
		} else if (code <= 0xff) {
			done += (size_t)sprintf(out + done, "\\x%02x", code);
		} else {
			/* three bytes at least, eight at most */
			done += (size_t)sprintf(out + done, "\\u{%x}", code);
		}
		i += n;
	}
	out[done] = '\0';
	*ret = out;
	return NULL;
}

static size_t char_columns(uint32_t code)
{
	int columns = wcwidth((wchar_t)code);

	return columns >= 0 ? (size_t)columns : 1;
}

size_t hf_text_columns(const char *text)
{
	size_t len = strlen(text), columns = 0;

	for (size_t i = 0; i < len;) {
		uint32_t code = '?';
		size_t n = hf_utf8_decode(text + i, len - i, &code);

		columns += char_columns(code);
		i += n ? n : 1;
	}
	return columns;
}

void hf_truncate_middle(char *text, size_t columns)
{
	static const char dots[] = "...";
	size_t len = strlen(text), have = hf_text_columns(text);
	size_t head, cut = 0, head_columns = 0, skipped = 0, end;

	if (have <= columns || columns < 5)
		return;
	head = (columns - 3 + 1) / 2;
	while (cut < len) {
		uint32_t code = '?';
		size_t n = hf_utf8_decode(text + cut, len - cut, &code);

		if (head_columns + char_columns(code) > head)
			break;
		head_columns += char_columns(code);
		cut += n ? n : 1;
	}
	for (end = cut; end < len;) {
		uint32_t code = '?';
		size_t n = hf_utf8_decode(text + end, len - end, &code);

		if (have - skipped <= columns - 3)
			break;
		skipped += char_columns(code);
		end += n ? n : 1;
	}
	if (end - cut < sizeof(dots) - 1)
		return; /* a few wide characters: nothing to gain */
	memcpy(text + cut, dots, sizeof(dots) - 1);
	memmove(text + cut + sizeof(dots) - 1, text + end, len - end + 1);
}
