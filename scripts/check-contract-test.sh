#!/bin/bash
# The check of the contract must see what it is for: plant gaps, expect lines.
# SPDX-License-Identifier: MIT
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cd "$tree"
mkdir tests
cat >tests/test_good.c <<'END'
static void all_of_it_holds(void **state)
static void all_of_this_too(
	void **state)
END
printf 'add_test(NAME whole_thing\n  COMMAND x)\n' >tests/CMakeLists.txt

cat >doc.md <<'END'
## What the target does not notice

| | test |
|---|---|
| A row with `io|bars` | `all_of_it_holds` |
| One that begins so | `all_of_…` |
| More | the same |

## What it may notice

- **Time**, over two
  lines. Tests: `whole_thing`, and `tests/test_good.c`.
- **Rules.** (no test: a rule of the kernel.)

Elsewhere: `all_of_this_too`.
END
python3 "$here/check-contract.py" doc.md tests ||
	{ echo "a good document is refused"; exit 1; }

cat >doc.md <<'END'
## What the target does not notice

| | test |
|---|---|
| A row without one | - |
| One that is gone | `all_of_it_held` |

## What it may notice

- **Time**, over two
  lines: `cow_pages` says.
- **More**: `none_of_…`, `test_bad.c`.

Elsewhere: `all_of_that_is_gone`.
END
cat >expected <<'END'
doc.md:10: no test: - **Time**, over two lines: `cow_pages` says.
doc.md:12: there is no test 'none_of_…'
doc.md:12: there is no test 'test_bad.c'
doc.md:14: there is no test 'all_of_that_is_gone'
doc.md:5: no test: A row without one
doc.md:6: there is no test 'all_of_it_held'
END
if python3 "$here/check-contract.py" doc.md tests >found; then
	echo "gaps were not seen"
	exit 1
fi
LC_ALL=C sort found | diff expected -
