/* Snapshot record: what a capture reports, as the database keeps it.
 * SPDX-License-Identifier: MIT */
#include "query/cli/snapshot_record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "util/file.h"

/* One line of a file of /proc, without its end. */
static struct hf_error *read_line(const char *path, char **ret)
{
	struct hf_error *err = hf_read_file(path, ret, NULL);

	if (!err)
		(*ret)[strcspn(*ret, "\n")] = '\0';
	return err;
}

void hf_snapshot_record_init(struct hf_snapshot_record *record, pid_t pid)
{
	char comm[64];

	*record = (struct hf_snapshot_record){ 0 };
	snprintf(comm, sizeof(comm), "/proc/%d/comm", pid);
	/* Nice to have: why there is no process is for the capture to say. */
	hf_error_ignore(read_line(comm, &record->command));
	hf_error_ignore(read_line("/proc/sys/kernel/random/boot_id",
				  &record->boot_id));
	record->row = (struct hf_snapshot_row){
		.pid = (uint64_t)pid,
		.boot_id = record->boot_id,
		.command = record->command,
		.source = "live",
		.safe_point = "none",
		.reap_ns = HF_UNKNOWN_U64,
		.child_life_ns = HF_UNKNOWN_U64,
		.cow_pages = HF_UNKNOWN_U64,
	};
}

void hf_snapshot_record_pause(struct hf_snapshot_record *record,
			      const struct hf_capture_report *report)
{
	struct hf_snapshot_row *row = &record->row;

	row->taken_ns = report->taken_ns;
	row->start_time = report->start_time;
	row->pause_ns = report->pause_ns;
	row->stop_ns = report->stop_ns;
	row->regs_ns = report->regs_ns;
	row->fork_ns = report->fork_ns;
	row->resume_ns = report->resume_ns;
	row->threads = report->num_threads;
	row->consistency = report->num_partial ? "partial_threads" : "exact";
	row->partial = report->num_partial > 0;
}

static void fill_facts(struct hf_snapshot_record *record,
		       const struct hf_capture_report *report)
{
	const struct {
		const char *key;
		uint32_t value;
	} facts[] = {
		{ "capture.attempts", report->num_attempts },
		{ "capture.restarted_calls", report->num_restarted },
		{ "capture.vfork_children", report->num_vfork_children },
		{ "capture.descriptors_closed", report->descriptors_closed },
		{ "capture.reaped", report->reaped },
	};

	_Static_assert(sizeof(facts) / sizeof(*facts) == HF_SNAPSHOT_NUM_FACTS,
		       "room for each fact");
	for (size_t i = 0; i < HF_SNAPSHOT_NUM_FACTS; i++) {
		snprintf(record->values[i], sizeof(record->values[i]),
			 "%" PRIu32, facts[i].value);
		record->facts[i] = (struct hf_index_fact){
			facts[i].key, record->values[i]
		};
	}
}

void hf_snapshot_record_end(struct hf_snapshot_record *record,
			    const struct hf_capture_report *report)
{
	record->row.reap_ns = report->reap_ns;
	record->row.child_life_ns = report->child_life_ns;
	record->row.cow_pages = report->cow_pages;
	fill_facts(record, report);
}

void hf_snapshot_record_deinit(struct hf_snapshot_record *record)
{
	free(record->boot_id);
	free(record->command);
}
