/* Certificate: what a snapshot cost, and how far to believe it, for people.
 * SPDX-License-Identifier: MIT */
#include "query/cli/certificate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "query/query.h"

static const char certificate_sql[] =
	"SELECT part, item, value, unit, ok FROM main.certificate";

enum { C_PART, C_ITEM, C_VALUE, C_UNIT, C_OK };

static const struct {
	const char *part, *title;
} titles[] = {
	{ "snapshot", "this snapshot" },
	{ "pause", "the pause" },
	{ "threads", "threads, as they were stopped" },
	{ "allocator", "the allocator at this moment" },
	{ "memory", "memory that is not, or not quite, of this moment" },
	{ "child", "afterwards, while the frozen child was read" },
	{ "heap", "what was understood" },
};

static void format_ns(double ns, char *buf, size_t size)
{
	if (ns < 1e3)
		snprintf(buf, size, "%.0f ns", ns);
	else if (ns < 1e6)
		snprintf(buf, size, "%.1f us", ns / 1e3);
	else if (ns < 1e9)
		snprintf(buf, size, "%.1f ms", ns / 1e6);
	else
		snprintf(buf, size, "%.2f s", ns / 1e9);
}

/* "3 regions, 12582912 bytes, 8192 resident", as the view writes it. */
static bool format_regions(const struct hf_cli *cli, const char *value,
			   char *buf, size_t size)
{
	int64_t num, bytes, resident;
	char bytes_text[40], resident_text[40];

	if (sscanf(value, "%" SCNd64 " regions, %" SCNd64 " bytes, %" SCNd64
			  " resident", &num, &bytes, &resident) != 3)
		return false;
	if (!num)
		snprintf(buf, size, "none");
	else
		snprintf(buf, size, "%" PRId64 " region%s, %s, %s resident",
			 num, hf_cli_plural(num),
			 hf_cli_bytes(cli, bytes, bytes_text,
				      sizeof(bytes_text)),
			 hf_cli_bytes(cli, resident, resident_text,
				      sizeof(resident_text)));
	return true;
}

/* The value as people read it, in buf or as it is. */
static const char *format_value(const struct hf_cli *cli,
				const struct hf_query *query, char *buf,
				size_t size)
{
	const char *value = hf_query_text(query, C_VALUE);
	const char *unit = hf_query_text(query, C_UNIT);

	if (hf_query_is_null(query, C_VALUE))
		return "-";
	if (!strcmp(unit, "ns"))
		format_ns(strtod(value, NULL), buf, size);
	else if (!strcmp(unit, "bytes"))
		return hf_cli_bytes(cli, strtoll(value, NULL, 10), buf, size);
	else if (strcmp(unit, "regions") ||
		 !format_regions(cli, value, buf, size))
		return value;
	return buf;
}

static const char *title_of(const char *part)
{
	for (size_t i = 0; i < sizeof(titles) / sizeof(*titles); i++)
		if (!strcmp(titles[i].part, part))
			return titles[i].title;
	return part;
}

static struct hf_error *print_item(const struct hf_cli *cli,
				   const struct hf_query *query)
{
	bool doubtful = !hf_query_is_null(query, C_OK) &&
			!hf_query_i64(query, C_OK);
	HF_AUTO_FREE char *item = NULL, *value = NULL;
	char buf[160];
	struct hf_error *err;

	err = hf_cli_printable(hf_query_text(query, C_ITEM), &item);
	if (!err)
		err = hf_cli_printable(format_value(cli, query, buf,
						    sizeof(buf)),
				       &value);
	if (!err)
		printf("%s %-52s %s\n", doubtful ? "!" : " ", item, value);
	return err;
}

struct hf_error *hf_cli_print_certificate(const struct hf_cli *cli,
					  struct hf_db *db)
{
	HF_AUTO(hf_query) struct hf_query *query = NULL;
	HF_AUTO_FREE char *part = NULL;
	struct hf_error *err = hf_query_prepare(db, certificate_sql, &query);
	bool row, doubtful = false;

	if (!err)
		err = hf_query_step(query, &row);
	while (!err && row) {
		const char *now = hf_query_text(query, C_PART);

		if (!part || strcmp(part, now)) {
			HF_AUTO_FREE char *title = NULL;

			free(part);
			part = strdup(now);
			if (!part)
				return &hf_enomem;
			err = hf_cli_printable(title_of(now), &title);
			if (err)
				return err;
			printf("\n%s:\n\n", title);
		}
		doubtful |= !hf_query_is_null(query, C_OK) &&
			    !hf_query_i64(query, C_OK);
		err = print_item(cli, query);
		if (!err)
			err = hf_query_step(query, &row);
	}
	if (!err && doubtful)
		printf("\n! read the results with this in mind\n");
	return err;
}
