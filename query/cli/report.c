/* Report: errors and notes for the user, on standard error.
 * SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "query/cli/cli.h"
#include "query/printable.h"

/* Messages hold paths and names that others chose. */
static void print_line(const char *label, const char *text)
{
	HF_AUTO_FREE char *printable = NULL;

	if (!text)
		return;
	hf_error_ignore(hf_printable(text, strlen(text), &printable));
	fprintf(stderr, "%s: %s\n", label, printable ? printable : "?");
}

static void print_error(const char *label, struct hf_error *err)
{
	fflush(stdout);
	print_line(label, err->message);
	print_line("cause", err->cause);
	print_line("fix", err->fix);
	hf_error_destroy(err);
}

/* The error of no memory has no room for more than its message. */
static void explain_no_memory(void)
{
	struct rlimit limit;
	char size[32];

	if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY) {
		print_line("cause", "heapfork got no more memory from the "
				    "kernel");
		print_line("fix", "free memory on the machine, or in the "
				  "cgroup of heapfork");
		return;
	}
	hf_format_bytes((int64_t)limit.rlim_cur, size, sizeof(size));
	fprintf(stderr, "cause: the address space of heapfork is limited to %s "
		"(RLIMIT_AS)\n", size);
	print_line("fix", "raise that limit: ulimit -v unlimited");
}

void hf_cli_report(struct hf_error *err)
{
	bool explain = err->code == HF_ERROR_NO_MEMORY && !err->cause;

	print_error("heapfork", err);
	if (explain)
		explain_no_memory();
}

void hf_cli_warn(const struct hf_cli *cli, struct hf_error *warning)
{
	if (cli->quiet)
		hf_error_ignore(warning);
	else
		print_error("heapfork: warning", warning);
}

void hf_cli_note(const struct hf_cli *cli, const char *format, ...)
{
	HF_AUTO_FREE char *text = NULL, *printable = NULL;
	va_list args;
	int len;

	if (cli->quiet)
		return;
	va_start(args, format);
	len = vasprintf(&text, format, args);
	va_end(args);
	if (len < 0) {
		text = NULL;
		return;
	}
	hf_error_ignore(hf_printable(text, (size_t)len, &printable));
	/* What was printed before it stands before it. */
	fflush(stdout);
	if (printable)
		fprintf(stderr, "%s\n", printable);
}

struct hf_error *hf_cli_printable(const char *text, char **ret)
{
	return hf_printable(text, strlen(text), ret);
}

void hf_cli_note_more(const struct hf_cli *cli, uint64_t more)
{
	if (more)
		hf_cli_note(cli, "... %" PRIu64 " more, --limit 0 shows all",
			    more);
}

const char *hf_cli_bytes(const struct hf_cli *cli, int64_t bytes, char *buf,
			 size_t size)
{
	if (cli->rows.exact_bytes)
		snprintf(buf, size, "%" PRId64 " bytes", bytes);
	else
		hf_format_bytes(bytes, buf, size);
	return buf;
}
