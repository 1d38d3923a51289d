#!/bin/bash
# Every shell script of the project is clean for shellcheck.
# SPDX-License-Identifier: MIT
set -euo pipefail
cd "$(dirname "$0")/.."

command -v shellcheck >/dev/null || {
	echo "skipped: shellcheck is not installed (scripts/setup core)"
	exit 77
}
find scripts .ci examples tests -type f | while read -r file; do
	case $file in
	*.sh) echo "$file" ;;
	*)
		first=
		read -r first <"$file" 2>/dev/null || true
		case $first in
		'#!/bin/sh'* | '#!/bin/bash'*) echo "$file" ;;
		esac
		;;
	esac
done | xargs -r shellcheck -x -S warning
