#!/bin/bash
# What is installed is complete, works from there, and is no more than that.
# SPDX-License-Identifier: MIT
#
# usage: scripts/check-install.sh BUILD-FOLDER
set -euo pipefail

build=$1
dest=$(mktemp -d)
trap 'rm -rf "$dest"' EXIT

DESTDIR=$dest cmake --install "$build" --prefix /usr >/dev/null
"$dest/usr/bin/heapfork" version >"$dest/version"
grep -qE '^heapfork +[0-9]' "$dest/version"
for file in share/doc/heapfork/{README.md,LICENSE,THIRD-PARTY} \
	share/heapfork/sql/schema.sql share/heapfork/sql/queries/census.sql; do
	[ -s "$dest/usr/$file" ] || { echo "not installed: $file"; exit 1; }
done
cd "$dest/usr"
extra=$(find . -type f |
	sed -E '/^\.\/(bin\/heapfork|share\/(doc\/heapfork|heapfork\/sql|man)\/.*)$/d')
[ -z "$extra" ] || { echo "installed, but nobody asked for it: $extra"; exit 1; }
