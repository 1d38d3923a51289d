/* Checkup: what was looked at before a capture, and what was found.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/doctor/checkup.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *hf_verdict_name(enum hf_verdict verdict)
{
	switch (verdict) {
	case HF_VERDICT_OK:
		return "ok";
	case HF_VERDICT_UNKNOWN:
		return "unknown";
	case HF_VERDICT_WARNING:
		return "warning";
	case HF_VERDICT_BLOCKER:
		break;
	}
	return "blocker";
}

static void release(struct hf_check *check)
{
	free(check->found);
	free(check->cause);
	free(check->fix);
	memset(check, 0, sizeof(*check));
}

static char *print(const char *format, va_list args)
{
	char *text;

	return vasprintf(&text, format, args) < 0 ? NULL : text;
}

struct hf_check *hf_checkup_add(struct hf_checkup *checkup, const char *name,
				enum hf_verdict verdict, const char *format,
				...)
{
	struct hf_check check = { .name = name, .verdict = verdict };
	struct hf_error *err;
	va_list args;

	va_start(args, format);
	check.found = print(format, args);
	va_end(args);
	err = hf_array_append(&checkup->checks, check);
	if (!err && check.found)
		return &checkup->checks.data[checkup->checks.num - 1];
	checkup->no_memory = true;
	if (!err)
		return &checkup->checks.data[checkup->checks.num - 1];
	hf_error_ignore(err);
	release(&checkup->spare);
	checkup->spare = check;
	return &checkup->spare;
}

struct hf_check *hf_check_cause(struct hf_check *check, const char *format,
				...)
{
	va_list args;

	free(check->cause);
	va_start(args, format);
	check->cause = print(format, args);
	va_end(args);
	return check;
}

struct hf_check *hf_check_fix(struct hf_check *check, const char *format, ...)
{
	va_list args;

	free(check->fix);
	va_start(args, format);
	check->fix = print(format, args);
	va_end(args);
	return check;
}

struct hf_check *hf_check_fix_by_stop(struct hf_check *check)
{
	static const char advice[] =
		"read the process itself while it stands: --mode stop";
	HF_AUTO_FREE char *first = HF_TAKE(check->fix);

	return first ? hf_check_fix(check, "%s; or %s", first, advice) :
		       hf_check_fix(check, "%s", advice);
}

struct hf_check *hf_check_block(struct hf_check *check,
				enum hf_error_code code)
{
	check->verdict = HF_VERDICT_BLOCKER;
	check->code = code;
	return check;
}

struct hf_check *hf_check_partial(struct hf_check *check)
{
	check->verdict = HF_VERDICT_WARNING;
	check->is_partial = true;
	return check;
}

struct hf_check *hf_check_value(struct hf_check *check, uint64_t value,
				const char *unit)
{
	check->has_value = true;
	check->value = value > INT64_MAX ? INT64_MAX : (int64_t)value;
	check->unit = unit;
	return check;
}

struct hf_check *hf_checkup_add_error(struct hf_checkup *checkup,
				      const char *name, struct hf_error *err)
{
	struct hf_check *check = hf_checkup_add(
		checkup, name, HF_VERDICT_BLOCKER, "%s", err->message);

	hf_check_block(check, err->code);
	if (err->cause)
		hf_check_cause(check, "%s", err->cause);
	if (err->fix)
		hf_check_fix(check, "%s", err->fix);
	hf_error_destroy(err);
	return check;
}

const struct hf_check *hf_checkup_blocker(const struct hf_checkup *checkup)
{
	for (size_t i = 0; i < checkup->checks.num; i++)
		if (checkup->checks.data[i].verdict == HF_VERDICT_BLOCKER)
			return &checkup->checks.data[i];
	return NULL;
}

const struct hf_check *hf_checkup_partial(const struct hf_checkup *checkup)
{
	for (size_t i = 0; i < checkup->checks.num; i++)
		if (checkup->checks.data[i].is_partial)
			return &checkup->checks.data[i];
	return NULL;
}

const struct hf_check *hf_checkup_find(const struct hf_checkup *checkup,
				       const char *name)
{
	for (size_t i = 0; i < checkup->checks.num; i++)
		if (!strcmp(checkup->checks.data[i].name, name))
			return &checkup->checks.data[i];
	return NULL;
}

void hf_checkup_deinit(struct hf_checkup *checkup)
{
	for (size_t i = 0; i < checkup->checks.num; i++)
		release(&checkup->checks.data[i]);
	hf_array_deinit(&checkup->checks);
	release(&checkup->spare);
}
