#!/bin/bash
# The layer check must see what it is for: plant violations, expect each line.
# SPDX-License-Identifier: MIT
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cd "$tree"
mkdir -p util coredump fork-agent indexer/glibc indexer/db indexer/graph \
	query/cli tests

# plant FILE LINE…
plant() {
	local file=$1
	shift
	printf '%s\n' "$@" >"$file"
}

plant util/good.c '#include "util/good.h"' '#include <stdio.h>'
plant indexer/glibc/good.c '#include "indexer/glibc/good.h"' \
	'#include "coredump/image.h"' '#include "indexer/heap_reader.h"'
plant query/cli/good.c '#include "coredump/image.h"' '#include <sqlite3.h>'
plant tests/good.c '#include "query/cli/table.h"' '#include <sys/ptrace.h>'
"$here/check-layers.sh" "$tree" || { echo "clean tree refused"; exit 1; }

plant util/bad.c '#include "coredump/image.h"'
plant query/bad.c '  #  include "coredump/image.h"'
plant query/bad2.c '#include "query/cli/table.h"'
plant indexer/glibc/bad.h '#include "indexer/db/db_writer.h"'
plant indexer/graph/bad.c '#include <sqlite3.h>'
plant indexer/bad.c '#include <elfutils/libdw.h>' '#include "tests/fake.h"'
plant coredump/bad.c '#include <sys/ptrace.h>'
sort >expected <<'END'
coredump/bad.c: coredump may not include <sys/ptrace.h>
indexer/bad.c: indexer may not include <elfutils/libdw.h>
indexer/bad.c: indexer may not include tests/fake.h
indexer/bad.c: nothing may include tests/fake.h
indexer/glibc/bad.h: indexer/glibc may not include indexer/db/db_writer.h
indexer/graph/bad.c: indexer/graph may not include <sqlite3.h>
query/bad.c: query may not include coredump/image.h
query/bad2.c: nothing may include query/cli/table.h
query/bad2.c: query may not include query/cli/table.h
util/bad.c: util may not include coredump/image.h
END
if "$here/check-layers.sh" "$tree" >found; then
	echo "planted violations were accepted"
	exit 1
fi
sort found | diff expected -

# A long file is a note, not a failure.
rm -f ./*/bad* ./*/*/bad*
seq -f '/* %g */' 601 >util/long.c
"$here/check-layers.sh" "$tree" | grep -x 'note: util/long.c has 601 lines' >/dev/null
