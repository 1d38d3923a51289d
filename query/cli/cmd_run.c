/* heapfork run: start a program, and take snapshots of it when it is time.
 * SPDX-License-Identifier: MIT */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "fork-agent/permission.h"
#include "query/cli/name_pattern.h"
#include "query/cli/run_program.h"
#include "query/cli/snapshot_take.h"
#include "util/output.h"
#include "util/parse.h"

enum {
	KEY_ON_SIGNAL = HF_KEY_RUN,
	KEY_RSS,
	KEY_AT_EXIT,
	KEY_FORCE,
};

enum {
	RSS_INTERVAL_MS = 100,
	/* Below the threshold by so much of it, the next crossing counts. */
	RSS_SLACK_PART = 16,
	EXIT_NOT_EXECUTABLE = 126,
	EXIT_NOT_FOUND = 127,
};

struct run_args {
	struct hf_snapshot_options snapshot; /* first: its cli is */
	char **argv;         /* of the program */
	int on_signal;       /* 0: none */
	uint64_t rss_bytes;  /* 0: none */
	bool at_exit;
};

static const struct argp_option options[] = {
	{ "output", 'o', "PATTERN", 0,
	  "The files: %p is the pid, %n the number of the snapshot, from 1 "
	  "(default PROG-%p-%n.heap)",
	  0 },
	{ "force", KEY_FORCE, 0, 0, "Replace files that exist", 0 },
	{ 0, 0, 0, 0, "When (default --on-signal USR2):", 1 },
	{ "on-signal", KEY_ON_SIGNAL, "SIGNAL", 0,
	  "For each USR1 or USR2 that heapfork is sent", 1 },
	{ "rss", KEY_RSS, "SIZE", 0,
	  "Each time its resident memory grows to this", 1 },
	{ "at-exit", KEY_AT_EXIT, 0, 0,
	  "At its end: it is traced until then, and stands there until its "
	  "memory was read", 1 },
	{ 0 },
};

static int parse_signal(const char *text)
{
	if (!strncmp(text, "SIG", 3))
		text += 3;
	return !strcmp(text, "USR1") ? SIGUSR1 :
	       !strcmp(text, "USR2") ? SIGUSR2 : 0;
}

/* Before anything is said of %n: it may be a wrong letter that was meant. */
static void check_pattern(const char *pattern, struct argp_state *state)
{
	HF_AUTO_FREE char *name = NULL;
	struct hf_error *err = hf_name_pattern_expand(pattern, 1, 1, &name);

	if (err)
		argp_error(state, "%s (%s)", err->message, err->fix);
	hf_error_destroy(err);
}

static error_t check(struct run_args *args, struct argp_state *state)
{
	const struct hf_snapshot_options *snapshot = &args->snapshot;

	if (!args->argv)
		argp_error(state, "which program? -- PROG [ARGUMENTS]");
	if (!args->on_signal && !args->rss_bytes && !args->at_exit)
		args->on_signal = SIGUSR2;
	if (snapshot->output)
		check_pattern(snapshot->output, state);
	if (snapshot->output && !snapshot->force &&
	    (args->on_signal || args->rss_bytes) &&
	    !hf_name_pattern_has(snapshot->output, 'n'))
		argp_error(state, "'%s' would be the name of each snapshot: "
			   "use %%n, or --force to keep the last",
			   snapshot->output);
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct run_args *args = state->input;
	struct hf_error *err = NULL;

	switch (key) {
	case ARGP_KEY_INIT:
		hf_cli_parse_init(state, 1);
		state->child_inputs[1] = &args->snapshot;
		return 0;
	case 'o':
		args->snapshot.output = arg;
		return 0;
	case KEY_FORCE:
		args->snapshot.force = true;
		return 0;
	case KEY_ON_SIGNAL:
		args->on_signal = parse_signal(arg);
		if (!args->on_signal)
			argp_error(state, "'%s' is not USR1 or USR2", arg);
		return 0;
	case KEY_RSS:
		err = hf_parse_size(arg, "--rss", &args->rss_bytes);
		if (!err && !args->rss_bytes)
			argp_error(state, "--rss 0 is always passed");
		break;
	case KEY_AT_EXIT:
		args->at_exit = true;
		return 0;
	case ARGP_KEY_ARG:
		/* The rest is for the program. */
		args->argv = &state->argv[state->next - 1];
		state->next = state->argc;
		return 0;
	case ARGP_KEY_END:
		return check(args, state);
	default:
		return ARGP_ERR_UNKNOWN;
	}
	if (err)
		argp_error(state, "%s", err->message);
	hf_error_destroy(err);
	return 0;
}

static const struct argp_child children[] = {
	{ &hf_message_options, 0, NULL, 0 },
	{ &hf_capture_argp, 0, NULL, 0 },
	{ 0 },
};

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "-- PROG [ARGUMENTS]",
	.doc = "Start a program, and take snapshots of it when it is time. It "
	       "has our standard input and output, terminal and process group, "
	       "and our exit code is its own. Needs no privilege, where "
	       "snapshots of other processes do (Yama).\n"
	       "\n"
	       "    heapfork run -- ./server --port 80 &  kill -USR2 $!\n"
	       "    heapfork run --rss 2G -o 'big-%n.heap' -- ./server\n",
	.children = children,
};

/* What goes on while the program runs. */
struct run {
	const struct run_args *args;
	struct hf_cli *cli;
	struct hf_snapshot_options snapshot;
	struct hf_run_program *program;
	char *pattern;
	uint64_t number;      /* of the last snapshot */
	bool is_over;         /* it was held at its end, and let go */
	bool rss_passed;      /* and has not fallen since */
	struct hf_exit_hold *hold; /* owned; NULL: not asked for, or failed */
};

/* Its failure is not the program's. */
static void take_now(struct run *run)
{
	HF_AUTO(hf_snapshot_result) struct hf_snapshot_result *result =
		&(struct hf_snapshot_result){ 0 };
	pid_t pid = hf_run_program_pid(run->program);
	HF_AUTO_FREE char *path = NULL;
	struct hf_error *err;

	hf_run_program_forget_time(run->program);
	err = hf_name_pattern_expand(run->pattern, pid, ++run->number, &path);
	if (!err)
		err = hf_snapshot_take(&run->snapshot, pid, path, result);
	if (err)
		hf_cli_report(err);
}

static void begin_hold(struct run *run, pid_t pid)
{
	struct hf_error *err;

	if (!run->args->at_exit || run->hold || run->is_over)
		return;
	err = hf_exit_hold_create(pid, &run->hold);
	if (err)
		hf_cli_warn(run->cli, hf_error_prefix(
			err, "there will be no snapshot at its end"));
}

/* The program is traced before it is one. */
static void before_program(void *arg, pid_t pid)
{
	struct run *run = arg;

	if (pid)
		begin_hold(run, pid);
	else
		hf_exit_hold_destroy(HF_TAKE(run->hold));
}

static void note_no_end(struct run *run)
{
	hf_cli_warn(run->cli, hf_error_cause(
		hf_error_create(HF_ERROR_TARGET_GONE,
				"there is no snapshot at the end of process "
				"%d", hf_run_program_pid(run->program)),
		"it was killed, or ended while another one was begun"));
}

static void take_at_exit(struct run *run)
{
	run->snapshot.at_exit = run->hold;
	take_now(run);
	run->snapshot.at_exit = NULL;
}

/* One tracer at a time: the hold makes room. Its end detaches, and stops
 * nobody. */
static void take(struct run *run)
{
	if (run->hold && !hf_exit_hold_is_held(run->hold)) {
		hf_exit_hold_destroy(HF_TAKE(run->hold));
		take_now(run);
		begin_hold(run, hf_run_program_pid(run->program));
	} else if (!run->hold) {
		take_now(run);
	}
}

/* Second number of statm, in pages. */
static uint64_t resident_bytes(pid_t pid)
{
	char path[64];
	unsigned long long pages = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/statm", pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%*u %llu", &pages) != 1)
		pages = 0;
	fclose(file);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void look_at_memory(struct run *run)
{
	uint64_t limit = run->args->rss_bytes;
	uint64_t now;

	if (!limit || run->is_over)
		return;
	now = resident_bytes(hf_run_program_pid(run->program));
	if (now >= limit && !run->rss_passed) {
		run->rss_passed = true;
		take(run);
	} else if (now < limit - limit / RSS_SLACK_PART) {
		run->rss_passed = false;
	}
}

static struct hf_error *watch(struct run *run)
{
	int timeout_ms = run->args->rss_bytes ? RSS_INTERVAL_MS : -1;

	for (;;) {
		enum hf_run_event event;
		struct hf_error *err;

		err = hf_run_program_wait(
			run->program,
			run->hold ? hf_exit_hold_fd(run->hold) : -1,
			timeout_ms, &event);
		if (!err && event == HF_RUN_ENDED && run->args->at_exit &&
		    !run->is_over)
			note_no_end(run);
		if (err || event == HF_RUN_ENDED)
			return err;
		if (run->hold && hf_exit_hold_is_over(run->hold)) {
			if (hf_exit_hold_is_held(run->hold))
				take_at_exit(run);
			else
				note_no_end(run);
			hf_exit_hold_destroy(HF_TAKE(run->hold));
			run->is_over = true;
		} else if (event == HF_RUN_SIGNAL)
			take(run);
		else
			look_at_memory(run);
	}
}

static struct hf_error *default_pattern(const char *program, char **ret)
{
	const char *slash = strrchr(program, '/');
	HF_AUTO_FREE char *name = NULL;
	struct hf_error *err;

	err = hf_name_pattern_quote(slash ? slash + 1 : program, &name);
	if (err)
		return err;
	if (asprintf(ret, "%s-%%p-%%n.heap", name) < 0) {
		*ret = NULL;
		return &hf_enomem;
	}
	return NULL;
}

static struct hf_error *find_pattern(const struct run_args *args, char **ret)
{
	if (!args->snapshot.output)
		return default_pattern(args->argv[0], ret);
	*ret = strdup(args->snapshot.output);
	return *ret ? NULL : &hf_enomem;
}

/* What would make each snapshot fail is told now, and not when it is too late:
 * the program is not started then. */
static struct hf_error *check_beforehand(const struct run_args *args,
					 const char *pattern)
{
	HF_AUTO(hf_output) struct hf_output *output = NULL;
	HF_AUTO_FREE char *path = NULL;
	struct hf_error *err;

	/* Nobody has pid 0, nor a file of it. */
	err = hf_name_pattern_expand(pattern, 0, 1, &path);
	if (!err)
		err = hf_output_begin(path, args->snapshot.force, &output);
	if (!err)
		err = hf_permission_check_own_child();
	return err;
}

/* As a shell says it. Takes err. */
static struct hf_error *not_started(struct hf_cli *cli, struct hf_error *err)
{
	if (err->code != HF_ERROR_NOT_FOUND && err->code != HF_ERROR_PERMISSION)
		return err;
	cli->exit_code = err->code == HF_ERROR_NOT_FOUND ?
				 EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
	hf_cli_report(err);
	return NULL;
}

static struct hf_error *run(struct hf_cli *cli, int argc, char **argv)
{
	struct run_args args = { .snapshot = { .cli = cli } };
	struct run run = { .args = &args, .cli = cli };
	HF_AUTO(hf_run_program) struct hf_run_program *program = NULL;
	struct hf_run_options start = { .ignore_sigpipe = cli->ignore_sigpipe };
	const volatile sig_atomic_t *cancelled;
	HF_AUTO_FREE char *pattern = NULL;
	struct hf_error *err;

	err = hf_cli_parse_in_order(&argp, argc, argv, &args);
	if (!err)
		err = find_pattern(&args, &pattern);
	if (!err)
		err = check_beforehand(&args, pattern);
	if (err)
		return err;
	start.argv = args.argv;
	start.own_signal = args.on_signal;
	start.before = before_program;
	start.arg = &run;
	err = hf_run_program_start(&start, &program);
	if (err)
		return not_started(cli, err);
	signal(SIGPIPE, SIG_IGN);
	/* Signals are the program's as long as it lives. */
	cancelled = cli->cancelled;
	cli->cancelled = hf_run_program_cancelled(program);
	run.snapshot = args.snapshot;
	run.program = program;
	run.pattern = pattern;
	/* Whatever became of our own work, the program's end is what counts. */
	err = watch(&run);
	hf_exit_hold_destroy(run.hold);
	if (err)
		hf_cli_report(err);
	cli->exit_code = hf_run_program_exit_code(program);
	cli->cancelled = cancelled;
	return NULL;
}

const struct hf_verb hf_verb_run = {
	.name = "run",
	.summary = "start a program, take snapshots of it when it is time",
	.argp = &argp,
	.run = run,
};
