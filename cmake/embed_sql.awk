# Make C of the files of sql/: see sql/sql.h.
# SPDX-License-Identifier: MIT
#
# awk -f embed_sql.awk schema.sql indices.sql views.sql queries/*.sql > sql.c
#
# The head comment of a query is its documentation:
#
#   -- <summary, one line>
#   -- SPDX-License-Identifier: ...
#   -- parameters: none          or lines "--   ?1 name: meaning"
#   -- columns:
#   --   name: meaning
#
# A file that is not written like this stops the build.

function quote(text)
{
	gsub(/\\/, "&&", text)
	gsub(/"/, "\\\"", text)
	return "\t\"" text "\\n\"\n"
}

function fail(message)
{
	print FILENAME ": " message > "/dev/stderr"
	failed = 1
	exit 1
}

function check_query()
{
	if (query == "")
		return
	if (summary[query] == "" || columns[query] == "" || body[query] == "")
		fail("before this file: query '" query "' lacks a summary, " \
		     "its columns or its SQL")
}

FNR == 1 {
	check_query()
	name = FILENAME
	sub(/.*\//, "", name)
	sub(/\.sql$/, "", name)
	query = ""
	if (FILENAME ~ /queries\/[^\/]*$/) {
		if (name !~ /^[a-z][a-z0-9_]*$/)
			fail("not a name for a query")
		query = name
		names[num++] = name
		part = "summary"
	}
}

query == "" {
	texts[name] = texts[name] quote($0)
	if (name == "views") {
		line = $0
		sub(/^CREATE VIEW /, "CREATE TEMP VIEW ", line)
		texts["temp_views"] = texts["temp_views"] quote(line)
	}
	next
}

part != "sql" && /^--/ {
	line = $0
	sub(/^-- ?/, "", line)
	if (line ~ /^SPDX-/ || line == "")
		next
	if (part == "summary" && summary[query] == "") {
		summary[query] = line
	} else if (line == "parameters: none" || line == "parameters:") {
		part = "parameters"
	} else if (line == "columns:") {
		part = "columns"
	} else if (line ~ /^  / && part == "parameters") {
		parameters[query] = parameters[query] quote(substr(line, 3))
	} else if (line ~ /^  / && part == "columns") {
		columns[query] = columns[query] quote(substr(line, 3))
	} else {
		fail("line " FNR " of its head is not understood")
	}
	next
}

{
	part = "sql"
	body[query] = body[query] quote($0)
}

END {
	if (failed)
		exit 1
	check_query()
	print "/* Made by cmake/embed_sql.awk from the files of sql/. */"
	print "#include \"sql/sql.h\"\n\n#include <string.h>\n"
	split("schema indices views temp_views", order, " ")
	for (i = 1; i <= 4; i++) {
		print "const char *hf_sql_" order[i] "(void)\n{\n\treturn"
		printf "%s\t;\n}\n\n", texts[order[i]]
	}
	print "static const struct hf_sql_query queries[] = {"
	for (i = 0; i < num; i++) {
		q = names[i]
		s = quote(summary[q])
		sub(/\\n"\n$/, "\"", s)
		print "\t{ \"" q "\",\n" s ",\n"
		print "\t\"\"\n" parameters[q] ",\n\t\"\"\n" columns[q] ",\n"
		print "\t\"\"\n" body[q] "},"
	}
	print "};\n"
	print "const struct hf_sql_query *hf_sql_queries(size_t *num_ret)"
	print "{\n\t*num_ret = sizeof(queries) / sizeof(queries[0]);"
	print "\treturn queries;\n}\n"
	print "const struct hf_sql_query *hf_sql_query_find(const char *name)"
	print "{\n\tfor (size_t i = 0; i < sizeof(queries) / " \
	      "sizeof(queries[0]); i++)"
	print "\t\tif (!strcmp(queries[i].name, name))"
	print "\t\t\treturn &queries[i];\n\treturn NULL;\n}"
}
