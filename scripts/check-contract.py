#!/usr/bin/env python3
"""Each clause of the contract names its test, and the test exists.

SPDX-License-Identifier: MIT

usage: scripts/check-contract.py [DOCUMENT.md [TESTS-FOLDER]]

A clause is a row of a table whose last column is "test", or an item of a list
in a section whose title says "notice". It names a test in backticks: a test
function (its words joined by _, at least three of these; with … at the end: all
that begin so), a test of CTest, or a file of the tests; or it says "the same",
which means the row before; or "(no test: reason)". Names of tests elsewhere in
the document must exist, too.
"""
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
SUFFIXES = (".c", ".cc", ".py", ".sh")


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def find_tests(folder):
    """(names of test functions, of tests of CTest, of files)"""
    functions, ctests, files = set(), set(), set()
    for base, _, names in os.walk(folder):
        for name in names:
            text = None
            path = os.path.join(base, name)
            if name.endswith((".c", ".cc")):
                text = read(path)
                functions.update(re.findall(
                    r"^static void (\w+)\(\s*void \*\*state\)", text, re.M))
            elif name.endswith(".py"):
                functions.update(re.findall(r"^def (?:case_)?(\w+)\(",
                                            read(path), re.M))
            elif name == "CMakeLists.txt":
                text = read(path)
                ctests.update(re.findall(r"add_test\(\s*NAME (\w+)", text))
                ctests.update(re.findall(
                    r"hf_add_\w*test\(\s*(\w+)", text))
            if name.endswith(SUFFIXES):
                files.update([name, os.path.splitext(name)[0]])
    return functions, ctests, files


class Checker:
    def __init__(self, document, folder):
        self.document = document
        self.functions, self.ctests, self.files = find_tests(folder)
        self.complaints = []
        self.num_clauses = 0

    def complain(self, line, text):
        self.complaints.append("%s:%d: %s" % (self.document, line, text))

    def is_function_name(self, word):
        return re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+){3,}(_?…)?", word) or \
            re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)+_…", word)

    def exists(self, word):
        if word in self.functions or word in self.ctests:
            return True
        if word.endswith("…"):
            return any(f.startswith(word[:-1]) for f in self.functions)
        return os.path.basename(word) in self.files

    def names_in(self, text):
        """Words in backticks that are tests, or should be."""
        words = re.findall(r"`([^`]+)`", text)
        return [w for w in words if self.is_function_name(w) or
                w in self.ctests or os.path.basename(w).startswith("test_")]

    def check_clause(self, line, text, rest=""):
        self.num_clauses += 1
        if re.search(r"\(no\s+test: ", text + rest):
            return
        if not self.names_in(text) and "the same" not in text:
            self.complain(line, "no test: %s" % (rest or text)[:70])

    def check(self):
        section, is_table, item = "", False, None
        lines = read(self.document).splitlines() + [""]
        for number, text in enumerate(lines, 1):
            for word in self.names_in(text):
                if not self.exists(word):
                    self.complain(number, "there is no test '%s'" % word)
            if item and (not text.startswith("  ") or text.startswith("- ")):
                self.check_clause(item[0], item[1])
                item = None
            if text.startswith("#"):
                section = text
            if text.startswith("- ") and "notice" in section:
                item = [number, text]
            elif item:
                item[1] += " " + text.strip()
            if not text.startswith("|"):
                is_table = False
                continue
            # (A | in code is part of it.)
            cells = [c.strip() for c in
                     re.sub(r"`[^`]*`", lambda m: m[0].replace("|", "¦"),
                            text).strip("|").split("|")]
            if cells[-1] == "test":
                is_table = True
            elif is_table and not set(text) <= set("|- "):
                self.check_clause(number, cells[-1], cells[0])
        if not self.num_clauses:
            self.complain(len(lines), "no clauses were found")


def main():
    document = sys.argv[1] if len(sys.argv) > 1 else \
        os.path.join(ROOT, "docs", "capture-safety.md")
    folder = sys.argv[2] if len(sys.argv) > 2 else os.path.join(ROOT, "tests")
    checker = Checker(document, folder)
    checker.check()
    for text in checker.complaints:
        print(text)
    sys.exit(1 if checker.complaints else 0)


main()
