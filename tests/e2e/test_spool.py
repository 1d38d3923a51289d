#!/usr/bin/env python3
"""A snapshot from a copy of the child is the same, row for row, as one from the
child itself, and the child does not outlive the copy.

usage: test_spool.py HEAPFORK VICTIM WRITER

SPDX-License-Identifier: MIT
"""
import os
import subprocess
import sys
import tempfile
import time

from hf_e2e import Snapshot, Victim, check, children, fail

# What tells how it was taken, and not what was found. The stack of a thread
# that waits is the same, but not its account of time.
DIFFERENT = {"snapshot", "phase"}


def tables(snap):
    return [row[0] for row in snap.rows(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND "
        "name NOT LIKE 'sqlite_%' ORDER BY name")]


def rows(snap, table):
    where = " WHERE key NOT LIKE 'capture.%'" if table == "meta" else ""
    return sorted(snap.rows("SELECT * FROM %s%s" % (table, where)), key=repr)


def fact(snap, key):
    return snap.one("SELECT value FROM meta WHERE key = ?", key)[0]


def compare(name, direct, copied):
    names = tables(direct)
    check(names == tables(copied) and len(names) > 10,
          "%s: the same tables" % name)
    for table in names:
        if table in DIFFERENT:
            continue
        a, b = rows(direct, table), rows(copied, table)
        if a != b:
            fail("%s: table %s differs: %s" % (
                name, table, (set(map(repr, a)) ^ set(map(repr, b)))))
    number = direct.one("SELECT objects, refs FROM snapshot")
    check(number == copied.one("SELECT objects, refs FROM snapshot") and
          number[0] > 3, "%s: the same rows: %s" % (name, number))


def settle(victim):
    """Wait until it waits: between two snapshots nothing moves."""
    calls = []
    while len(calls) < 5 or "running" in calls[-1] or len(set(calls[-5:])) > 1:
        with open("/proc/%d/syscall" % victim.pid) as file:
            calls.append(file.read())
        time.sleep(0.01)


def main():
    heapfork, program, writer = sys.argv[1:]
    victim = Victim([program])
    settle(victim)
    direct = Snapshot(heapfork, victim.pid, ["--spool", "none"])
    check(fact(direct, "capture.read_from") == "direct" and
          fact(direct, "capture.copied_bytes") == "0" and
          fact(direct, "capture.read_direct_because") ==
          "it was not to be copied", "no copy, if that is asked for")

    copied = Snapshot(heapfork, victim.pid)
    check(fact(copied, "capture.read_from") == "memory" and
          fact(copied, "capture.read_direct_because") is None and
          int(fact(copied, "capture.copied_bytes")) > 100000,
          "a copy in memory: %s bytes" % fact(copied, "capture.copied_bytes"))
    compare("memory", direct, copied)
    phase = copied.rows("SELECT name, items FROM phase")
    check(phase[0] == ("copy", int(fact(copied, "capture.copied_bytes"))),
          "the copy is the first phase: %s" % phase[:2])

    # The same would do for a snapshot, but not for the machine.
    run = subprocess.run([heapfork, "snapshot", "-p", str(victim.pid), "-o",
                          direct.path + "2", "--keep-memory-free", "1000T"],
                         capture_output=True, text=True)
    check(run.returncode == 6 and "too little memory to fork" in run.stderr and
          "--keep-memory-free" in run.stderr and
          not os.path.exists(direct.path + "2"),
          "without memory nothing is forked: " + run.stderr)
    victim.end()

    limit = ["prlimit", "--as=%d" % (200 << 20)]
    if subprocess.run(limit + [heapfork, "version"],
                      capture_output=True).returncode != 0:
        print("not tested: a sanitizer needs all the address space")
        return
    # Its memory does not fit into half of what this address space has left.
    victim = Victim([writer, "96"])
    settle(victim)
    direct = Snapshot(heapfork, victim.pid, ["--spool", "none"])
    for options, wanted in (([], "direct"), (["--spool"], "file")):
        with tempfile.TemporaryDirectory() as folder:
            small = Snapshot(heapfork, victim.pid,
                             options + [folder] * len(options),
                             prefix=limit)
            check(os.listdir(folder) == [], "no file has a name")
        because = fact(small, "capture.read_direct_because")
        check(("not copied out" in small.run.stderr) == (wanted == "direct") and
              (because or "") in small.run.stderr,
              "what was not copied is told, and why: %s" % small.run.stderr)
        check(fact(small, "capture.read_from") == wanted and
              (because is None or "a copy may take 9" in because),
              "little room, %s: %s, %s" % (options, wanted, because))
        compare("little room, " + wanted, direct, small)
    check(small.one("SELECT dropped_bytes > 60 << 20 FROM snapshot")[0] == 1,
          "what was copied was given back")
    check(direct.one("SELECT dropped_bytes FROM snapshot")[0] == 0,
          "and nothing without a copy")
    check(victim.alive() and children(victim.pid) == [],
          "the process lives, alone")
    victim.end()


main()
