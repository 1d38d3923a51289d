/* Checkup rows: the checks of a doctor, for people or as rows.
 * SPDX-License-Identifier: MIT */
#include "query/cli/checkup_rows.h"

#include <stdio.h>

/* Tables have the first three; the others stand below, where they have room. */
enum { TABLE_COLUMNS = 3, COLUMNS = 7 };

static const char *const columns[COLUMNS] = {
	"check", "verdict", "found", "cause", "fix", "value", "unit",
};

static struct hf_error *print_rows(const struct hf_cli *cli,
				   const struct hf_checkup *checkup)
{
	HF_AUTO(hf_row_sink) struct hf_row_sink *sink = NULL;
	struct hf_error *err = hf_cli_sink(cli, &sink);
	size_t num = checkup->checks.num;

	if (!err)
		err = hf_row_sink_begin(sink, columns,
					hf_cli_is_table(cli) ? TABLE_COLUMNS :
							       COLUMNS, -1);
	if (cli->limit_given && cli->limit && cli->limit < num)
		num = cli->limit;
	for (size_t i = 0; !err && i < num; i++) {
		const struct hf_check *check = &checkup->checks.data[i];

		err = hf_row_sink_row(
			sink, (struct hf_value[COLUMNS]){
				hf_value_text(check->name),
				hf_value_text(hf_verdict_name(check->verdict)),
				hf_value_text(check->found),
				hf_value_text(check->cause),
				hf_value_text(check->fix),
				check->has_value ? hf_value_i64(check->value) :
						   hf_value_null(),
				hf_value_text(check->unit),
			});
	}
	if (!err)
		err = hf_row_sink_end(sink);
	if (!err)
		hf_cli_note_more(cli, checkup->checks.num - num);
	return err;
}

static struct hf_error *print_line(const char *label, const char *text)
{
	HF_AUTO_FREE char *printable = NULL;
	struct hf_error *err;

	if (!text)
		return NULL;
	err = hf_cli_printable(text, &printable);
	if (!err)
		printf("%s: %s\n", label, printable);
	return err;
}

/* In the form of errors, but on standard output: they are the answer. */
static struct hf_error *print_details(const struct hf_checkup *checkup,
				      enum hf_verdict verdict)
{
	struct hf_error *err = NULL;

	for (size_t i = 0; !err && i < checkup->checks.num; i++) {
		const struct hf_check *check = &checkup->checks.data[i];

		if (check->verdict != verdict || (!check->cause && !check->fix))
			continue;
		printf("\n%s: ", hf_verdict_name(verdict));
		err = print_line(check->name, check->found);
		if (!err)
			err = print_line("cause", check->cause);
		if (!err)
			err = print_line("fix", check->fix);
	}
	return err;
}

static void print_verdict(const struct hf_checkup *checkup, pid_t pid)
{
	const struct hf_check *blocker = hf_checkup_blocker(checkup);
	size_t num_blockers = 0, num_warnings = 0;

	for (size_t i = 0; i < checkup->checks.num; i++) {
		num_blockers += checkup->checks.data[i].verdict ==
				HF_VERDICT_BLOCKER;
		num_warnings += checkup->checks.data[i].verdict ==
				HF_VERDICT_WARNING;
	}
	putchar('\n');
	if (blocker)
		printf("%zu blocker%s, %zu warning%s: a snapshot of process %d "
		       "would fail with exit status %d\n",
		       num_blockers, hf_cli_plural((int64_t)num_blockers),
		       num_warnings, hf_cli_plural((int64_t)num_warnings), pid,
		       hf_exit_code(&(struct hf_error){ .code = blocker->code },
				    0));
	else if (hf_checkup_partial(checkup))
		printf("a snapshot of process %d would be partial, with exit "
		       "status %d: see %s (%zu warning%s)\n", pid,
		       HF_EXIT_PARTIAL, hf_checkup_partial(checkup)->name,
		       num_warnings, hf_cli_plural((int64_t)num_warnings));
	else
		printf("nothing is in the way of a snapshot of process %d (%zu "
		       "warning%s)\n", pid, num_warnings,
		       hf_cli_plural((int64_t)num_warnings));
}

struct hf_error *hf_checkup_print(const struct hf_snapshot_options *options)
{
	struct hf_cli *cli = options->cli;
	const struct hf_doctor_options asked = {
		.pid = (pid_t)options->pid,
		.mode = options->mode,
		.max_pause_ns = options->max_pause_ns,
		.keep_free_bytes = options->keep_memory_free,
		.exact_bytes = cli->rows.exact_bytes,
		.prepare = options->prepare,
		.spool_dir = options->spool_dir,
		.output = options->output,
	};
	HF_AUTO(hf_checkup) struct hf_checkup *checkup =
		&(struct hf_checkup){ 0 };
	const struct hf_check *blocker;
	struct hf_prediction prediction;
	struct hf_error *err = hf_doctor_examine(&asked, checkup,
						 &prediction);

	if (!err)
		err = print_rows(cli, checkup);
	if (!err && hf_cli_is_table(cli)) {
		err = print_details(checkup, HF_VERDICT_UNKNOWN);
		if (!err)
			err = print_details(checkup, HF_VERDICT_WARNING);
		if (!err)
			err = print_details(checkup, HF_VERDICT_BLOCKER);
		if (!err)
			print_verdict(checkup, asked.pid);
	}
	if (err)
		return err;
	blocker = hf_checkup_blocker(checkup);
	if (blocker)
		cli->exit_code = hf_exit_code(
			&(struct hf_error){ .code = blocker->code }, 0);
	else if (hf_checkup_partial(checkup))
		cli->exit_code = HF_EXIT_PARTIAL;
	return NULL;
}
