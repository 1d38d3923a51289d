"""Objects that one frame holds: the paths to them start with that frame.

SPDX-License-Identifier: MIT

usage: test_frame_holders.py HEAPFORK VICTIM
"""
import csv
import io
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                ".."))
from hf_e2e import Snapshot, Victim, check, fail  # noqa: E402

HEAPFORK, VICTIM = sys.argv[1:3]
NAMES = {"outer": "worker-3", "middle": "worker-3", "inner": "worker-3",
         "red_zone": "leaf"}


def heapfork(*argv):
    done = subprocess.run([HEAPFORK, *argv], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)
    if done.returncode:
        fail("heapfork %s: %d: %s" % (argv, done.returncode, done.stderr))
    return done.stdout


def rows(*argv):
    return list(csv.DictReader(io.StringIO(heapfork(*argv, "--csv"))))


def held(victim, snapshot):
    for name, tid, addr, function, line in victim.words("object"):
        object_id, idom, flags = snapshot.one(
            "SELECT id, idom, flags FROM object WHERE addr = ?",
            int(addr, 16))
        if function == "-":
            check(not flags & 1, "%s: nothing holds it" % name)
            continue
        expected = 'thread %s "%s": %s()' % (tid, NAMES[name], function)
        if int(line):
            expected += " at frame_holders.c:" + line
        path = rows("path", snapshot.path, "--addr", addr)
        first = path[0]["type"]
        # The function without a line of its own has a label in it.
        if first != expected and not (line == "0" and first.startswith(
                expected + " at frame_holders.c:")):
            fail("%s: the path starts with %s, not %s" %
                 (name, first, expected))
        check(len(path) == 2, "%s: %s holds it" % (name, first))
        check(snapshot.holder(object_id)[1] == first,
              "%s: that frame alone retains it" % name)
        tree = rows("retainers", snapshot.path, "--addr", addr)
        check(tree[0]["type"] == first, "%s: retainers say the same" % name)
        frame = snapshot.one(
            "SELECT f.function, h.tid, r.addr >= f.sp - 128 AND r.addr < f.cfa"
            " FROM root r JOIN frame f ON f.id = r.frame_id"
            " JOIN thread h ON h.id = f.thread_id WHERE r.object_id = ?",
            object_id)
        check(frame == (function, int(tid), 1),
              "%s: its root lies in that frame" % name)


def shown(victim, snapshot):
    tid = victim.words("object")[0][1]
    text = heapfork("threads", snapshot.path, "--tid", tid)
    check(re.search(r'^thread %s "worker-3": S \(sleeping\), in read$' % tid,
                    text, re.M), "a thread, its state and its system call")
    wanted = [r"wait_here\(\) at frame_holders.c:\d+ in victim_frame_holders$",
              r"inner\(\) at ", r"middle\(\) at ", r"outer\(\) at ",
              r"hold\(\) at "]
    lines = [line for line in text.splitlines() if line.startswith(" #")]
    for line in lines:
        if wanted and re.search(wanted[0], line):
            wanted.pop(0)
    check(not wanted, "its frames, innermost first")
    check("read" in lines[0] and "libc" in lines[0],
          "the innermost is the C library's")
    # Of the other one the instruction is known, and that it was running.
    leaf = victim.words("object")[-1][1]
    registers = {row["name"]: int(row["value"]) for row in rows(
        "threads", snapshot.path, "--tid", leaf, "--registers")}
    frame = snapshot.one("SELECT pc, sp, stop_how FROM thread WHERE tid = ?",
                         int(leaf))
    check((registers["rip"], registers["rsp"], "user") == frame,
          "registers are those of the thread")
    check(registers["rdi"] == 0, "and what the program put there")


def many(threads, depth):
    victim = Victim([VICTIM, str(threads), str(depth)])
    snapshot = Snapshot(HEAPFORK, victim.pid)
    frames, ns = snapshot.one(
        "SELECT items, ns FROM phase WHERE name = 'stacks'")
    size = os.stat(snapshot.path).st_size
    print("%d threads: %d frames, %.0f frames/s, %d bytes a frame" %
          (threads, frames, frames * 1e9 / ns, size / frames))
    check(snapshot.one("SELECT count(*) FROM frame WHERE function = 'descend'")
          == (threads * depth,), "each frame of each thread")
    groups = rows("threads", snapshot.path, "--merge", "--limit", "1")
    check(int(groups[0]["threads"]) == threads, "all of them in one group")
    check(len(groups) > depth, "whose stack is shown once")
    victim.end()


def main():
    victim = Victim([VICTIM])
    snapshot = Snapshot(HEAPFORK, victim.pid)
    held(victim, snapshot)
    shown(victim, snapshot)
    victim.end()
    many(int(os.environ.get("HF_THREADS", "200")), 30)


main()
