/* Checkup: what was looked at before a capture, and what was found.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_DOCTOR_CHECKUP_H
#define HF_FORK_AGENT_DOCTOR_CHECKUP_H

#include "util/array.h"
#include "util/error.h"

enum hf_verdict {
	HF_VERDICT_OK,
	HF_VERDICT_UNKNOWN, /* cannot be told from outside, or not allowed to
			     * be looked at */
	HF_VERDICT_WARNING, /* a capture works, but something is the worse */
	HF_VERDICT_BLOCKER, /* a capture would fail */
};

struct hf_check {
	const char *name;        /* static; stays the same over versions */
	enum hf_verdict verdict;
	enum hf_error_code code; /* of a BLOCKER: of the capture's error */
	bool is_partial;         /* a WARNING that decides: the snapshot will
				  * be marked partial (PARTIAL) */
	char *found;             /* what there is, without judgement */
	char *cause;             /* why that matters; NULL if OK */
	char *fix;               /* what to do; NULL: nothing can be done */
	bool has_value;
	int64_t value;           /* the number behind `found` */
	const char *unit;        /* of value: "ns", "bytes", ...; static */
};

/** In the order in which a capture would meet them. */
struct hf_checkup {
	HF_ARRAY(struct hf_check) checks;
	struct hf_check spare;   /* returned when there is no memory */
	bool no_memory;
};

/** "ok", "warning", "blocker", "unknown". */
const char *hf_verdict_name(enum hf_verdict verdict);

/** Add a check. @return it, valid until the next one is added; never NULL. */
struct hf_check *hf_checkup_add(struct hf_checkup *checkup, const char *name,
				enum hf_verdict verdict, const char *format,
				...) HF_PRINTF(4, 5);

/** Set the cause, or the fix; return the check. */
struct hf_check *hf_check_cause(struct hf_check *check, const char *format,
				...) HF_PRINTF(2, 3);
struct hf_check *hf_check_fix(struct hf_check *check, const char *format, ...)
	HF_PRINTF(2, 3);

/** What stands in the way of a fork only: add to the fix that there is a way
 * without. */
struct hf_check *hf_check_fix_by_stop(struct hf_check *check);

/** It is a blocker, and this is the code of the error it leads to. */
struct hf_check *hf_check_block(struct hf_check *check,
				enum hf_error_code code);

/** It stays a warning, but the snapshot will be marked partial. */
struct hf_check *hf_check_partial(struct hf_check *check);

struct hf_check *hf_check_value(struct hf_check *check, uint64_t value,
				const char *unit);

/** A blocker out of an error: its message, cause, fix and code. Takes it. */
struct hf_check *hf_checkup_add_error(struct hf_checkup *checkup,
				      const char *name, struct hf_error *err);

/** The first blocker, or NULL. */
const struct hf_check *hf_checkup_blocker(const struct hf_checkup *checkup);

/** The first warning that makes the snapshot partial, or NULL. */
const struct hf_check *hf_checkup_partial(const struct hf_checkup *checkup);

/** The check of that name, or NULL. */
const struct hf_check *hf_checkup_find(const struct hf_checkup *checkup,
				       const char *name);

/** Safe on all zero. */
void hf_checkup_deinit(struct hf_checkup *checkup);

HF_DEFINE_AUTO(struct hf_checkup *, hf_checkup, hf_checkup_deinit)

#endif
