/* Snapshot report: what a snapshot cost and found, for the user.
 * SPDX-License-Identifier: MIT */
#include "query/cli/snapshot_report.h"

#include <inttypes.h>

static void warn_leader(const struct hf_cli *cli)
{
	hf_cli_warn(cli, hf_error_cause(
		hf_error_create(HF_ERROR_PARTIAL,
				"the registers of the first thread are not "
				"known, and all of its stack counts, also what "
				"was dead: the snapshot is partial"),
		"the first of several threads is not traced (or programs would "
		"notice), and has ended when the others are held"));
}

static void warn_partial_threads(const struct hf_cli *cli,
				 const struct hf_capture_report *report)
{
	struct hf_error *warning;

	if (report->leader_ended) {
		warn_leader(cli);
		return;
	}
	warning = hf_error_create(
		HF_ERROR_PARTIAL,
		"%" PRIu32 " of %" PRIu32 " threads could not be stopped: the "
		"snapshot is partial",
		report->num_partial, report->num_threads);

	if (report->num_vfork_children)
		warning = hf_error_cause(
			warning,
			"a thread that waits for the child of a vfork cannot "
			"be, and %" PRIu32 " such process%s ran on in the "
			"memory of this one",
			report->num_vfork_children,
			report->num_vfork_children == 1 ? "" : "es");
	else if (report->num_vfork_stopped)
		warning = hf_error_cause(
			warning,
			"a thread that waits for the child of a vfork cannot "
			"be; its child stood with the others, so that the "
			"memory is of one instant");
	else
		warning = hf_error_cause(
			warning, "they wait in the kernel, beyond the reach "
				 "of any signal: for a disk, a network file "
				 "system, or a child that has just begun its "
				 "program");
	hf_cli_warn(cli, hf_error_fix(warning, "if it matters, take another "
					       "snapshot a little later"));
}

static void warn_sharers(const struct hf_cli *cli,
			 const struct hf_capture_report *report)
{
	struct hf_error *warning = hf_error_create(
		HF_ERROR_PARTIAL,
		"%" PRIu32 " other process%s ran on in the memory of the "
		"process, which may therefore not be of one instant",
		report->num_vfork_children,
		report->num_vfork_children == 1 ? "" : "es");

	warning = hf_error_cause(warning,
				 "a child that shares its memory (clone with "
				 "CLONE_VM) did not stop in time, or has "
				 "another tracer");
	hf_cli_warn(cli, hf_error_fix(warning, "if it matters, take another "
					       "snapshot a little later"));
}

static void warn_descriptors(const struct hf_cli *cli)
{
	struct hf_error *warning = hf_error_create(
		HF_ERROR_PARTIAL, "the frozen child holds descriptors of the "
				  "process as long as it lives");

	warning = hf_error_cause(warning,
				 "the process may not close them in it "
				 "(close_range and close fail: a seccomp "
				 "filter, or the child died)");
	hf_cli_warn(cli, hf_error_fix(warning,
				      "until this ends, do not count on files "
				      "and connections that the process "
				      "closes to be closed"));
}

static void note_safe_point(const struct hf_cli *cli,
			    const struct hf_capture_report *report)
{
	const struct hf_safe_point_state *state = &report->safe_point;

	if (!report->safe_point_tries)
		hf_cli_note(cli, "safe point: not looked for");
	else if (state->unknown)
		hf_cli_note(cli, "safe point: nothing is known of this "
				 "allocator");
	else if (hf_safe_point_is_safe(state))
		hf_cli_note(cli,
			    "safe point: yes, no thread in the allocator, no "
			    "arena locked (stop %" PRIu32 ")",
			    report->safe_point_tries);
	else
		hf_cli_note(cli,
			    "safe point: missed in %" PRIu32 " stop%s: "
			    "%" PRIu32 " thread%s in the allocator, %" PRIu32
			    " arena%s locked",
			    report->safe_point_tries,
			    hf_cli_plural(report->safe_point_tries),
			    state->num_inside,
			    hf_cli_plural(state->num_inside),
			    state->num_locked,
			    hf_cli_plural(state->num_locked));
}

void hf_snapshot_report_pause(const struct hf_cli *cli,
			      const struct hf_capture_report *report)
{
	if (report->mode == HF_CAPTURE_STOP)
		hf_cli_note(cli,
			    "stood still for %.1f ms (stop %.1f, registers "
			    "%.1f, resume %.1f), %" PRIu32 " thread%s",
			    (double)report->pause_ns / 1e6,
			    (double)report->stop_ns / 1e6,
			    (double)report->regs_ns / 1e6,
			    (double)report->resume_ns / 1e6,
			    report->num_threads,
			    hf_cli_plural(report->num_threads));
	else
		hf_cli_note(cli,
		    "paused %.1f ms (stop %.1f, registers %.1f, fork %.1f, "
		    "resume %.1f), %" PRIu32 " thread%s",
		    (double)report->pause_ns / 1e6,
		    (double)report->stop_ns / 1e6,
		    (double)report->regs_ns / 1e6,
		    (double)report->fork_ns / 1e6,
		    (double)report->resume_ns / 1e6, report->num_threads,
		    hf_cli_plural(report->num_threads));
	note_safe_point(cli, report);
	if (cli->verbose)
		hf_cli_note(cli,
			    "attempts: %" PRIu32 "; system calls restarted: "
			    "%" PRIu32,
			    report->num_attempts, report->num_restarted);
	if (report->num_partial)
		warn_partial_threads(cli, report);
	else if (report->num_vfork_children)
		warn_sharers(cli, report);
	if (!report->descriptors_closed)
		warn_descriptors(cli);
}

/* Part of a line; nothing if it is not known. */
static void format_known(char *buf, size_t size, const char *before,
			 uint64_t value, const char *behind)
{
	buf[0] = '\0';
	if (value != UINT64_MAX)
		snprintf(buf, size, "%s%" PRIu64 "%s", before, value, behind);
}

void hf_snapshot_report_cost(const struct hf_cli *cli,
			     const struct hf_capture_report *report)
{
	char pages[64], faults[64], bytes[40], peak[80] = "";

	if (report->mode != HF_CAPTURE_FORK)
		return;
	format_known(pages, sizeof(pages), "", report->cow_pages,
		     " pages copied by the process");
	format_known(faults, sizeof(faults), pages[0] ? ", " : "",
		     report->parent_faults, " faults");
	if (report->peak_private_bytes != UINT64_MAX) {
		hf_format_bytes((int64_t)report->peak_private_bytes, bytes,
				sizeof(bytes));
		snprintf(peak, sizeof(peak), "%sat most %s of extra memory",
			 pages[0] || faults[0] ? ", " : "", bytes);
	}
	if (pages[0] || faults[0] || peak[0])
		hf_cli_note(cli, "the frozen copy lived %.1f ms: %s%s%s",
			    (double)report->child_life_ns / 1e6, pages, faults,
			    peak);
}

void hf_snapshot_report_copy(const struct hf_cli *cli,
			     const struct hf_spool_report *spool)
{
	if (!spool->is_whole && spool->why[0])
		hf_cli_note(cli, "not copied out, so the frozen copy has to "
			    "live while it is read: %s", spool->why);
}

void hf_snapshot_report_prediction(const struct hf_cli *cli,
				   const struct hf_capture_report *report,
				   uint64_t predicted_ns)
{
	if (!cli->verbose || predicted_ns == HF_UNKNOWN_U64 || !predicted_ns)
		return;
	hf_cli_note(cli, "predicted: %.1f ms; the pause was %.2f times that",
		    (double)predicted_ns / 1e6,
		    (double)report->pause_ns / (double)predicted_ns);
}

static double unknown_percent(const struct hf_index_summary *summary)
{
	return summary->private_anon_bytes
		       ? 100.0 * (double)summary->unknown_bytes /
				 (double)summary->private_anon_bytes
		       : 0;
}

static void warn_no_allocator(const struct hf_cli *cli,
			      const struct hf_index_summary *summary)
{
	struct hf_error *warning = hf_error_create(
		HF_ERROR_PARTIAL,
		"no allocator that heapfork knows: nothing is known about "
		"this heap");

	warning = hf_error_cause(
		warning,
		"an unknown allocator (or the program's own mappings) holds "
		"%.1f %% of private memory",
		unknown_percent(summary));
	hf_cli_warn(cli, hf_error_fix(warning,
				      "run the program with glibc's malloc "
				      "(without jemalloc, tcmalloc, ...)"));
}

static void warn_missing(const struct hf_cli *cli, const char *file,
			 const struct hf_index_summary *summary)
{
	char bytes[40];
	struct hf_error *warning;

	hf_format_bytes((int64_t)summary->missing_bytes, bytes, sizeof(bytes));
	warning = hf_error_cause(
		hf_error_create(HF_ERROR_PARTIAL,
				"some of the memory could not be read: the "
				"snapshot is partial"),
		summary->late_bytes ?
			"%s of it is not there: the process keeps memory out "
			"of its forks, and gave some back before it was read" :
			"%s of it is not in the frozen child",
		bytes);
	hf_cli_warn(cli, hf_error_fix(warning,
				      "heapfork sql %s \"SELECT * FROM segment "
				      "WHERE captured IN ('missing', 'late')\" "
				      "names the mappings; take another "
				      "snapshot if it matters",
				      file));
}

static void print_heap(const struct hf_cli *cli, const char *file,
		       const struct hf_index_summary *summary,
		       uint64_t elapsed_ns)
{
	char live[40], unreachable[40], unknown[40], anon[40];

	hf_format_bytes((int64_t)summary->live_bytes, live, sizeof(live));
	hf_format_bytes((int64_t)summary->unreachable_bytes, unreachable,
			sizeof(unreachable));
	hf_format_bytes((int64_t)summary->unknown_bytes, unknown,
			sizeof(unknown));
	hf_format_bytes((int64_t)summary->private_anon_bytes, anon,
			sizeof(anon));
	hf_cli_note(cli,
		    "%s: %" PRIu64 " object%s, %s, %" PRIu64
		    " references, in %.1f s",
		    file, summary->num_objects,
		    hf_cli_plural((int64_t)summary->num_objects), live,
		    summary->num_refs, (double)elapsed_ns / 1e9);
	hf_cli_note(cli,
		    "unreachable: %" PRIu64 " object%s, %s; unexplained: %s of "
		    "%s private memory",
		    summary->num_unreachable,
		    hf_cli_plural((int64_t)summary->num_unreachable),
		    unreachable, unknown, anon);
	if (summary->late_bytes) {
		char late[40];

		hf_format_bytes((int64_t)summary->late_bytes, late,
				sizeof(late));
		hf_cli_note(cli,
			    "read late: %s that the process keeps out of its "
			    "forks (MADV_DONTFORK, MADV_WIPEONFORK)",
			    late);
	}
	if (summary->num_suspect || summary->suspect_arenas[0])
		hf_cli_note(cli,
			    "suspect: %" PRIu64 " object%s that threads in "
			    "malloc were at work on%s%s",
			    summary->num_suspect,
			    hf_cli_plural((int64_t)summary->num_suspect),
			    summary->suspect_arenas[0] ?
				    ", and the free lists of arenas " : "",
			    summary->suspect_arenas);
	if (summary->num_anomalies)
		hf_cli_note(cli,
			    "anomalies: %" PRIu64 " (heapfork info shows "
			    "them)",
			    summary->num_anomalies);
}

void hf_snapshot_report_result(const struct hf_cli *cli, const char *file,
			       struct hf_index_summary *summary,
			       uint64_t elapsed_ns)
{
	print_heap(cli, file, summary, elapsed_ns);
	if (summary->unsupported)
		hf_cli_warn(cli, hf_error_prefix(
					 HF_TAKE(summary->unsupported),
					 "unsupported heap"));
	if (summary->partial & HF_PARTIAL_NO_ALLOCATOR)
		warn_no_allocator(cli, summary);
	if (summary->lost)
		hf_cli_warn(cli, HF_TAKE(summary->lost));
	if (summary->missing_bytes)
		warn_missing(cli, file, summary);
	hf_cli_note(cli, "next: heapfork %s %s",
		    summary->num_objects ? "census" : "info", file);
}
