#!/bin/bash
# Every table, column and view of the schema is documented, and it loads.
# SPDX-License-Identifier: MIT
#
# usage: scripts/check-sql.sh [SCHEMA.sql [VIEWS.sql]]
set -euo pipefail
cd "$(dirname "$0")/.."

schema=${1:-sql/schema.sql}
views=${2:-sql/views.sql}

# A table or view has a comment on the line before it, a column one at the end
# of its own line (or, if its definition goes on, of its first).
awk '
	/^CREATE (TABLE|VIEW)/ {
		if (last !~ /^--/)
			complain($3 " has no comment before it")
	}
	/^CREATE TABLE/ { table = $3; sub(/\(.*/, "", table); inside = 1; next }
	/^\)/ { inside = 0 }
	inside && /^  "?[a-z_]+"? +[A-Z]/ && !/-- .../ {
		complain(table "." $1 " has no comment")
	}
	{ last = $0 }
	function complain(text) {
		print FILENAME ":" FNR ": " text
		bad = 1
	}
	END { exit bad }
' "$schema" "$views"

if command -v sqlite3 >/dev/null; then
	cat "$schema" "$views" | sqlite3 -bail :memory:
fi
