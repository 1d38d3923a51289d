/* Capture text: what a core of ours says of its capture, a line each.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_CLI_CAPTURE_TEXT_H
#define HF_QUERY_CLI_CAPTURE_TEXT_H

#include "indexer/db/snapshot_row.h"
#include "util/error.h"

/* Lines "key=value" with the names of the columns of table `snapshot`, for
 * HF_NOTE_CAPTURE. Texts end at the line, numbers are decimal; what is not
 * known has no line. */

/** What is known at the end of the pause. @param ret the caller frees. */
struct hf_error *hf_capture_text_write(const struct hf_snapshot_row *row,
				       char **ret) HF_MUST_CHECK;

/**
 * Take over what the lines say; keys that are not known are passed over, as
 * are values that no capture could have.
 *
 * @param text is cut into pieces; the row's texts point into it.
 */
void hf_capture_text_read(char *text, struct hf_snapshot_row *row);

#endif
