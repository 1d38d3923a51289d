/* Command line: exit codes, verbs, and what they share.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_CLI_CLI_H
#define HF_QUERY_CLI_CLI_H

#include <argp.h>
#include <signal.h>

#include "query/db.h"
#include "query/row_sink.h"
#include "util/error.h"
#include "util/progress.h"

/** What the shell sees. Documented in heapfork(1); change both. */
enum hf_exit {
	HF_EXIT_OK = 0,
	HF_EXIT_FINDINGS = 1,    /* a threshold that was asked for is passed */
	HF_EXIT_USAGE = 2,       /* the command line, or the SQL, is wrong */
	HF_EXIT_NOT_FOUND = 3,   /* process gone; object or type not there */
	HF_EXIT_PERMISSION = 4,  /* the kernel forbids it */
	HF_EXIT_UNSUPPORTED = 5, /* allocator, runtime, kernel, file version */
	HF_EXIT_NO_SPACE = 6,    /* disk full, quota, limit of memory */
	HF_EXIT_BAD_INPUT = 7,   /* missing, truncated or damaged file */
	HF_EXIT_TIMEOUT = 8,
	HF_EXIT_PARTIAL = 9,     /* a result was written, but marked partial */
	HF_EXIT_FAILED = 10,     /* anything else: out of memory, I/O error */
	HF_EXIT_TOO_LONG = 11,   /* the pause would be longer than allowed */
	HF_EXIT_SIGNAL = 128,    /* + number of the signal that stopped us */
};

/** The state of one run. */
struct hf_cli {
	struct hf_row_sink_options rows;
	uint64_t limit;     /* rows to print, 0: all */
	bool limit_given;
	bool quiet;
	unsigned verbose;
	const volatile sig_atomic_t *cancelled; /* number of the signal */
	struct hf_cli_progress *progress;
	int exit_code;      /* used when no error is returned */
	bool ignore_sigpipe; /* we were started so */
};

/**
 * A verb of the command line. To add one: cmd_NAME.c with this struct, an
 * entry in verbs.c, man/heapfork-NAME.1, a line in heapfork(1).
 */
struct hf_verb {
	const char *name;
	const char *summary; /* for `heapfork help` */
	const struct argp *argp;
	/** argv[0] is "heapfork NAME". */
	struct hf_error *(*run)(struct hf_cli *cli, int argc, char **argv);
};

/** Usage, verbs and global options, for heapfork -h. */
void hf_cli_short_help(void);

/** All verbs, in the order of `heapfork help`; ends with a NULL name. */
extern const struct hf_verb *const hf_verbs[];
extern const struct hf_verb hf_verb_doctor, hf_verb_snapshot, hf_verb_run,
	hf_verb_index,
	hf_verb_core, hf_verb_info, hf_verb_census,
	hf_verb_top, hf_verb_threads, hf_verb_retainers, hf_verb_path,
	hf_verb_leaks,
	hf_verb_sql, hf_verb_help, hf_verb_version;

const struct hf_verb *hf_verb_find(const char *name);
/** The verb that was probably meant, or NULL. */
const struct hf_verb *hf_verb_suggest(const char *name);

/* Options that verbs share: children of their argp (query/cli/options.c).
 * Their input is the struct hf_cli. */
extern const struct argp hf_row_options;     /* --format, --limit, ... */
extern const struct argp hf_message_options; /* -q, -v */

/** A verb's argp with -h, which all have. */
struct hf_cli_argp {
	struct argp argp;
	struct argp_child children[6]; /* of argp, and one more */
};

void hf_cli_argp_init(struct hf_cli_argp *full, const struct argp *argp);

/**
 * Parse the arguments of a verb. `input` starts with a struct hf_cli *, which
 * is given to all children. A wrong command line ends the process with
 * HF_EXIT_USAGE, -h and --help with HF_EXIT_OK.
 */
struct hf_error *hf_cli_parse(const struct argp *argp, int argc, char **argv,
			      void *input) HF_MUST_CHECK;

/** As hf_cli_parse; what comes behind the first argument is no option of
 * ours. */
struct hf_error *hf_cli_parse_in_order(const struct argp *argp, int argc,
				       char **argv, void *input)
	HF_MUST_CHECK;

/** In an argp parser, at ARGP_KEY_INIT: hand the struct hf_cli to its
 * children, as many as it has (argp does not say). */
void hf_cli_parse_init(struct argp_state *state, size_t num_children);

/** Keys of long options without a letter start here. */
enum { HF_KEY_FIRST = 256, HF_KEY_VERB = 512, HF_KEY_RUN = 768 };

/** Which exit code an error has. `signal`: the one that stopped us, or 0. */
int hf_exit_code(const struct hf_error *err, int signal);

/** Print an error and what is known of its cause and fix to stderr. Takes it.
 */
void hf_cli_report(struct hf_error *err);

/** Print a warning in the form of an error, unless quiet. Takes it. */
void hf_cli_warn(const struct hf_cli *cli, struct hf_error *warning);

/** A line for the user on stderr, unless quiet. Control characters in it are
 * made visible. */
void hf_cli_note(const struct hf_cli *cli, const char *format, ...)
	HF_PRINTF(2, 3);

/** A text of the snapshot, fit for a terminal; the caller frees it. */
struct hf_error *hf_cli_printable(const char *text, char **ret) HF_MUST_CHECK;

/** Open a snapshot; statements stop at a signal. */
struct hf_error *hf_cli_open(struct hf_cli *cli, const char *path,
			     struct hf_db **ret) HF_MUST_CHECK;

/** A sink for standard output. */
struct hf_error *hf_cli_sink(const struct hf_cli *cli,
			     struct hf_row_sink **ret) HF_MUST_CHECK;

/**
 * Print the rows of a query of sql/queries whose only parameter is the limit
 * (or none), --limit of them, and say how many are left.
 *
 * @param table_columns those of its columns that tables have, where not all
 * find room on a terminal; NULL: all.
 */
struct hf_error *hf_cli_canned(const struct hf_cli *cli, struct hf_db *db,
			       struct hf_row_sink *sink, const char *name,
			       const char *table_columns) HF_MUST_CHECK;

/** Say on stderr that rows were left out (more > 0). */
void hf_cli_note_more(const struct hf_cli *cli, uint64_t more);

/** Whether results are for people. */
static inline bool hf_cli_is_table(const struct hf_cli *cli)
{
	return cli->rows.format == HF_ROWS_TABLE;
}

/** "12.3 MiB", or "12912345" with --bytes. */
const char *hf_cli_bytes(const struct hf_cli *cli, int64_t bytes, char *buf,
			 size_t size);

/** The end of a word that is counted: "" or "s". */
static inline const char *hf_cli_plural(int64_t count)
{
	return count == 1 ? "" : "s";
}

/** Catch SIGINT, SIGTERM and SIGHUP: they set the flag that long work polls.
 * @return the flag: 0, or the number of the last signal. */
const volatile sig_atomic_t *hf_signals_catch(void);

/** Set the flag to SIGALRM after so many nanoseconds. */
void hf_signals_arm(uint64_t ns);
/** For who has SIGALRM blocked, and has waited for it. */
void hf_signals_time_over(void);
/** Not any more. @return whether it was set so; then it is cleared. */
bool hf_signals_disarm(void);

#endif
