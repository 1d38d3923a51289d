/* Numbers from text: strict, whole-string, with a sentence on failure.
 * SPDX-License-Identifier: MIT */
#ifndef HF_UTIL_PARSE_H
#define HF_UTIL_PARSE_H

#include "util/error.h"

/** Decimal, or hexadecimal with 0x. `what` names the value in the message.
 * Signs, blanks, trailing characters and overflow are USAGE errors. */
struct hf_error *hf_parse_u64(const char *text, const char *what,
			      uint64_t *ret) HF_MUST_CHECK;

/** As hf_parse_u64, refusing values outside [min, max]. */
struct hf_error *hf_parse_range(const char *text, const char *what,
				uint64_t min, uint64_t max, uint64_t *ret)
	HF_MUST_CHECK;

/** A number of `unit`s as a number of nanoseconds, with decimals: "0.5" of
 * HF_PARSE_MS are 500000. More than 0, and at most `max` units. */
enum { HF_PARSE_MS = 1000 * 1000, HF_PARSE_S = 1000 * 1000 * 1000 };
struct hf_error *hf_parse_time(const char *text, const char *what,
			       uint64_t unit, uint64_t max, uint64_t *ret)
	HF_MUST_CHECK;

/** A size in bytes: a number with an optional suffix K, M, G, T (powers of
 * 1024; "KiB" and "KB" are accepted as the same). */
struct hf_error *hf_parse_size(const char *text, const char *what,
			       uint64_t *ret) HF_MUST_CHECK;

#endif
