/* Thread text: threads and stacks for people, as debuggers show them.
 * SPDX-License-Identifier: MIT */
#include "query/cli/thread_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sql/sql.h"

/*	thread 4711 "worker-3": S (sleeping), in futex
 *	    pc 0x7f..., sp 0x7f..., bp 0x7f...
 *	 #0  0x00007f... futex_wait (inlined) at lowlevellock.c:50 in libc.so.6
 *	 #1  0x00007f... serve() at server.c:214 in server
 *	     (how the stack ended, if not at its start)
 */

/* Columns of sql/queries/thread_stacks.sql. */
enum {
	T_ID, T_TID, T_NAME, T_STATE, T_STOP_HOW, T_SYSCALL, T_SYSCALL_NAME,
	T_IN_ALLOCATOR, T_PC, T_SP, T_BP, T_END, T_LEVEL, T_FUNCTION, T_FILE,
	T_LINE, T_INLINED, T_IS_SIGNAL, T_MODULE, T_FRAME_PC, T_FRAME_SP,
	T_CFA, T_HOW,
};
/* Of sql/queries/thread_groups.sql. */
enum {
	G_ID, G_THREADS, G_TIDS, G_NAMES, G_END, G_LEVEL, G_FUNCTION, G_FILE,
	G_LINE, G_INLINED, G_IS_SIGNAL, G_MODULE, G_PC, G_HOW,
};
/* Of sql/queries/thread_registers.sql. */
enum { R_ID, R_TID, R_THREAD, R_NAME, R_VALUE };

/* Where the same facts stand in both. */
struct columns {
	int level, function, file, line, inlined, is_signal, module, pc, how,
		end;
};

static const struct columns stack_columns = {
	T_LEVEL, T_FUNCTION, T_FILE, T_LINE, T_INLINED, T_IS_SIGNAL, T_MODULE,
	T_FRAME_PC, T_HOW, T_END,
};
static const struct columns group_columns = {
	G_LEVEL, G_FUNCTION, G_FILE, G_LINE, G_INLINED, G_IS_SIGNAL, G_MODULE,
	G_PC, G_HOW, G_END,
};

enum { MAX_LISTED = 10 };

/* A line; what the target chose in it cannot command the terminal. */
static struct hf_error *put(const char *format, ...) HF_PRINTF(1, 2);

static struct hf_error *put(const char *format, ...)
{
	HF_AUTO_FREE char *text = NULL, *printable = NULL;
	struct hf_error *err;
	va_list args;
	int n;

	va_start(args, format);
	n = vasprintf(&text, format, args);
	va_end(args);
	if (n < 0) {
		text = NULL;
		return &hf_enomem;
	}
	err = hf_cli_printable(text, &printable);
	if (!err)
		puts(printable);
	return err;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* As proc(5) names the letters. */
static const char *state_name(char letter)
{
	switch (letter) {
	case 'R':
		return "running";
	case 'S':
		return "sleeping";
	case 'D':
		return "waiting, uninterruptible";
	case 'T':
		return "stopped";
	case 't':
		return "traced";
	case 'Z':
		return "ended";
	case 'X':
		return "dead";
	case 'I':
		return "idle";
	default:
		return "unknown";
	}
}

/* What the thread was at. @param buf for the number of a call. */
static const char *what_it_does(const struct hf_query *query, char *buf,
				size_t size)
{
	const char *how = hf_query_text(query, T_STOP_HOW);

	if (!strcmp(how, "partial"))
		return "could not be stopped";
	if (!strcmp(how, "signal"))
		return "about to take a signal";
	if (!hf_query_is_null(query, T_SYSCALL)) {
		const char *name = hf_query_text(query, T_SYSCALL_NAME);

		if (*name)
			snprintf(buf, size, "in %s", name);
		else
			snprintf(buf, size, "in system call %" PRId64,
				 hf_query_i64(query, T_SYSCALL));
		return buf;
	}
	/* A core does not tell each call from running. */
	return !strcmp(how, "syscall") ? "in a system call" :
	       !strcmp(how, "user")    ? "in its own code" :
					 "stopped";
}

static struct hf_error *put_thread(const struct hf_query *query)
{
	const char *state = hf_query_text(query, T_STATE);
	char call[64], state_text[64] = "";
	struct hf_error *err;

	if (*state)
		snprintf(state_text, sizeof(state_text), "%c (%s), ", *state,
			 state_name(*state));
	err = put("thread %" PRId64 " \"%s\": %s%s%s",
		  hf_query_i64(query, T_TID), hf_query_text(query, T_NAME),
		  state_text, what_it_does(query, call, sizeof(call)),
		  hf_query_i64(query, T_IN_ALLOCATOR) ? ", in the allocator"
						      : "");
	if (err || !strcmp(hf_query_text(query, T_END), "none"))
		return err;
	return put("    pc 0x%" PRIx64 ", sp 0x%" PRIx64 ", bp 0x%" PRIx64,
		   (uint64_t)hf_query_i64(query, T_PC),
		   (uint64_t)hf_query_i64(query, T_SP),
		   (uint64_t)hf_query_i64(query, T_BP));
}

/* "4711,4712,..." becomes "4711, 4712, and 98 more". */
static struct hf_error *shorten_list(const char *list, char **ret)
{
	HF_AUTO_FREE char *text = malloc(2 * strlen(list) + 40);
	size_t items = 0, more = 0;
	char *out = text;

	if (!text)
		return &hf_enomem;
	for (const char *c = list; *c; c++) {
		bool ends = *c == ',';

		items += ends;
		more += ends && items >= MAX_LISTED;
		if (items >= MAX_LISTED)
			continue;
		*out++ = *c;
		if (ends)
			*out++ = ' ';
	}
	if (more)
		out += sprintf(out, " and %zu more", more);
	*out = '\0';
	*ret = HF_TAKE(text);
	return NULL;
}

static struct hf_error *put_group(const struct hf_query *query)
{
	HF_AUTO_FREE char *tids = NULL, *names = NULL;
	int64_t num = hf_query_i64(query, G_THREADS);
	struct hf_error *err;

	err = shorten_list(hf_query_text(query, G_TIDS), &tids);
	if (!err)
		err = shorten_list(hf_query_text(query, G_NAMES), &names);
	if (err)
		return err;
	return put("%" PRId64 " thread%s (%s): %s", num, hf_cli_plural(num),
		   names, tids);
}

static struct hf_error *put_frame(const struct hf_query *query,
				  const struct columns *at)
{
	const char *function = hf_query_text(query, at->function);
	const char *file = hf_query_text(query, at->file);
	const char *module = base_name(hf_query_text(query, at->module));
	bool is_guess = !strcmp(hf_query_text(query, at->how),
				"frame_pointer");
	char line[24] = "";

	if (hf_query_is_null(query, at->level))
		return NULL;
	if (!hf_query_is_null(query, at->line))
		snprintf(line, sizeof(line), ":%" PRId64,
			 hf_query_i64(query, at->line));
	return put(" #%-3" PRId64 "0x%016" PRIx64 " %s%s%s%s%s%s%s%s%s%s",
		   hf_query_i64(query, at->level),
		   (uint64_t)hf_query_i64(query, at->pc),
		   *function ? function : "??",
		   strchr(function, '(') ? "" : "()",
		   hf_query_i64(query, at->inlined) ? " (inlined)" : "",
		   hf_query_i64(query, at->is_signal)
			   ? " <signal handler called>" : "",
		   *file ? " at " : "", *file ? base_name(file) : "", line,
		   *module ? " in " : "", module,
		   is_guess ? " [inferred: by frame pointer]" : "");
}

static struct hf_error *put_end(const char *end)
{
	if (!strcmp(end, "lost"))
		return put("     [the stack is lost here: no call frame "
			   "information, or damage]");
	if (!strcmp(end, "too_deep"))
		return put("     [too deep: the rest was left out]");
	if (!strcmp(end, "none"))
		return put("     [no registers: no stack]");
	return NULL;
}

struct hf_error *hf_thread_query(struct hf_db *db, const char *name,
				 const struct hf_thread_text_args *args,
				 struct hf_query **ret)
{
	HF_AUTO(hf_query) struct hf_query *query = NULL;
	struct hf_error *err =
		hf_query_prepare(db, hf_sql_query_find(name)->sql, &query);

	if (!err)
		err = hf_query_bind_i64(query, 1, args->tid);
	if (!err)
		err = hf_query_bind_i64(query, 2, args->limit);
	if (!err)
		*ret = HF_TAKE(query);
	return err;
}

/* The registers of one thread, three on a line. */
static struct hf_error *put_registers(struct hf_query *query, int64_t tid)
{
	char line[128] = "";
	int num = 0;
	bool row;
	struct hf_error *err;

	hf_query_reset(query);
	err = hf_query_bind_i64(query, 1, tid);
	while (!err) {
		size_t len = strlen(line);

		err = hf_query_step(query, &row);
		if (err || !row)
			break;
		snprintf(line + len, sizeof(line) - len,
			 "%s%-8.8s 0x%016" PRIx64, num % 3 ? "  " : "    ",
			 hf_query_text(query, R_NAME),
			 (uint64_t)hf_query_i64(query, R_VALUE));
		if (++num % 3 == 0) {
			err = put("%s", line);
			line[0] = '\0';
		}
	}
	return err || !line[0] ? err : put("%s", line);
}

/* @param registers NULL: are not asked for. */
static struct hf_error *print_rows(struct hf_query *query,
				   struct hf_query *registers, bool merged,
				   uint64_t *num_ret)
{
	const struct columns *at = merged ? &group_columns : &stack_columns;
	HF_AUTO_FREE char *end = NULL;
	struct hf_error *err;
	int64_t last = 0;
	uint64_t num = 0;
	bool row;

	for (;;) {
		int64_t id;

		err = hf_query_step(query, &row);
		if (err || !row)
			break;
		id = hf_query_i64(query, T_ID);
		if (!num || id != last) {
			err = num ? put_end(end) : NULL;
			if (!err && num++)
				putchar('\n');
			last = id;
			free(end);
			end = strdup(hf_query_text(query, at->end));
			if (!err && !end)
				err = &hf_enomem;
			if (!err)
				err = merged ? put_group(query)
					     : put_thread(query);
			if (!err && registers)
				err = put_registers(registers,
						    hf_query_i64(query,
								 T_TID));
		}
		if (!err)
			err = put_frame(query, at);
		if (err)
			return err;
	}
	if (!err && num)
		err = put_end(end);
	*num_ret = num;
	return err;
}

struct hf_error *hf_thread_text_print(struct hf_db *db,
				      const struct hf_thread_text_args *args,
				      uint64_t *num_ret)
{
	HF_AUTO(hf_query) struct hf_query *query = NULL, *registers = NULL;
	struct hf_error *err = hf_thread_query(
		db, args->merge ? "thread_groups" : "thread_stacks", args,
		&query);

	if (!err && args->registers)
		err = hf_thread_query(db, "thread_registers", args,
				      &registers);
	return err ? err : print_rows(query, registers, args->merge, num_ret);
}
