/* Snapshot family: one snapshot of each descendant of a process.
 * SPDX-License-Identifier: MIT */
#include "query/cli/snapshot_family.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fork-agent/descendants.h"
#include "query/cli/name_pattern.h"
#include "query/cli/snapshot_take.h"

static const char *const columns[] = {
	"pid", "command", "objects", "live_bytes", "pause_ms", "file", "status",
};

enum { NUM_COLUMNS = sizeof(columns) / sizeof(columns[0]) };

struct family {
	const struct hf_snapshot_options *options;
	struct hf_cli quiet;       /* for single snapshots */
	char *pattern;             /* of the files; owned */
	struct hf_row_sink *sink;
	size_t num_good, num_ended, num_bad;
	struct hf_error *first;    /* that had ended */
	int exit_code;             /* of the first that failed otherwise */
};

static struct hf_error *find_pattern(const char *output, char **ret)
{
	HF_AUTO_FREE char *folder = NULL;
	struct hf_error *err;
	struct stat st;

	if (stat(output, &st) == 0 && S_ISDIR(st.st_mode)) {
		err = hf_name_pattern_quote(output, &folder);
		if (err)
			return err;
		bool has_slash = folder[strlen(folder) - 1] == '/';

		if (asprintf(ret, "%s%s%%p.heap", folder,
			     has_slash ? "" : "/") < 0) {
			*ret = NULL;
			return &hf_enomem;
		}
		return NULL;
	}
	if (!hf_name_pattern_has(output, 'p'))
		return hf_error_fix(
			hf_error_create(HF_ERROR_USAGE,
					"'%s' is the name of one file, and "
					"there may be many processes", output),
			"name a folder that exists, or use %%p for the pid: "
			"-o 'web-%%p.heap'");
	*ret = strdup(output);
	return *ret ? NULL : &hf_enomem;
}

static struct hf_error *put_row(struct family *family,
				const struct hf_descendant *process,
				const struct hf_snapshot_result *result,
				const char *file, const char *status)
{
	const struct hf_index_summary *summary = &result->summary;
	struct hf_value values[NUM_COLUMNS] = {
		hf_value_i64(process->pid),
		hf_value_text(process->name),
		hf_value_null(),
		hf_value_null(),
		hf_value_null(),
		hf_value_text(file),
		hf_value_text(status),
	};

	if (file) {
		values[2] = hf_value_i64((int64_t)summary->num_objects);
		values[3] = hf_value_i64((int64_t)summary->live_bytes);
	}
	if (result->report.num_threads)
		values[4] = (struct hf_value){
			.kind = HF_VALUE_REAL,
			/* A tenth is exact enough, as in other messages. */
			.real = (double)(result->report.pause_ns / 100000) / 10,
		};
	return hf_row_sink_row(family->sink, values);
}

/* Takes err. */
static struct hf_error *note_failure(struct family *family,
				     const struct hf_descendant *process,
				     const struct hf_snapshot_result *result,
				     struct hf_error *err)
{
	HF_AUTO(hf_error) struct hf_error *failure = err;

	if (err->code == HF_ERROR_INTERRUPTED) {
		failure = NULL;
		return err;
	}
	if (err->code == HF_ERROR_TARGET_GONE) {
		family->num_ended++;
		hf_cli_note(family->options->cli, "process %d '%s' has ended, "
			    "and was skipped", process->pid, process->name);
		if (!family->first)
			family->first = HF_TAKE(failure);
		return put_row(family, process, result, NULL, "ended");
	}
	family->num_bad++;
	err = put_row(family, process, result, NULL, failure->message);
	if (!family->exit_code)
		family->exit_code = hf_exit_code(failure, 0);
	/* The row has no room for the cause, and what to do about it. */
	hf_cli_report(hf_error_prefix(HF_TAKE(failure), "process %d '%s'",
				      process->pid, process->name));
	return err;
}

static struct hf_error *take_one(struct family *family,
				 const struct hf_descendant *process,
				 uint64_t number)
{
	struct hf_snapshot_options options = *family->options;
	HF_AUTO(hf_snapshot_result) struct hf_snapshot_result *result =
		&(struct hf_snapshot_result){ 0 };
	HF_AUTO_FREE char *path = NULL;
	struct hf_error *err;

	err = hf_name_pattern_expand(family->pattern, process->pid, number,
				     &path);
	if (err)
		return err;
	options.cli = &family->quiet;
	options.start_time = process->start_time;
	err = hf_snapshot_take(&options, process->pid, path, result);
	if (err)
		return note_failure(family, process, result, err);
	family->num_good++;
	if (result->partial)
		family->num_bad++;
	return put_row(family, process, result, path,
		       result->partial ? "partial" : "ok");
}

static struct hf_error *take_all(struct family *family,
				 const struct hf_descendant *processes,
				 size_t num)
{
	struct hf_error *err = hf_row_sink_begin(family->sink, columns,
						 NUM_COLUMNS, -1);
	struct hf_error *end_err;

	if (err)
		return err;
	for (size_t i = 0; i < num && !err; i++) {
		if (*family->options->cli->cancelled)
			err = hf_error_create(HF_ERROR_INTERRUPTED,
					      "interrupted");
		else
			err = take_one(family, &processes[i], i + 1);
	}
	/* What was done is told, whatever came after it. */
	end_err = hf_row_sink_end(family->sink);
	if (!err)
		return end_err;
	hf_error_ignore(end_err);
	return err;
}

struct hf_error *hf_snapshot_family(const struct hf_snapshot_options *options)
{
	struct hf_cli *cli = options->cli;
	struct family family = { .options = options, .quiet = *cli };
	HF_AUTO(hf_row_sink) struct hf_row_sink *sink = NULL;
	HF_AUTO_FREE struct hf_descendant *processes = NULL;
	HF_AUTO_FREE char *pattern = NULL, *name = NULL;
	struct hf_error *err;
	size_t num;

	/* With -v each has its say. */
	family.quiet.quiet = cli->quiet || !cli->verbose;
	err = find_pattern(options->output, &pattern);
	if (!err)
		err = hf_name_pattern_expand(pattern, 1, 1, &name);
	if (!err)
		err = hf_descendants_list((pid_t)options->pid, &processes,
					  &num);
	if (!err)
		err = hf_cli_sink(cli, &sink);
	if (err)
		return err;
	family.pattern = pattern;
	family.sink = sink;
	err = take_all(&family, processes, num);
	/* A failure says more than an end. */
	if (!err && family.num_good == 0 && !family.num_bad && family.first)
		err = HF_TAKE(family.first);
	hf_error_destroy(family.first);
	if (err)
		return err;
	hf_cli_note(cli, "%zu process%s, %zu snapshot%s%s", num,
		    num == 1 ? "" : "es", family.num_good,
		    hf_cli_plural((int64_t)family.num_good),
		    family.num_bad ? "; not all is well, see status" : "");
	if (family.num_bad)
		cli->exit_code = family.num_good ? HF_EXIT_PARTIAL :
						   family.exit_code;
	return NULL;
}
