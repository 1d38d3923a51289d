/* heapfork version: what this program is made of.
 * SPDX-License-Identifier: MIT */
#include <libsmartcols.h>
#include <stdio.h>

#include "indexer/heap_registry.h"
#include "query/cli/cli.h"
#include "sql/sql.h"

static error_t parse(int key, char *arg, struct argp_state *state)
{
	(void)arg;
	switch (key) {
	case ARGP_KEY_INIT:
		hf_cli_parse_init(state, 1);
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "no arguments are expected");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = {
	{ &hf_row_options, 0, NULL, 0 },
	{ 0 },
};

static const struct argp argp = {
	.parser = parse,
	.doc = "Tell the versions of heapfork, of the snapshot format, of the "
	       "libraries and readers in it.",
	.children = children,
};

struct version_args {
	struct hf_cli *cli;
};

static struct hf_error *row(struct hf_row_sink *sink, const char *name,
			    const char *version)
{
	return hf_row_sink_row(sink, (struct hf_value[]){
					     hf_value_text(name),
					     hf_value_text(version) });
}

static struct hf_error *run(struct hf_cli *cli, int argc, char **argv)
{
	static const char *const names[] = { "part", "version" };
	struct version_args args = { .cli = cli };
	HF_AUTO(hf_row_sink) struct hf_row_sink *sink = NULL;
	const char *smartcols = NULL;
	const struct hf_heap_reader_ops *const *readers;
	struct hf_error *err;
	char format[16];

	err = hf_cli_parse(&argp, argc, argv, &args);
	if (!err)
		err = hf_cli_sink(cli, &sink);
	if (!err)
		err = hf_row_sink_begin(sink, names, 2, -1);
	if (err)
		return err;
	scols_get_library_version(&smartcols);
	snprintf(format, sizeof(format), "%d", HF_SQL_FORMAT_VERSION);
	err = row(sink, "heapfork", HF_VERSION);
	if (!err)
		err = row(sink, "snapshot format", format);
	for (readers = hf_heap_readers(); !err && *readers; readers++)
		err = row(sink, "reader", (*readers)->name);
	if (!err)
		err = row(sink, "sqlite", sqlite3_libversion());
	if (!err)
		err = row(sink, "elfutils", HF_LIBDW_VERSION);
	if (!err)
		err = row(sink, "libsmartcols", smartcols);
	return err ? err : hf_row_sink_end(sink);
}

const struct hf_verb hf_verb_version = {
	.name = "version",
	.summary = "what this program is made of",
	.argp = &argp,
	.run = run,
};
