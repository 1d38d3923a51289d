#!/usr/bin/env python3
"""Ctrl-C and SIGTERM during `heapfork snapshot`, at several moments: the exit
code tells the signal, nothing is left on disk, the process goes on alone.

usage: test_snapshot_signals.py HEAPFORK

SPDX-License-Identifier: MIT
"""
import os
import signal
import subprocess
import sys
import tempfile
import time

from hf_e2e import Victim, check, children, descriptors, fail, threads

# Enough objects for an index that takes a while; answers a line with a count.
PROGRAM = r"""
import sys
store = [{number: str(number) * 3} for number in range(150000)]
print("ready", flush=True)
for count, line in enumerate(sys.stdin):
    print(count, len(store), flush=True)
"""


def catches(pid, number):
    """Whether the process has a handler for the signal; None: it is gone."""
    try:
        with open("/proc/%d/status" % pid) as status:
            for line in status:
                if line.startswith("SigCgt:"):
                    return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    except OSError:
        pass
    return None


class Moments:
    """When to send the signal. Each returns when its moment has come (or the
    tool has ended)."""

    def __init__(self, victim, folder):
        self.victim, self.folder = victim, folder

    def until(self, tool, condition):
        while tool.poll() is None and not condition():
            time.sleep(0.0005)

    def size(self):
        """Of the file that is being written; 0: not there yet."""
        total = 0
        for folder, _, names in os.walk(self.folder):
            for name in names:
                try:
                    total += os.path.getsize(os.path.join(folder, name))
                except OSError:
                    pass
        return total

    def at_once(self, tool):
        pass

    def while_frozen(self, tool):
        self.until(tool, lambda: children(self.victim.pid))

    def late_while_frozen(self, tool):
        self.while_frozen(tool)
        time.sleep(0.1)

    def after_release(self, tool):
        self.while_frozen(tool)
        self.until(tool, lambda: not children(self.victim.pid))

    def while_writing(self, tool):
        self.until(tool, lambda: self.size() > 0)

    def late_while_writing(self, tool):
        self.until(tool, lambda: self.size() > 1 << 20)


def ask(victim):
    victim.process.stdin.write("\n")
    victim.process.stdin.flush()
    return victim.process.stdout.readline().split()


def one(heapfork, victim, folder, moment, number):
    """@return whether the signal came before the end of the work."""
    path = os.path.join(folder, "a.heap")
    tool = subprocess.Popen(
        [heapfork, "snapshot", "-p", str(victim.pid), "-o", path],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
    # Before that it does not know of anything it could tidy up.
    while catches(tool.pid, number) is False and tool.poll() is None:
        time.sleep(0.0005)
    getattr(Moments(victim, folder), moment)(tool)
    tool.send_signal(number)
    said = tool.communicate(timeout=60)[1]
    name = "%s %s" % (signal.Signals(number).name, moment)

    if "cannot attach" in said and tool.returncode == 4:
        print("skipped: not allowed to trace: " + said)
        sys.exit(77)
    if tool.returncode == 0:
        os.unlink(path)  # too late: the work was done
    elif tool.returncode != 128 + number:
        fail("%s: exit code %d, not %d: %s" %
             (name, tool.returncode, 128 + number, said))
    left = os.listdir(folder)
    check(left == [], "%s: nothing is left on disk: %s" % (name, left))
    check(children(victim.pid) == [], "%s: no child is left" % name)
    check(victim.alive(), "%s: the process lives" % name)
    return tool.returncode != 0


def main():
    heapfork = sys.argv[1]
    victim = Victim([sys.executable, "-c", PROGRAM],
                    env={"PYTHONMALLOC": "malloc"})
    before = threads(victim.pid), descriptors(victim.pid)
    count = int(ask(victim)[0])
    for moment in ("at_once", "while_frozen", "late_while_frozen",
                   "after_release", "while_writing", "late_while_writing"):
        for number in (signal.SIGINT, signal.SIGTERM):
            with tempfile.TemporaryDirectory() as folder:
                in_time = any(one(heapfork, victim, folder, moment, number)
                              for _ in range(5))
            check(in_time, "%s %s: it was in time" % (number.name, moment))
            count += 1
            check(ask(victim) == [str(count), "150000"],
                  "%s %s: the process goes on" % (number.name, moment))
    check((threads(victim.pid), descriptors(victim.pid)) == before,
          "with the same threads and descriptors")
    victim.end()


main()
