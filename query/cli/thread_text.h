/* Thread text: threads and stacks for people, as debuggers show them.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_CLI_THREAD_TEXT_H
#define HF_QUERY_CLI_THREAD_TEXT_H

#include "query/cli/cli.h"
#include "query/query.h"

struct hf_thread_text_args {
	int64_t tid;    /* -1: all threads */
	int64_t limit;  /* threads, or groups of them, at most; -1: all */
	bool merge;     /* threads with the same stack are one */
	bool registers; /* all of them; not with merge */
};

/** Print to standard output. @param num_ret threads, or groups, printed. */
struct hf_error *hf_thread_text_print(struct hf_db *db,
				      const struct hf_thread_text_args *args,
				      uint64_t *num_ret) HF_MUST_CHECK;

/** A canned query with the parameters ?1 tid and ?2 limit. */
struct hf_error *hf_thread_query(struct hf_db *db, const char *name,
				 const struct hf_thread_text_args *args,
				 struct hf_query **ret) HF_MUST_CHECK;

#endif
