/* Printable: text of unknown origin made fit for a terminal or a data format.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_PRINTABLE_H
#define HF_QUERY_PRINTABLE_H

#include <stdio.h>

#include "util/error.h"

/**
 * Length of the valid UTF-8 character at the start of text: 1..4, or 0 if the
 * bytes are not one (truncated, overlong, a surrogate, above U+10FFFF).
 *
 * @param code_ret the character; may be NULL.
 */
size_t hf_utf8_decode(const char *text, size_t len, uint32_t *code_ret);

/** Whether a terminal might act on this character: C0, DEL, C1, and the marks
 * that turn the direction of text. */
bool hf_is_control(uint32_t code);

/**
 * A copy that is safe to print: control characters (newlines and tabs too)
 * and bytes that are no UTF-8 become \xNN, or \u{N} above 0xff.
 *
 * @param ret caller frees.
 */
struct hf_error *hf_printable(const char *text, size_t len, char **ret)
	HF_MUST_CHECK;

/** Columns of a terminal that valid UTF-8 needs, by the locale's tables; one
 * for each character the locale does not know. */
size_t hf_text_columns(const char *text);

/** Shorten to `columns` by an ellipsis in the middle, in place: both ends of a
 * type's name tell more than its middle. */
void hf_truncate_middle(char *text, size_t columns);

#endif
