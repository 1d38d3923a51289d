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

	*record = (struct hf_snapshot_record){
		.prepared_bytes = HF_UNKNOWN_U64,
		.predicted_pause_ns = HF_UNKNOWN_U64,
	};
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
		.reap_ns = HF_UNKNOWN_U64,
		.child_life_ns = HF_UNKNOWN_U64,
		.cow_pages = HF_UNKNOWN_U64,
		.parent_faults = HF_UNKNOWN_U64,
		.dropped_bytes = HF_UNKNOWN_U64,
		.peak_private_bytes = HF_UNKNOWN_U64,
		.attempts = HF_UNKNOWN_U64,
		.missed_pause_ns = HF_UNKNOWN_U64,
		.safe_point_tries = HF_UNKNOWN_U64,
		.pause_calls = HF_UNKNOWN_U64,
		.max_thread_calls = HF_UNKNOWN_U64,
		.partial_threads = HF_UNKNOWN_U64,
		.threads = HF_UNKNOWN_U64,
	};
}

static const char *safe_point(const struct hf_capture_report *report)
{
	if (!report->safe_point_tries)
		return "none";
	if (report->safe_point.unknown)
		return "unknown";
	return hf_safe_point_is_safe(&report->safe_point) ? "found" : "missed";
}

void hf_snapshot_record_pause(struct hf_snapshot_record *record,
			      const struct hf_capture_report *report)
{
	struct hf_snapshot_row *row = &record->row;

	row->source = report->mode == HF_CAPTURE_STOP ? "stop" : "live";
	row->taken_ns = report->taken_ns;
	row->start_time = report->start_time;
	row->pause_ns = report->pause_ns;
	row->stop_ns = report->stop_ns;
	row->regs_ns = report->regs_ns;
	row->fork_ns = report->mode == HF_CAPTURE_FORK ? report->fork_ns :
							HF_UNKNOWN_U64;
	row->resume_ns = report->resume_ns;
	row->attempts = report->num_attempts;
	row->missed_pause_ns = report->missed_pause_ns;
	row->safe_point = safe_point(report);
	row->safe_point_tries = report->safe_point_tries;
	row->pause_calls = report->pause_calls;
	row->max_thread_calls = report->max_thread_calls;
	row->partial_threads = report->num_partial;
	row->threads = report->num_threads;
	row->consistency = report->num_partial ? "partial_threads" : "exact";
	row->partial = report->num_partial > 0;
}

static const char *way_home(enum hf_way_home way)
{
	static const char *const names[] = {
		[HF_WAY_HOME_FULL] = "full",
		[HF_WAY_HOME_NO_SITE] = "no_site",
		[HF_WAY_HOME_NO_RETURN] = "no_return",
		[HF_WAY_HOME_NO_STACK] = "no_stack",
		[HF_WAY_HOME_SHADOW] = "shadow",
		[HF_WAY_HOME_SECCOMP] = "seccomp",
	};

	return names[way];
}

/* One fact; UINT64_MAX: its value is not known, NULL in the database. */
static void add_number(struct hf_snapshot_record *record, const char *key,
		       uint64_t value)
{
	char *text = record->values[record->num_facts];

	snprintf(text, sizeof(record->values[0]), "%" PRIu64, value);
	record->facts[record->num_facts++] = (struct hf_index_fact){
		key, value == HF_UNKNOWN_U64 ? NULL : text
	};
}

/* From where the index has the bytes, and why it was the child itself. */
static void add_copy(struct hf_snapshot_record *record, bool forked)
{
	static const char *const names[] = {
		[HF_SPOOL_NOWHERE] = "direct",
		[HF_SPOOL_MEMORY] = "memory",
		[HF_SPOOL_FILE] = "file",
	};
	const struct hf_spool_report *spool = &record->copy.spool;
	bool whole = spool->is_whole;

	record->facts[record->num_facts++] = (struct hf_index_fact){
		"capture.read_from",
		names[whole ? spool->place : HF_SPOOL_NOWHERE]
	};
	record->facts[record->num_facts++] = (struct hf_index_fact){
		"capture.read_direct_because",
		forked && !whole && spool->why[0] ? spool->why : NULL
	};
	add_number(record, "capture.copied_bytes",
		   forked ? spool->copied_bytes : HF_UNKNOWN_U64);
}

static void fill_facts(struct hf_snapshot_record *record,
		       const struct hf_capture_report *report)
{
	bool forked = report->mode == HF_CAPTURE_FORK;
	bool looked = report->safe_point_tries && !report->safe_point.unknown;
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {
		{ "capture.fifo", report->fifo },
		{ "capture.restarted_calls", report->num_restarted },
		{ "capture.vfork_children", report->num_vfork_children },
		{ "capture.vfork_stopped", report->num_vfork_stopped },
		{ "capture.locked_arenas",
		  looked ? report->safe_point.num_locked : HF_UNKNOWN_U64 },
		{ "capture.threads_inside",
		  looked ? report->safe_point.num_inside : HF_UNKNOWN_U64 },
		{ "capture.descriptors_closed",
		  forked ? report->descriptors_closed : HF_UNKNOWN_U64 },
		{ "capture.journaled",
		  forked ? report->journaled : HF_UNKNOWN_U64 },
		{ "capture.reaped", forked ? report->reaped : HF_UNKNOWN_U64 },
		{ "capture.prepared_bytes", record->prepared_bytes },
		{ "capture.predicted_pause_ns", record->predicted_pause_ns },
	};

	_Static_assert(sizeof(numbers) / sizeof(*numbers) + 4 ==
			       HF_SNAPSHOT_NUM_FACTS,
		       "room for each fact");
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		add_number(record, numbers[i].key, numbers[i].value);
	add_copy(record, forked);
	/* A thread is borrowed for the fork only. */
	record->facts[record->num_facts++] = (struct hf_index_fact){
		"capture.way_home", forked ? way_home(report->way_home) : NULL
	};
}

void hf_snapshot_record_end(struct hf_snapshot_record *record,
			    const struct hf_capture_report *report)
{
	struct hf_snapshot_row *row = &record->row;

	record->num_facts = 0;
	/* In HF_CAPTURE_STOP the pause ends only now. */
	row->pause_ns = report->pause_ns;
	row->resume_ns = report->resume_ns;
	fill_facts(record, report);
	/* Nobody forked, and what was read stood still. */
	if (report->mode != HF_CAPTURE_FORK)
		return;
	row->reap_ns = report->reap_ns;
	row->child_life_ns = report->child_life_ns;
	row->cow_pages = report->cow_pages;
	row->parent_faults = report->parent_faults;
	row->dropped_bytes = report->dropped_bytes;
	row->peak_private_bytes = report->peak_private_bytes;
}

void hf_snapshot_record_deinit(struct hf_snapshot_record *record)
{
	free(record->boot_id);
	free(record->command);
}
