"""The frames we find, beside those that gdb finds.

SPDX-License-Identifier: MIT

usage: test_stacks.py PRINT_STACKS TAKE_CORE VICTIM...

Of each victim: the same frames (addresses, and with debug information names,
files and lines, inlined functions too) from the process, from its core, and
from gdb.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                ".."))
from hf_e2e import Victim, check, fail  # noqa: E402

PRINT_STACKS, TAKE_CORE = sys.argv[1:3]
VICTIMS = sys.argv[3:]


def run(*argv):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=120, errors="replace")
    return done.stdout


def ours(what):
    """Thread id -> [(function, file, line, how)], innermost first."""
    found = {}
    for line in run(PRINT_STACKS, what).splitlines():
        if line.startswith("TID "):
            tid, end = line[4:].split(": ")
            if end != "whole":
                fail("stack of %s: %s" % (tid, end))
            found[int(tid)] = frames = []
            continue
        match = re.match(r"#\d+ (0x[0-9a-f]+) (\S+) (\S+):(\d+) \[(\w+)\]",
                         line)
        frames.append((match.group(2), os.path.basename(match.group(3)),
                       int(match.group(4)), match.group(5),
                       int(match.group(1), 16)))
    return found


def gdbs(core, exe):
    """The same of gdb; no addresses."""
    found = {}
    text = run("gdb", "-batch", "-nx", "-ex", "set width 0",
               "-ex", "set backtrace past-main on",
               "-ex", "set backtrace past-entry on",
               "-ex", "thread apply all bt", exe, core)
    for line in text.splitlines():
        match = re.match(r"Thread \d+ .*\(LWP (\d+)\)", line)
        if match:
            found[int(match.group(1))] = frames = []
        match = re.match(r"#\d+\s+(?:0x[0-9a-f]+ in )?(\S+) \(.*\)"
                         r"(?: at (\S+):(\d+))?", line)
        if match and found:
            name, path, number = match.groups()
            frames.append((name, os.path.basename(path or "?"),
                           int(number or 0)))
    return found


# A function of libc has many names (read, __read, __GI___libc_read); those of
# the victim have one.
def same_name(a, b, path):
    return a == b or path != "frames.c" or "?" in (a, b)


def compare(tid, mine, gdb):
    """Ours are gdb's, in order; gdb may have more: where one function of libc
    ends by jumping to another, it works out who did, without a frame."""
    rest = list(mine)
    for other in gdb:
        frame = rest[0] if rest else None
        if (frame and same_name(frame[0], other[0], frame[1]) and
                (not other[2] or frame[1:3] == other[1:])):
            rest.pop(0)
        elif other[1] == "frames.c":
            fail("thread %d: %s, gdb says %s" % (tid, frame, other))
    if rest:
        fail("thread %d: %s, gdb has %s" % (tid, mine, gdb))


def main():
    if not shutil.which("gdb"):
        print("SKIP: no gdb")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="hf-stacks-") as folder:
        for exe in VICTIMS:
            print("-- " + os.path.basename(exe))
            victim = Victim([exe])
            victim.wait_for_syscall(0)  # read
            core = os.path.join(folder, "core")
            run(TAKE_CORE, str(victim.pid), core)
            from_core = ours(core)
            live = ours(str(victim.pid))
            check(len(from_core) == 6, "six threads")
            for tid, frames in from_core.items():
                # One of them runs on between the two.
                skip = 1 if "spin" in open("/proc/%d/task/%d/comm" % (
                    victim.pid, tid)).read() else 0
                if frames[skip:] != live[tid][skip:]:
                    fail("thread %d: %s, of the process %s" %
                         (tid, frames, live[tid]))
            print("ok: the frames of the core are those of the process")
            for tid, frames in gdbs(core, exe).items():
                compare(tid, from_core[tid], frames)
            print("ok: they are gdb's, with names, files and lines")
            check(all(frame[3] in ("registers", "cfi", "inline")
                      for frames in from_core.values() for frame in frames),
                  "none of them is a guess")
            victim.end()


main()
