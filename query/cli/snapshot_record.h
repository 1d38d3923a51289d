/* Snapshot record: what a capture reports, as the database keeps it.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_CLI_SNAPSHOT_RECORD_H
#define HF_QUERY_CLI_SNAPSHOT_RECORD_H

#include "fork-agent/copy_out.h"
#include "indexer/index.h"

enum { HF_SNAPSHOT_NUM_FACTS = 15 };

/** A row of table `snapshot`, and facts for `meta` that it has no columns
 * for. It must not move once it is filled. */
struct hf_snapshot_record {
	struct hf_snapshot_row row;
	struct hf_index_fact facts[HF_SNAPSHOT_NUM_FACTS];
	char values[HF_SNAPSHOT_NUM_FACTS][24];
	size_t num_facts; /* HF_SNAPSHOT_NUM_FACTS once it is filled */
	uint64_t prepared_bytes; /* HF_UNKNOWN_U64: nobody asked */
	struct hf_copy_report copy;
	uint64_t predicted_pause_ns; /* HF_UNKNOWN_U64: nobody asked */
	char *boot_id, *command; /* row points to them */
};

/** What is known before the capture. */
void hf_snapshot_record_init(struct hf_snapshot_record *record, pid_t pid);

/** What is known when the process runs again. */
void hf_snapshot_record_pause(struct hf_snapshot_record *record,
			      const struct hf_capture_report *report);

/** What is known when the capture is over. */
void hf_snapshot_record_end(struct hf_snapshot_record *record,
			    const struct hf_capture_report *report);

void hf_snapshot_record_deinit(struct hf_snapshot_record *record);

HF_DEFINE_AUTO(struct hf_snapshot_record *, hf_snapshot_record,
	       hf_snapshot_record_deinit)

#endif
