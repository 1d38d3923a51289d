/* Type match: the types a user means by a name.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_TYPE_MATCH_H
#define HF_QUERY_TYPE_MATCH_H

#include "query/db.h"

/**
 * Ids of the types whose name or full name is `name`; if there is none and it
 * contains *, ? or [, of those it matches as a GLOB pattern.
 *
 * @param ret caller frees.
 * @return NULL; NOT_FOUND, with similar names as the fix.
 */
struct hf_error *hf_type_match(struct hf_db *db, const char *name,
			       int64_t **ret, size_t *num_ret) HF_MUST_CHECK;

#endif
