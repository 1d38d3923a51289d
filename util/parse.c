/* Numbers from text: strict, whole-string, with a sentence on failure.
 * SPDX-License-Identifier: MIT */
#include "util/parse.h"

#include <ctype.h>
#include <inttypes.h>
#include <strings.h>

static struct hf_error *not_a_number(const char *text, const char *what)
{
	return hf_error_create(HF_ERROR_USAGE, "%s '%s' is not a number", what,
			       text);
}

/* The digits at *text; *text moves behind them. */
static struct hf_error *parse_digits(const char **text, const char *what,
				     uint64_t *ret)
{
	const char *start = *text;
	char *end;
	bool hex = start[0] == '0' && (start[1] == 'x' || start[1] == 'X');
	uint64_t value;

	if (!isdigit((unsigned char)start[0]) ||
	    (hex && !isxdigit((unsigned char)start[2])))
		return not_a_number(start, what);
	errno = 0;
	value = strtoull(start, &end, hex ? 16 : 10);
	if (errno == ERANGE)
		return hf_error_create(HF_ERROR_USAGE, "%s '%s' is too large",
				       what, start);
	*text = end;
	*ret = value;
	return NULL;
}

struct hf_error *hf_parse_u64(const char *text, const char *what,
			      uint64_t *ret)
{
	const char *end = text;
	uint64_t value;
	struct hf_error *err = parse_digits(&end, what, &value);

	if (err)
		return err;
	if (*end)
		return not_a_number(text, what);
	*ret = value;
	return NULL;
}

struct hf_error *hf_parse_range(const char *text, const char *what,
				uint64_t min, uint64_t max, uint64_t *ret)
{
	uint64_t value;
	struct hf_error *err = hf_parse_u64(text, what, &value);

	if (err)
		return err;
	if (value < min || value > max)
		return hf_error_create(HF_ERROR_USAGE,
				       "%s %" PRIu64 " is not between %" PRIu64
				       " and %" PRIu64,
				       what, value, min, max);
	*ret = value;
	return NULL;
}

struct hf_error *hf_parse_time(const char *text, const char *what,
			       uint64_t unit, uint64_t max, uint64_t *ret)
{
	uint64_t whole = 0, fraction = 0, part = unit;
	const char *at = text;
	bool digits = false;

	for (; isdigit((unsigned char)*at); at++, digits = true)
		if (whole <= max)
			whole = whole * 10 + (uint64_t)(*at - '0');
	if (*at == '.')
		for (at++; isdigit((unsigned char)*at); at++, digits = true) {
			part /= 10;
			fraction += (uint64_t)(*at - '0') * part;
		}
	if (!digits || *at)
		return not_a_number(text, what);
	if (whole > max || (whole == max && fraction) || !(whole | fraction))
		return hf_error_create(HF_ERROR_USAGE,
				       "%s %s is not more than 0 and at most "
				       "%" PRIu64, what, text, max);
	*ret = whole * unit + fraction;
	return NULL;
}

struct hf_error *hf_parse_size(const char *text, const char *what,
			       uint64_t *ret)
{
	static const char letters[] = "KMGT";
	const char *end = text;
	uint64_t value, scale = 1;
	struct hf_error *err = parse_digits(&end, what, &value);

	if (err)
		return err;
	for (size_t i = 0; letters[i] && *end; i++) {
		if (toupper((unsigned char)*end) != letters[i])
			continue;
		scale = UINT64_C(1) << (10 * (i + 1));
		end++;
		if (!strcasecmp(end, "b") || !strcasecmp(end, "ib"))
			end += end[1] ? 2 : 1;
		break;
	}
	if (*end)
		return hf_error_fix(
			hf_error_create(HF_ERROR_USAGE, "%s '%s' is not a size",
					what, text),
			"give a number, with K, M, G or T if you like: 512M");
	if (__builtin_mul_overflow(value, scale, &value))
		return hf_error_create(HF_ERROR_USAGE, "%s '%s' is too large",
				       what, text);
	*ret = value;
	return NULL;
}
