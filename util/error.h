/* Error objects: what failed, why, and how to fix it.
 * SPDX-License-Identifier: MIT */
#ifndef HF_UTIL_ERROR_H
#define HF_UTIL_ERROR_H

#include <stdint.h>

#include "util/cleanup.h"

/** What a caller may decide on. Everything else is in the message. */
enum hf_error_code {
	HF_ERROR_NO_MEMORY = 1, /* our own allocation failed */
	HF_ERROR_OS,            /* a system call failed; os_error is set */
	HF_ERROR_FAULT,         /* an address of the image is not readable */
	HF_ERROR_NOT_FOUND,     /* the thing asked for is not there */
	HF_ERROR_BAD_DATA,      /* input is damaged or is not what it claims */
	HF_ERROR_UNSUPPORTED,   /* runtime, architecture or kernel without it */
	HF_ERROR_PERMISSION,    /* the kernel forbids it to this user */
	HF_ERROR_SQL,           /* SQLite said no */
	HF_ERROR_USAGE,         /* the command line makes no sense */
	HF_ERROR_TARGET_GONE,   /* the process does not exist or went away */
	HF_ERROR_NO_SPACE,      /* disk full, quota, or a limit of memory */
	HF_ERROR_TIMEOUT,       /* a time limit ran out; nothing was changed */
	HF_ERROR_PARTIAL,       /* a result exists, but is incomplete */
	HF_ERROR_INTERRUPTED,   /* the user asked to stop */
	HF_ERROR_TOO_LONG,      /* would take longer than is allowed */
	HF_ERROR_STOP,          /* a callback ended the walk on purpose */
};

/**
 * An error. NULL is success. Whoever receives an error owns it and either
 * hands it on, or destroys it.
 */
struct hf_error {
	enum hf_error_code code;
	int os_error;    /* errno where a system call failed, else 0 */
	uint64_t addr;   /* first unreadable address (HF_ERROR_FAULT), else 0 */
	char *message;   /* what failed, lower case, no full stop */
	char *cause;     /* why, or NULL */
	char *fix;       /* what to do, or NULL */
	bool is_static;  /* one of the static members below: never freed */
};

/* The members of the family that need no allocation. */
extern struct hf_error hf_enomem;
extern struct hf_error hf_not_found;
extern struct hf_error hf_stop;

struct hf_error *hf_error_create(enum hf_error_code code, const char *format,
				 ...) HF_PRINTF(2, 3) HF_MUST_CHECK;

/** As hf_error_create, with ": strerror(os_error)" appended. The code follows
 * from os_error: ENOMEM, EPERM/EACCES, ESRCH, ENOSPC/EDQUOT have their own. */
struct hf_error *hf_error_os(int os_error, const char *format, ...)
	HF_PRINTF(2, 3) HF_MUST_CHECK;

/** Damaged input, at the place where it is first seen: one function, so that
 * one breakpoint finds them all. */
struct hf_error *hf_bad_data(const char *format, ...)
	HF_PRINTF(1, 2) HF_MUST_CHECK;

/** Address `addr` of the image is not readable. */
struct hf_error *hf_error_fault(uint64_t addr) HF_MUST_CHECK;

/** Put "prefix: " before the message. Takes err, returns the error to use. */
struct hf_error *hf_error_prefix(struct hf_error *err, const char *format, ...)
	HF_PRINTF(2, 3) HF_MUST_CHECK;

/** Set the cause (replacing one that is there). Takes and returns err. */
struct hf_error *hf_error_cause(struct hf_error *err, const char *format, ...)
	HF_PRINTF(2, 3) HF_MUST_CHECK;

/** Set the fix (replacing one that is there). Takes and returns err. */
struct hf_error *hf_error_fix(struct hf_error *err, const char *format, ...)
	HF_PRINTF(2, 3) HF_MUST_CHECK;

/** Free an error. NULL and static members are fine. */
void hf_error_destroy(struct hf_error *err);

/** Say that an error is ignored on purpose. */
static inline void hf_error_ignore(struct hf_error *err)
{
	hf_error_destroy(err);
}

HF_DEFINE_AUTO(struct hf_error *, hf_error, hf_error_destroy)

#endif
