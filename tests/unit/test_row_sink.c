/* Row sink: rows become a table, CSV or JSON.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "query/printable.h"
#include "query/row_sink.h"
#include "tests/support/test_main.h"

static struct hf_value text(const char *bytes, size_t len)
{
	return (struct hf_value){ .kind = HF_VALUE_TEXT,
				  .text = bytes,
				  .len = len };
}

/* Print rows of values and return what came out. */
static char *print(const struct hf_row_sink_options *options,
		   const char *const *names, size_t num_names,
		   const struct hf_value *values, size_t num_rows)
{
	HF_AUTO(hf_row_sink) struct hf_row_sink *sink = NULL;
	char *out = NULL;
	size_t len = 0;
	FILE *file = open_memstream(&out, &len);

	assert_non_null(file);
	assert_hf_ok(hf_row_sink_create(file, options, &sink));
	assert_hf_ok(hf_row_sink_begin(sink, names, num_names, -1));
	for (size_t i = 0; i < num_rows; i++)
		assert_hf_ok(hf_row_sink_row(sink, values + i * num_names));
	assert_hf_ok(hf_row_sink_end(sink));
	fclose(file);
	return out;
}

static char *print_one(enum hf_row_format format, struct hf_value value)
{
	static const char *const names[] = { "v" };
	struct hf_row_sink_options options = { .format = format,
					       .no_header = true };

	return print(&options, names, 1, &value, 1);
}

static void csv_quotes_what_must_be_quoted(void **state)
{
	static const struct {
		const char *name, *in, *out;
	} cases[] = {
		{ "plain", "Session", "Session\n" },
		{ "comma", "pair<int, long>", "\"pair<int, long>\"\n" },
		{ "quote", "a\"b", "\"a\"\"b\"\n" },
		{ "newline", "a\nb", "\"a\nb\"\n" },
		{ "return", "a\rb", "\"a\rb\"\n" },
		{ "empty", "", "\"\"\n" },
		{ "blank at the end", "a ", "\"a \"\n" },
		{ "utf-8", "na\xc3\xafve", "na\xc3\xafve\n" },
		{ "not utf-8", "a\xff\x62", "a\xef\xbf\xbd\x62\n" },
		{ "cut utf-8", "a\xc3", "a\xef\xbf\xbd\n" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *out = print_one(HF_ROWS_CSV, hf_value_text(cases[i].in));

		if (strcmp(out, cases[i].out))
			fail_msg("%s: '%s' instead of '%s'", cases[i].name,
				 out, cases[i].out);
		free(out);
	}
}

static void csv_null_is_not_the_empty_text(void **state)
{
	char *out = print_one(HF_ROWS_CSV, hf_value_null());

	(void)state;
	assert_string_equal(out, "\n");
	free(out);
}

static void json_escapes_and_keeps_bytes_valid(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "a\"b\\c", "\"a\\\"b\\\\c\"" },
		{ "a\nb\tc\x01", "\"a\\nb\\tc\\u0001\"" },
		{ "\x1b[31m", "\"\\u001b[31m\"" },
		{ "\x7f\xc2\x9b", "\"\\u007f\\u009b\"" },
		{ "\xe2\x80\xae", "\"\\u202e\"" },
		{ "\xf0\x9f\x98\x80", "\"\xf0\x9f\x98\x80\"" },
		{ "\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
		{ "\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\"" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char expected[80];
		char *out =
			print_one(HF_ROWS_JSON, hf_value_text(cases[i].in));

		snprintf(expected, sizeof(expected), "[\n {\"v\": %s}\n]\n",
			 cases[i].out);
		assert_string_equal(out, expected);
		free(out);
	}
}

static void json_of_a_text_with_a_nul_byte_is_complete(void **state)
{
	char *out = print_one(HF_ROWS_JSON, text("a\0b", 3));

	(void)state;
	assert_string_equal(out, "[\n {\"v\": \"a\\u0000b\"}\n]\n");
	free(out);
}

static void integers_are_exact_in_csv_and_json(void **state)
{
	static const struct {
		int64_t value;
		const char *text;
	} cases[] = {
		{ INT64_MAX, "9223372036854775807" },
		{ INT64_MIN, "-9223372036854775808" },
		{ (INT64_C(1) << 53) + 1, "9007199254740993" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *csv = print_one(HF_ROWS_CSV, hf_value_i64(cases[i].value));
		char *json =
			print_one(HF_ROWS_JSON, hf_value_i64(cases[i].value));

		assert_non_null(strstr(csv, cases[i].text));
		assert_non_null(strstr(json, cases[i].text));
		free(csv);
		free(json);
	}
}

static void reals_read_back_as_the_same_number(void **state)
{
	static const double cases[] = { 0.1, 1.0 / 3, 1e300, -2.5, 5e-324 };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *out = print_one(HF_ROWS_CSV,
				      (struct hf_value){ .kind = HF_VALUE_REAL,
							 .real = cases[i] });

		assert_true(strtod(out, NULL) == cases[i]);
		free(out);
	}
}

static void json_of_no_rows_is_an_empty_array(void **state)
{
	static const char *const names[] = { "a", "b" };
	struct hf_row_sink_options options = { .format = HF_ROWS_JSON };
	char *out = print(&options, names, 2, NULL, 0);

	(void)state;
	assert_string_equal(out, "[]\n");
	free(out);
}

static void table_of_no_rows_has_its_header(void **state)
{
	static const char *const names[] = { "a", "b" };
	struct hf_row_sink_options options = { .format = HF_ROWS_TABLE };
	char *out = print(&options, names, 2, NULL, 0);

	(void)state;
	assert_string_equal(out, "a b\n");
	free(out);
}

static void table_shows_sizes_for_people_and_addresses_in_hex(void **state)
{
	static const char *const names[] = { "addr", "size_bytes", "count",
					     "name" };
	const struct hf_value values[] = {
		hf_value_i64(0x7f00), hf_value_i64(1536), hf_value_i64(1536),
		hf_value_null(),
	};
	struct hf_row_sink_options options = { .format = HF_ROWS_TABLE };
	char *out = print(&options, names, 4, values, 1);

	(void)state;
	assert_string_equal(out, "  addr size_bytes count name\n"
				 "0x7f00    1.5 KiB  1536 -\n");
	free(out);
	options.exact_bytes = true;
	out = print(&options, names, 4, values, 1);
	assert_non_null(strstr(out, " 1536  1536 "));
	free(out);
}

static void table_makes_control_characters_visible(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "\x1b]0;owned\x07", "\\x1b]0;owned\\x07\n" },
		{ "a\nb\rc", "a\\x0ab\\x0dc\n" },
		{ "\xc2\x9b" "2J", "\\x9b2J\n" },
		{ "x\xe2\x80\xaey", "x\\u{202e}y\n" },
		{ "bad\xff", "bad\\xff\n" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *out =
			print_one(HF_ROWS_TABLE, hf_value_text(cases[i].in));

		assert_string_equal(out, cases[i].out);
		free(out);
	}
}

static void csv_on_a_terminal_makes_control_characters_visible(void **state)
{
	static const char *const names[] = { "v" };
	struct hf_row_sink_options options = { .format = HF_ROWS_CSV,
					       .no_header = true,
					       .terminal = true };
	struct hf_value value = hf_value_text("\x1b[2J");
	char *out = print(&options, names, 1, &value, 1);

	(void)state;
	assert_string_equal(out, "\\x1b[2J\n");
	free(out);
}

static size_t count(const char *text, const char *part)
{
	size_t num = 0;

	for (; (text = strstr(text, part)); text++)
		num++;
	return num;
}

static void table_longer_than_a_chunk_has_all_rows_and_one_header(void **state)
{
	static const char *const names[] = { "name" };
	enum { ROWS = HF_TABLE_CHUNK_ROWS * 2 + 5 };
	struct hf_value *values = calloc(ROWS, sizeof(*values));
	struct hf_row_sink_options options = { .format = HF_ROWS_TABLE };
	char *out;

	(void)state;
	assert_non_null(values);
	for (size_t i = 0; i < ROWS; i++)
		values[i] = hf_value_text("row");
	out = print(&options, names, 1, values, ROWS);
	assert_int_equal(count(out, "row"), ROWS);
	assert_int_equal(count(out, "name"), 1);
	free(out);
	free(values);
}

static void table_fits_the_width_of_a_terminal(void **state)
{
	static const char *const names[] = { "type", "bytes" };
	const struct hf_value values[] = {
		hf_value_text("std::unordered_map<std::string, "
			      "std::vector<app::Session>>::node_type"),
		hf_value_i64(5),
		hf_value_text("int"),
		hf_value_i64(6),
	};
	struct hf_row_sink_options options = { .format = HF_ROWS_TABLE,
					       .terminal = true,
					       .width = 40 };
	char *out = print(&options, names, 2, values, 2), *line, *rest = out;

	(void)state;
	while ((line = strsep(&rest, "\n")))
		assert_true(strlen(line) <= 40);
	free(out);
	out = print(&options, names, 2, values, 2);
	assert_non_null(strstr(out, "std::unordered"));
	assert_non_null(strstr(out, "node_type"));
	assert_non_null(strstr(out, "..."));
	free(out);
	/* too narrow for anything: the text is short all the same */
	options.width = 10;
	out = print(&options, names, 2, values, 2);
	assert_null(strstr(out, "node_type"));
	free(out);
	/* not a terminal: nothing is lost */
	options.terminal = false;
	out = print(&options, names, 2, values, 2);
	assert_non_null(strstr(out, values[0].text));
	free(out);
}

static void tree_rows_stand_below_their_parent(void **state)
{
	static const char *const names[] = { "name" };
	struct hf_row_sink_options options = { .format = HF_ROWS_TABLE };
	HF_AUTO(hf_row_sink) struct hf_row_sink *sink = NULL;
	struct hf_value root = hf_value_text("root");
	struct hf_value child = hf_value_text("child");
	struct hf_value other = hf_value_text("other");
	char *out = NULL, *at;
	size_t len = 0;
	FILE *file = open_memstream(&out, &len);

	(void)state;
	assert_hf_ok(hf_row_sink_create(file, &options, &sink));
	assert_hf_ok(hf_row_sink_begin(sink, names, 1, 0));
	assert_hf_ok(hf_row_sink_tree_row(sink, &root, HF_NO_ROW));
	assert_hf_ok(hf_row_sink_tree_row(sink, &other, HF_NO_ROW));
	assert_hf_ok(hf_row_sink_tree_row(sink, &child, 0));
	assert_hf_ok(hf_row_sink_end(sink));
	fclose(file);
	at = strstr(out, "root");
	assert_non_null(at);
	at = strstr(at, "-child"); /* drawn in ASCII in the C locale */
	assert_non_null(at);
	assert_non_null(strstr(at, "other"));
	free(out);
}

static void a_full_disk_is_an_error(void **state)
{
	static const char *const names[] = { "v" };
	struct hf_row_sink_options options = { .format = HF_ROWS_CSV };
	HF_AUTO(hf_row_sink) struct hf_row_sink *sink = NULL;
	FILE *file = fopen("/dev/full", "w");
	struct hf_error *err;

	(void)state;
	assert_non_null(file);
	setvbuf(file, NULL, _IONBF, 0);
	assert_hf_ok(hf_row_sink_create(file, &options, &sink));
	err = hf_row_sink_begin(sink, names, 1, -1);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_NO_SPACE);
	hf_error_destroy(err);
	fclose(file);
}

static void bytes_are_shown_in_binary_units(void **state)
{
	static const struct {
		int64_t bytes;
		const char *text;
	} cases[] = {
		{ 0, "0 B" },
		{ 1023, "1023 B" },
		{ 1024, "1.0 KiB" },
		{ 1048575, "1.0 MiB" }, /* not 1024.0 KiB */
		{ 1048576, "1.0 MiB" },
		{ INT64_C(5) << 30, "5.0 GiB" },
		{ INT64_MAX, "8.0 EiB" },
		{ -2048, "-2.0 KiB" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char buf[32];

		hf_format_bytes(cases[i].bytes, buf, sizeof(buf));
		assert_string_equal(buf, cases[i].text);
	}
}

static void truncation_keeps_both_ends(void **state)
{
	char name[] = "abcdefghijklmnopqrstuvwxyz";
	char narrow[] = "abc";

	(void)state;
	hf_truncate_middle(name, 11);
	assert_string_equal(name, "abcd...wxyz");
	hf_truncate_middle(narrow, 11);
	assert_string_equal(narrow, "abc");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(csv_quotes_what_must_be_quoted),
		cmocka_unit_test(csv_null_is_not_the_empty_text),
		cmocka_unit_test(json_escapes_and_keeps_bytes_valid),
		cmocka_unit_test(json_of_a_text_with_a_nul_byte_is_complete),
		cmocka_unit_test(integers_are_exact_in_csv_and_json),
		cmocka_unit_test(reals_read_back_as_the_same_number),
		cmocka_unit_test(json_of_no_rows_is_an_empty_array),
		cmocka_unit_test(table_of_no_rows_has_its_header),
		cmocka_unit_test(
			table_shows_sizes_for_people_and_addresses_in_hex),
		cmocka_unit_test(table_makes_control_characters_visible),
		cmocka_unit_test(
			csv_on_a_terminal_makes_control_characters_visible),
		cmocka_unit_test(
			table_longer_than_a_chunk_has_all_rows_and_one_header),
		cmocka_unit_test(table_fits_the_width_of_a_terminal),
		cmocka_unit_test(tree_rows_stand_below_their_parent),
		cmocka_unit_test(a_full_disk_is_an_error),
		cmocka_unit_test(bytes_are_shown_in_binary_units),
		cmocka_unit_test(truncation_keeps_both_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
