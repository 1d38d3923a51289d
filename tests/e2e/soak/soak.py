#!/usr/bin/env python3
"""Snapshots of real programs at work, very many of them.

SPDX-License-Identifier: MIT

usage: HF_BIN=build/dev soak.py [--count N] [--seconds S] [--every K]
           [PROGRAM...]

Each program works, rests, works, rests (the control), and works once more
while snapshots are taken; then it must be as it was after the control: threads,
descriptors, children, signals, memory. All that the program checks itself, and
all that its clients check, must be right. Most snapshots are captures alone
(capture_loop), each K-th is a whole `heapfork snapshot`.

A program that is not installed is left out; in CI (CI=true), those that
scripts/setup installs must be there. Exit code: 0 all is well, 1 something is
not, 77 nothing could be run.
"""
import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.join(HERE, "..", "real"))

from soak_programs import PROGRAMS, Missing  # noqa: E402
from target import (BIN, DEADLINE, SKIP, check, settle,  # noqa: E402
                    stat_fields)

WARM_UP = 3           # seconds of work before the first look


def is_there(pid):
    fields = stat_fields(pid)
    return fields is not None and fields[0] not in "ZX"


class Snapshots:
    """Takes them, and counts what came of it."""

    def __init__(self, every, folder):
        self.every, self.folder = every, folder
        self.num_tried = 0
        self.results = collections.Counter()  # ok, partial, gone
        self.reasons = collections.Counter()  # of partial and failed ones
        self.pauses_ns = []
        self.loop = subprocess.Popen(
            [BIN + "/tests/e2e/soak/capture_loop"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)
        self.own = None  # what our own process is like after the first

    def look_at_own(self):
        """Threads and descriptors of capture_loop."""
        return [sorted(os.listdir("/proc/%d/%s" % (self.loop.pid, folder)))
                for folder in ("task", "fd")]

    def take(self, pid):
        self.num_tried += 1
        if self.num_tried % self.every == 0:
            self.take_whole(pid)
        else:
            self.take_capture(pid)

    def failed(self, reason):
        self.results["failed"] += 1
        self.reasons["failed: " + re.sub(r"\d+", "N", reason.strip())] += 1

    def gone(self, pid, reason):
        """It is no failure that a backend of a server ends; some moments
        before nobody sees it any more it has no memory."""
        end = time.monotonic() + DEADLINE
        while is_there(pid):
            if time.monotonic() > end:
                self.failed("said to be gone: " + reason)
                return
            time.sleep(0.01)
        self.results["gone"] += 1

    def take_capture(self, pid):
        self.loop.stdin.write("%d\n" % pid)
        self.loop.stdin.flush()
        said = self.loop.stdout.readline()
        word, _, rest = said.partition(" ")
        if word == "gone":
            self.gone(pid, rest)
        elif word != "ok":
            self.failed(rest if said else "capture_loop died")
            check(said, "capture_loop died")
        else:
            (pause_ns, _, threads, partial, vfork, attempts, _, reaped,
             closed) = map(int, rest.split())
            self.pauses_ns.append(pause_ns)
            self.own = self.own or self.look_at_own()
            if not reaped:
                self.failed("the child was not reaped")
            elif not closed:
                self.failed("the child kept descriptors")
            elif partial:
                self.results["partial"] += 1
                self.reasons["partial: %d thread(s), of them in vfork %d" %
                             (partial, vfork)] += 1
            else:
                self.results["ok"] += 1
            if attempts > 1:
                self.reasons["more than one attempt"] += 1

    def take_whole(self, pid):
        path = self.folder + "/soak.heap"
        run = subprocess.run(
            [BIN + "/heapfork", "snapshot", "--force", "-p", str(pid), "-o",
             path], capture_output=True, text=True, timeout=DEADLINE * 10)
        if run.returncode == 3:
            self.gone(pid, run.stderr)
        elif run.returncode not in (0, 9):
            self.failed("exit code %d: %s" % (
                run.returncode, " / ".join(run.stderr.splitlines())))
        else:
            pause = re.search(r"^paused ([0-9.]+) ms", run.stderr, re.M)
            if pause:
                self.pauses_ns.append(int(float(pause[1]) * 1e6))
            warnings = "; ".join(line for line in run.stderr.splitlines()
                                 if line.startswith("heapfork: warning: "))
            # A heap of an allocator that no reader knows is no fault of the
            # capture.
            unknown = "no allocator that heapfork knows" in warnings
            if run.returncode == 9 and not unknown:
                self.results["partial"] += 1
                self.reasons["partial: " + re.sub(r"\d+", "N", warnings)] += 1
            else:
                self.results["ok"] += 1
            os.unlink(path)

    def end(self):
        check(not self.own or self.look_at_own() == self.own,
              "capture_loop had threads and descriptors %s, has %s" %
              (self.own, self.look_at_own()))
        self.loop.stdin.close()
        check(self.loop.wait(DEADLINE) == 0, "capture_loop fails")

    def pauses(self):
        if not self.pauses_ns:
            return "-"
        ordered = sorted(self.pauses_ns)
        return "/".join("%.1f" % (ordered[int(q * (len(ordered) - 1))] / 1e6)
                        for q in (0.5, 0.99, 1))


def memory(pid):
    """Bytes that are its own: anonymous memory, and what of it is swapped."""
    with open("/proc/%d/status" % pid) as f:
        fields = dict(line.split(":", 1) for line in f)
    return 1024 * sum(int(fields[key].split()[0])
                      for key in ("RssAnon", "VmSwap"))


def thread_name(pid, tid):
    try:
        with open("/proc/%d/task/%s/comm" % (pid, tid)) as f:
            return f.read().strip()
    except OSError:
        return ""


class Look:
    """What a program is like at rest."""

    def __init__(self, program):
        self.processes = {pid: settle(pid) for pid in program.watched()}
        for pid, process in self.processes.items():
            process["threads"] = [
                tid for tid in process["threads"]
                if not program.is_pooled(thread_name(pid, tid))]
            process["descriptors"] = {
                number: path for number, path in process["descriptors"].items()
                if not program.is_cache(path)}
        self.memory = {pid: memory(pid) for pid in program.watched()}

    def compare(self, control, exact_fds):
        """What differs from the control, as texts."""
        found = []
        for pid, now in self.processes.items():
            then = control.processes[pid]
            for key in now:
                same = now[key] == then[key]
                if key == "children":  # their state may be any
                    same = now[key].keys() == then[key].keys()
                if not exact_fds and key in ("descriptors", "threads"):
                    same = len(now[key]) <= len(then[key])
                if not same:
                    found.append("%s of %d before: %s after: %s" %
                                 (key, pid, then[key], now[key]))
            zombies = [c for c, s in now["children"].items() if s == "Z"]
            if zombies:
                found.append("zombies of %d: %s" % (pid, zombies))
        return found


def compare_memory(first, control, last, ratio, slack):
    """It may grow as it did in the control, for its time."""
    found = []
    for pid, now in last.memory.items():
        grown = now - control.memory[pid]
        before = max(0, control.memory[pid] - first.memory[pid])
        allowed = before * max(1, ratio) + slack + \
            control.memory[pid] // 10
        if grown > allowed:
            found.append("%d grew by %.1f MiB, without snapshots by %.1f MiB" %
                         (pid, grown / 2**20, before / 2**20))
    return found


def work_for(program, seconds):
    program.work()
    time.sleep(seconds)
    program.rest()


def run_snapshots(program, snapshots, options):
    """@return seconds it took."""
    start = time.monotonic()
    end = start + options.seconds if options.seconds else None
    program.work()
    try:
        time.sleep(0.5)
        while snapshots.num_tried < options.count and \
                (not end or time.monotonic() < end):
            before = snapshots.num_tried
            for pid in program.pids():
                if snapshots.num_tried < options.count:
                    snapshots.take(pid)
            check(snapshots.num_tried > before or
                  options.count == snapshots.num_tried, "nobody to look at")
            time.sleep(0.005)
    finally:
        program.rest()
    return time.monotonic() - start


def run_program(name, options):
    """@return (row of the table, complaints)."""
    program = PROGRAMS[name]()
    complaints, snapshots, last, control = [], None, None, None
    control_seconds = min(20, max(3, options.seconds / 3 or 20))
    elapsed = 0
    try:
        program.start()
        work_for(program, WARM_UP)
        first = Look(program)
        work_for(program, control_seconds)
        control = Look(program)
        snapshots = Snapshots(options.every, program.target.folder)
        elapsed = run_snapshots(program, snapshots, options)
        snapshots.end()
        last = Look(program)
        complaints += last.compare(control, program.exact_fds)
        complaints += compare_memory(first, control, last,
                                     elapsed / control_seconds,
                                     program.memory_slack)
        program.finish()
    except Missing:
        raise
    except Exception as e:
        complaints.append("%s: %s" % (type(e).__name__, e))
    finally:
        if hasattr(program, "target"):
            program.cleanup()
    results = snapshots.results if snapshots else {}
    if snapshots:
        if results["failed"]:
            complaints.append("%d of %d snapshots failed" %
                              (results["failed"], snapshots.num_tried))
        if not results["ok"]:
            complaints.append("no snapshot is whole")
    row = [name, snapshots.num_tried if snapshots else 0] + [
        results.get(key, 0) for key in ("ok", "partial", "gone", "failed")] + [
        snapshots.pauses() if snapshots else "-", program.num_checks,
        changes(control, last), "%.0f" % elapsed,
        "FAILED" if complaints else "ok"]
    reasons = ["%dx %s" % (num, reason) for reason, num in
               snapshots.reasons.most_common()] if snapshots else []
    return row, complaints, reasons


def changes(control, last):
    """Threads, descriptors, MiB: now less the control's, over all watched."""
    if not control or not last:
        return "-"
    sums = []
    for key in "threads", "descriptors":
        sums.append(sum(len(p[key]) for p in last.processes.values()) -
                    sum(len(p[key]) for p in control.processes.values()))
    sums.append((sum(last.memory.values()) -
                 sum(control.memory.values())) / 2**20)
    return "%+d/%+d/%+.1f" % tuple(sums)


HEADER = ["program", "tried", "ok", "partial", "gone", "failed",
          "pause ms 50%/99%/max", "checks", "threads/fds/MiB", "s", ""]


def print_table(rows):
    texts = [[str(cell) for cell in row] for row in [HEADER] + rows]
    widths = [max(len(row[i]) for row in texts) for i in range(len(HEADER))]
    for row in texts:
        print("  ".join(cell.ljust(width) if i in (0, 10) else
                        cell.rjust(width) for i, (cell, width) in
                        enumerate(zip(row, widths))).rstrip())


def may_trace():
    """Are we allowed to? A program that nobody minds tells."""
    with tempfile.TemporaryDirectory(prefix="hf-soak-") as folder, \
            subprocess.Popen([BIN + "/examples/allow-ptrace", "sleep", "1000"],
                             stdout=subprocess.DEVNULL) as sleeper:
        try:
            run = subprocess.run(
                [BIN + "/heapfork", "snapshot", "-o", folder + "/a.heap",
                 "-p", str(sleeper.pid)], capture_output=True, text=True)
        finally:
            sleeper.kill()
    return run.returncode != 4, run.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=1000,
                        help="snapshots of each program (default 1000)")
    parser.add_argument("--seconds", type=float, default=0,
                        help="of snapshots of each program at most")
    parser.add_argument("--every", type=int, default=10, metavar="K",
                        help="each K-th is a whole heapfork snapshot")
    parser.add_argument("program", nargs="*", help=", ".join(PROGRAMS))
    options = parser.parse_args()
    for name in options.program:
        if name not in PROGRAMS:
            parser.error("'%s' is not one of %s" % (name, ", ".join(PROGRAMS)))
    allowed, said = may_trace()
    if not allowed:
        print("skipped: not allowed to trace: " + said)
        return SKIP
    rows, failed = [], False
    for name in options.program or PROGRAMS:
        try:
            row, complaints, reasons = run_program(name, options)
        except Missing as e:
            print("%s: skipped: %s" % (name, e), flush=True)
            failed |= PROGRAMS[name].in_core and \
                os.environ.get("CI") == "true"
            continue
        rows.append(row)
        print("%s: %s, %s snapshots" % (name, row[-1], row[1]), flush=True)
        for text in reasons:
            print("%s:   %s" % (name, text), flush=True)
        for text in complaints:
            print("%s: FAILED: %s" % (name, text), flush=True)
            failed = True
    if not rows:
        print("skipped: nothing could be run")
        return 1 if failed else SKIP
    print()
    print_table(rows)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
