/* Graph text: a heap as a page of text, made into a snapshot file.
 * SPDX-License-Identifier: MIT */
#ifndef HF_TESTS_SUPPORT_GRAPH_TEXT_H
#define HF_TESTS_SUPPORT_GRAPH_TEXT_H

#include "util/error.h"

/* One thing a line; '#' begins a comment. Names are single words.
 *
 *   holder KIND NAME            a root holder; KIND as in table root
 *   block NAME BYTES TYPE...    a live block; the rest of the line is its
 *                               type, or - for its size class
 *   ref FROM TO [SLOT] [FLAG]   a reference; without SLOT, the word behind
 *                               the last one of FROM; FLAG: interior
 *   thread TID NAME [CALL]      a thread, in this system call
 *   frame PC FUNCTION HOW [FILE LINE]   a frame of the last thread; PC in
 *                               hexadecimal, HOW as in table frame
 *
 * Holders come first. Object ids are counted in the order of the lines;
 * blocks get ascending addresses. Everything that the index derives from the
 * references (dominators, distances, ...) is computed by indexer/graph. */

/**
 * Read `text_path` and write the snapshot file `db_path`, which must not
 * exist. Mistakes in the text are BAD_DATA with the line.
 */
struct hf_error *hf_graph_text_write(const char *text_path,
				     const char *db_path) HF_MUST_CHECK;

/** Object id of `name` in the text, by the same rules; 0: no such name. */
struct hf_error *hf_graph_text_find(const char *text_path, const char *name,
				    uint64_t *id_ret) HF_MUST_CHECK;

#endif
