# shellcheck shell=bash
# What the scripts share: where the project is, words on stderr, building and
# testing a preset. Sourced, not run.
# SPDX-License-Identifier: MIT

HF_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# hf_say TEXT…: one line to the person who runs the script.
hf_say() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
}

hf_die() {
	hf_say "$@"
	exit 1
}

# hf_build PRESET [TARGET…]: configure and build in build/PRESET. HF_JOBS
# limits the compilers that run at once.
hf_build() {
	local preset=$1
	shift
	(
		cd "$HF_ROOT" &&
			cmake --preset "$preset" -Wno-dev --log-level=NOTICE \
				>/dev/null &&
			cmake --build --preset "$preset" \
				-j "${HF_JOBS:-$(nproc)}" \
				${1:+--target "$@"}
	)
}

# hf_ctest PRESET [CTEST-ARGUMENT…]: run tests of build/PRESET. In CI
# (CI=true) a test labelled `ptrace` that skips is a failure: what cannot be
# traced there has not been tested.
hf_ctest() {
	local preset=$1 log rc skipped traced
	shift
	log=$(mktemp)
	rc=0
	(cd "$HF_ROOT" && ctest --preset "$preset" "$@") 2>&1 |
		tee "$log" || rc=1
	if [ "${CI:-}" = true ]; then
		traced=$(cd "$HF_ROOT" &&
			ctest --preset "$preset" -L ptrace -N |
			sed -n 's/^ *Test *#[0-9]*: //p' | sort)
		skipped=$(sed -n 's/^ *[0-9]*\/[0-9]* Test *#[0-9]*: \([^ ]*\) .*\*\*\*Skipped.*/\1/p' \
			"$log" | sort)
		skipped=$(comm -12 <(echo "$traced") <(echo "$skipped"))
		if [ -n "$skipped" ]; then
			hf_say "skipped, but in CI they must run:" "${skipped//$'\n'/, }"
			rc=1
		fi
	fi
	rm -f "$log"
	return "$rc"
}
