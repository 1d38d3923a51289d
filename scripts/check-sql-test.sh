#!/bin/bash
# The check of the schema must see what it is for.
# SPDX-License-Identifier: MIT
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

cat >good.sql <<'END'
-- Things.
CREATE TABLE thing(
  id INTEGER PRIMARY KEY, -- dense id
  "end" INTEGER NOT NULL, -- first address behind it
  kind TEXT               -- one of: a, b
    CHECK (kind IN ('a', 'b'))
) STRICT;
END
cat >views.sql <<'END'
-- All things.
CREATE VIEW things AS SELECT id FROM thing;
END
"$here/check-sql.sh" "$tmp/good.sql" "$tmp/views.sql"

# refuse MESSAGE: the check fails and says so.
refuse() {
	if "$here/check-sql.sh" "$tmp/bad.sql" "$tmp/views.sql" >found 2>&1; then
		echo "accepted: $1"
		exit 1
	fi
	grep -F "$1" found >/dev/null || { cat found; exit 1; }
}
sed 's/ -- first.*//' good.sql >bad.sql
refuse '"end" has no comment'
sed 's/ -- one of.*//' good.sql >bad.sql
refuse 'kind has no comment'
sed 1d good.sql >bad.sql
refuse 'thing( has no comment before it'
sed 's/STRICT/STRIKT/' good.sql >bad.sql
refuse 'unknown table option'
