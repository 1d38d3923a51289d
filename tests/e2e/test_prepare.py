#!/usr/bin/env python3
"""`heapfork snapshot --prepare`: huge pages where the memory is full, words
about it, a snapshot in any case; and the program's own check of its bytes.

usage: test_prepare.py HEAPFORK VICTIM

SPDX-License-Identifier: MIT
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from hf_e2e import Snapshot, Victim, check, fail

BLOCK = 2 << 20
FULL_MIB = 64


def huge_bytes(pid, start):
    """Of the mapping with this address: AnonHugePages of smaps."""
    inside = False
    with open("/proc/%d/smaps" % pid) as smaps:
        for line in smaps:
            head = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line)
            if head:
                low, high = (int(word, 16) for word in head.groups())
                inside = low <= start < high
            elif inside and line.startswith("AnonHugePages:"):
                return int(line.split()[1]) * 1024
    return fail("no mapping at %x" % start)


def prepared(snap):
    return snap.one("SELECT value FROM meta "
                    "WHERE key = 'capture.prepared_bytes'")[0]


def ends_well(victim):
    victim.process.stdin.close()
    text = victim.process.stdout.read()
    check(victim.process.wait() == 0, "the program's memory is as it was: " +
          " ".join(text.split()))


def start(program):
    victim = Victim([program, str(FULL_MIB)])
    return victim, {words[0]: int(words[1], 16)
                    for words in victim.words("map")}


def main():
    heapfork, program = sys.argv[1:3]

    victim, maps = start(program)
    snap = Snapshot(heapfork, victim.pid)
    check(prepared(snap) is None, "nobody asked: nothing was prepared")
    check(huge_bytes(victim.pid, maps["full"]) == 0, "... nor made huge")

    snap = Snapshot(heapfork, victim.pid, ["--prepare", "-v"])
    errors = snap.run.stderr
    if "the process was not prepared" in errors:
        victim.end()
        print("skipped: " + errors)
        sys.exit(77)
    done = int(prepared(snap))
    check(abs(done - FULL_MIB * 2**20) <= 8 * BLOCK,
          "about %d MiB were prepared: %d" % (FULL_MIB, done >> 20))
    check(snap.one("SELECT value FROM certificate WHERE item = "
                   "'bytes in huge pages made before'")[0] == str(done),
          "the certificate has it")
    for name in "shared", "holes", "forbidden":
        check(huge_bytes(victim.pid, maps[name]) == 0, name + " is as it was")
    check(re.search(r"^prepared: %d blocks?, " % (done // BLOCK), errors,
                    re.M), "it says so: " + errors.splitlines()[0])
    check("longest step" in errors, "-v says how long a step took")
    # What the program wrote to while the child lived was parted again; the
    # rest is no work.
    before = FULL_MIB * 2**20 - huge_bytes(victim.pid, maps["full"])
    again = int(prepared(Snapshot(heapfork, victim.pid, ["--prepare"])))
    check(abs(again - before) <= 16 * BLOCK,
          "a second time what was parted is gathered: %d of %d MiB" %
          (again >> 20, before >> 20))
    ends_well(victim)

    # Without the right: a warning, and the snapshot.
    if shutil.which("setpriv"):
        victim, maps = start(program)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.heap")
            run = subprocess.run(
                ["setpriv", "--bounding-set", "-sys_nice", "--inh-caps",
                 "-sys_nice", heapfork, "snapshot", "-p", str(victim.pid),
                 "-o", path, "--prepare"], capture_output=True, text=True)
            check(run.returncode in (0, 9) and os.path.exists(path),
                  "a snapshot without CAP_SYS_NICE")
        check("was not prepared" in run.stderr and
              "CAP_SYS_NICE" in run.stderr, "it names the capability")
        check(huge_bytes(victim.pid, maps["full"]) == 0, "nothing was done")
        ends_well(victim)

    for wrong in (["--prepare-rate", "0"], ["--prepare-rate", "fast"],
                  ["--prepare", "--mode", "stop"]):
        run = subprocess.run([heapfork, "snapshot", "-p", "1", "-o", "x.heap",
                              *wrong], capture_output=True, text=True)
        check(run.returncode == 2 and "--prepare" in run.stderr,
              "refused: " + " ".join(wrong))


if __name__ == "__main__":
    main()
