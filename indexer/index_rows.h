/* Index rows: the small tables, and the texts that rows need.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_INDEX_ROWS_H
#define HF_INDEXER_INDEX_ROWS_H

#include "indexer/db/db_writer.h"
#include "indexer/index_model.h"

/** meta, snapshot, module, segment, thread, frame, reader, heap_area,
 * anomaly. */
struct hf_error *hf_index_write_image(const struct hf_index_model *model,
				      struct hf_db_writer *db,
				      const struct hf_snapshot_row *snapshot)
	HF_MUST_CHECK;

/** thread, frame: a part of hf_index_write_image. */
struct hf_error *hf_index_write_threads(const struct hf_index_model *model,
					struct hf_db_writer *db) HF_MUST_CHECK;

/** Name of the root in word `slot` of a holder; NULL where only the address
 * tells (stacks, unknown memory). Static, or lives as long as the holder. */
const char *hf_index_root_name(const struct hf_holder *holder, uint32_t slot);

#endif
