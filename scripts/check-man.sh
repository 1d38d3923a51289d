#!/bin/bash
# Every manual page is clean for mandoc.
# SPDX-License-Identifier: MIT
set -euo pipefail
cd "$(dirname "$0")/.."

command -v mandoc >/dev/null || {
	echo "skipped: mandoc is not installed (scripts/setup core)"
	exit 77
}
shopt -s nullglob
pages=(man/*.[1-8])
[ ${#pages[@]} -eq 0 ] || mandoc -T lint -W warning "${pages[@]}"
