#!/bin/bash
# Check that includes obey scripts/layers.txt: who may include whom.
# SPDX-License-Identifier: MIT
#
# usage: scripts/check-layers.sh [ROOT]
#
# Prints one line for each violation ("query/db.c: query may not include
# coredump/image.h") and exits 1 if there is any. Files of more than 600 lines
# are listed too, for information: look for the second noun that hides inside.
set -euo pipefail

rules=$(realpath "$(dirname "$0")/layers.txt")
cd "${1:-$(dirname "$0")/..}"
status=0

folders=()
for folder in util coredump fork-agent indexer query sql bench examples tests; do
	[ ! -d "$folder" ] || folders+=("$folder")
done

find "${folders[@]}" -name '*.[ch]' -exec \
	grep -HnE '^[[:space:]]*#[[:space:]]*include' {} + | sort |
	awk '
	# The longest known folder that is a prefix of path.
	function layer_of(path,    dir) {
		dir = path
		while (sub("/[^/]*$", "", dir))
			if (dir in may)
				return dir
		return ""
	}
	function folder_of(path) {
		sub("/[^/]*$", "", path)
		return path
	}
	function allowed(layer, header,    words, n, i) {
		n = split(may[layer], words, " ")
		for (i = 1; i <= n; i++)
			if (words[i] == "*" || words[i] == header ||
			    words[i] == folder_of(header))
				return 1
		return 0
	}
	# Is this library header the one of the rule, or under its prefix?
	function matches(rule, header) {
		if (sub(">$", "", rule))
			return rule == header
		return index(header, rule) == 1
	}
	function complain(text) {
		print text
		bad = 1
	}
	NR == FNR {
		sub("#.*", "")
		if (!match($0, ":"))
			next
		name = substr($0, 1, RSTART - 1)
		rest = substr($0, RSTART + 1)
		if (name == "private")
			num_private = split(rest, private, " ")
		else if (name ~ "^<")
			library[substr(name, 2)] = " " rest " "
		else
			may[name] = rest
		next
	}
	{
		split($0, part, ":")
		file = part[1]
		if (!match($0, "[<\"][^>\"]*[>\"]"))
			next
		quote = substr($0, RSTART, 1)
		header = substr($0, RSTART + 1, RLENGTH - 2)
		layer = layer_of(file)
		if (quote == "<") {
			for (rule in library)
				if (layer != "" && matches(rule, header) &&
				    !index(library[rule], " " layer " "))
					complain(file ": " layer \
						" may not include <" header ">")
			next
		}
		for (i = 1; i <= num_private; i++)
			if (index(header, private[i] "/") == 1 &&
			    index(file, private[i] "/") != 1 &&
			    file !~ "^(tests|bench)/")
				complain(file ": nothing may include " header)
		if (layer == "" || folder_of(header) == layer)
			next
		if (!allowed(layer, header))
			complain(file ": " layer " may not include " header)
	}
	END { exit bad }
	' "$rules" - || status=1

find "${folders[@]}" -name '*.[ch]' -o -name '*.cc' | while read -r file; do
	lines=$(wc -l <"$file")
	[ "$lines" -le 600 ] || echo "note: $file has $lines lines"
done
exit $status
