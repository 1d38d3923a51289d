/* Error objects: what failed, why, and how to fix it.
 * SPDX-License-Identifier: MIT */
#include "util/error.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct hf_error hf_enomem = {
	.code = HF_ERROR_NO_MEMORY,
	.os_error = ENOMEM,
	.message = (char[]){ "out of memory" },
	.is_static = true,
};

struct hf_error hf_not_found = {
	.code = HF_ERROR_NOT_FOUND,
	.message = (char[]){ "not found" },
	.is_static = true,
};

struct hf_error hf_stop = {
	.code = HF_ERROR_STOP,
	.message = (char[]){ "stopped" },
	.is_static = true,
};

static struct hf_error *create_v(enum hf_error_code code, const char *format,
				 va_list args)
{
	HF_AUTO_FREE struct hf_error *err = calloc(1, sizeof(*err));

	if (!err || vasprintf(&err->message, format, args) < 0)
		return &hf_enomem;
	err->code = code;
	return HF_TAKE(err);
}

struct hf_error *hf_error_create(enum hf_error_code code, const char *format,
				 ...)
{
	va_list args;
	struct hf_error *err;

	va_start(args, format);
	err = create_v(code, format, args);
	va_end(args);
	return err;
}

static enum hf_error_code code_of_errno(int os_error)
{
	switch (os_error) {
	case ENOMEM:
		return HF_ERROR_NO_MEMORY;
	case EPERM:
	case EACCES:
		return HF_ERROR_PERMISSION;
	case ESRCH:
		return HF_ERROR_TARGET_GONE;
	case ENOSPC:
	case EDQUOT:
		return HF_ERROR_NO_SPACE;
	default:
		return HF_ERROR_OS;
	}
}

struct hf_error *hf_error_os(int os_error, const char *format, ...)
{
	va_list args;
	struct hf_error *err;
	char *full;

	va_start(args, format);
	err = create_v(code_of_errno(os_error), format, args);
	va_end(args);
	if (err == &hf_enomem)
		return err;
	err->os_error = os_error;
	if (asprintf(&full, "%s: %s", err->message, strerror(os_error)) >= 0) {
		free(err->message);
		err->message = full;
	}
	return err;
}

struct hf_error *hf_bad_data(const char *format, ...)
{
	va_list args;
	struct hf_error *err;

	va_start(args, format);
	err = create_v(HF_ERROR_BAD_DATA, format, args);
	va_end(args);
	return err;
}

struct hf_error *hf_error_fault(uint64_t addr)
{
	struct hf_error *err = hf_error_create(
		HF_ERROR_FAULT, "address 0x%" PRIx64 " is not readable", addr);

	if (!err->is_static)
		err->addr = addr;
	return err;
}

/* A static member is shared: change a copy of it. */
static struct hf_error *writable(struct hf_error *err)
{
	struct hf_error *copy;

	if (!err->is_static)
		return err;
	copy = calloc(1, sizeof(*copy));
	if (!copy)
		return NULL;
	*copy = *err;
	copy->is_static = false;
	copy->message = strdup(err->message);
	if (!copy->message) {
		free(copy);
		return NULL;
	}
	return copy;
}

struct hf_error *hf_error_prefix(struct hf_error *err, const char *format, ...)
{
	va_list args;
	HF_AUTO_FREE char *prefix = NULL;
	struct hf_error *copy;
	char *full;
	int len;

	if (!err || !(copy = writable(err)))
		return err;
	va_start(args, format);
	len = vasprintf(&prefix, format, args);
	va_end(args);
	if (len < 0) {
		prefix = NULL;
		return copy;
	}
	if (asprintf(&full, "%s: %s", prefix, copy->message) >= 0) {
		free(copy->message);
		copy->message = full;
	}
	return copy;
}

static struct hf_error *set_text(struct hf_error *err, bool is_fix,
				 const char *format, va_list args)
{
	struct hf_error *copy;
	char **field, *text;

	if (!err || !(copy = writable(err)))
		return err;
	if (vasprintf(&text, format, args) < 0)
		return copy;
	field = is_fix ? &copy->fix : &copy->cause;
	free(*field);
	*field = text;
	return copy;
}

struct hf_error *hf_error_cause(struct hf_error *err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	err = set_text(err, false, format, args);
	va_end(args);
	return err;
}

struct hf_error *hf_error_fix(struct hf_error *err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	err = set_text(err, true, format, args);
	va_end(args);
	return err;
}

void hf_error_destroy(struct hf_error *err)
{
	if (!err || err->is_static)
		return;
	free(err->message);
	free(err->cause);
	free(err->fix);
	free(err);
}
