/* Texts for the database: always valid UTF-8.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_DB_DB_TEXT_H
#define HF_INDEXER_DB_DB_TEXT_H

#include "util/error.h"

/* Names of threads, files and symbols are bytes that others chose. SQLite
 * would store them, but many of its clients refuse a row with a text that is
 * not UTF-8. */

/** Whether text is UTF-8 (RFC 3629: no surrogates, no overlong forms). */
bool hf_db_text_is_utf8(const char *text);

/** A copy with each byte that is not part of UTF-8 written as \xNN; valid
 * characters, control characters too, stay. Caller frees; NULL: no memory. */
char *hf_db_text_repair(const char *text);

#endif
