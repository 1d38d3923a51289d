#!/usr/bin/env python3
"""A snapshot without a fork: what it says of a quiet process is what a fork
says, row for row; memory that forks leave out is of the instant.

usage: test_stop_mode.py HEAPFORK HOLDERS LEFT_OUT

SPDX-License-Identifier: MIT
"""
import os
import signal
import subprocess
import sys
import tempfile
import time

from hf_e2e import Snapshot, Victim, check, children, descriptors, threads

# What says how a snapshot was taken, and not what is in it.
CAPTURE_TABLES = {"meta", "phase", "snapshot"}
# Of the vdso a fork maps what is used.
SEGMENT = ('SELECT id, start, "end", prot, kind, module_id, '
           "CASE kind WHEN 'vdso' THEN 0 ELSE resident_bytes END, "
           "%s FROM segment")


def state(pid):
    with open("/proc/%d/stat" % pid) as file:
        return file.read().rsplit(")", 1)[1].split()[0]


def tables(snap):
    return [name for (name,) in snap.rows(
        "SELECT name FROM sqlite_master WHERE type = 'table' "
        "AND name NOT LIKE 'sqlite_%' ORDER BY name")]


def compare(fork, stop):
    check(tables(fork) == tables(stop), "the same tables")
    for table in tables(fork):
        if table in CAPTURE_TABLES:
            continue
        if table == "segment":
            # Shared memory is late, or of the instant: then nobody says
            # late. How much of it either maps is its own matter.
            sql = SEGMENT % "CASE kind WHEN 'shared' THEN '' ELSE captured END"
        else:
            sql = 'SELECT * FROM "%s"' % table
        left = sorted(fork.rows(sql), key=repr)
        right = sorted(stop.rows(sql), key=repr)
        differ = [pair for pair in zip(left, right) if pair[0] != pair[1]]
        check(left == right, "table %s: %d rows, the same%s" %
              (table, len(left), differ[:2] or ""))


def memory(pid):
    with open("/proc/%d/status" % pid) as status:
        return [line.split() for line in status
                if line.startswith(("RssAnon", "RssShmem", "VmSwap",
                                    "VmSize", "VmPTE"))]


def quiet_process(heapfork, program):
    victim = Victim([program])
    # One of its threads computes: quiet is what job control stopped.
    victim.process.send_signal(signal.SIGSTOP)
    while state(victim.pid) != "T":
        time.sleep(0.001)
    fork = Snapshot(heapfork, victim.pid)
    before = (threads(victim.pid), descriptors(victim.pid),
              memory(victim.pid), children(victim.pid))
    stop = Snapshot(heapfork, victim.pid, ["--mode", "stop"])
    check(before == (threads(victim.pid), descriptors(victim.pid),
                     memory(victim.pid), children(victim.pid)),
          "the same threads, descriptors, memory and children")
    check("stood still for" in stop.run.stderr, "it says how long it stood")
    check(stop.run.returncode == fork.run.returncode, "the same exit code")
    row = stop.one("SELECT source, pause_ns >= stop_ns + regs_ns + resume_ns, "
                   "fork_ns, reap_ns, child_life_ns, cow_pages FROM snapshot")
    check(row == ("stop", 1, None, None, None, None), "its row: %s" % (row,))
    row = fork.one("SELECT source, fork_ns > 0 FROM snapshot")
    check(row == ("live", 1), "that of the fork: %s" % (row,))
    check(stop.one("SELECT pause_ns FROM snapshot")[0] >=
          stop.one("SELECT ns FROM phase WHERE name = 'copy'")[0],
          "the whole reading is the pause")
    compare(fork, stop)
    check(victim.alive(), "the program runs on")
    victim.end()


def left_out(heapfork, program):
    victim = Victim([program])
    snap = Snapshot(heapfork, victim.pid, ["--mode", "stop"])
    check(snap.run.returncode == 0, "the snapshot is whole: %s" %
          snap.run.stderr)
    check("out of its forks" not in snap.run.stderr, "nothing was late")
    for name, start, end in victim.words("table"):
        row = snap.one("SELECT captured, resident_bytes, prot FROM segment "
                       'WHERE start <= ? AND "end" >= ?', int(start, 16),
                       int(end, 16))
        check(row == ("saved", 8192, "rw-p"), "%s is of the instant: %s" %
              (name, row))
    check(snap.one("SELECT count(*) FROM segment WHERE captured = 'late'") ==
          (0,), "no segment was late")
    check(snap.one("SELECT count(*) FROM segment WHERE kind = 'shared' "
                   "AND captured NOT IN ('saved', 'file')") == (0,),
          "shared memory neither")
    victim.end()


# Long enough to be interrupted while it stands.
PROGRAM = """
import sys
store = [{number: str(number) * 3} for number in range(150000)]
print("ready", flush=True)
for count, line in enumerate(sys.stdin):
    print(count, len(store), flush=True)
"""


def ended_tool(heapfork):
    """Ctrl-C, and the death of the tool, while the process stands."""
    victim = Victim([sys.executable, "-c", PROGRAM],
                    env={"PYTHONMALLOC": "malloc"})
    before = threads(victim.pid), descriptors(victim.pid)
    for count, number in enumerate((signal.SIGINT, signal.SIGTERM,
                                    signal.SIGKILL)):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.heap")
            tool = subprocess.Popen(
                [heapfork, "snapshot", "-p", str(victim.pid), "-o", path,
                 "--mode", "stop"], stderr=subprocess.PIPE, text=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT,
                                                 signal.SIG_DFL))
            while state(victim.pid) != "t":
                check(tool.poll() is None, "it is still at work")
                time.sleep(0.001)
            time.sleep(0.02)
            check(state(victim.pid) == "t", "the process stands")
            tool.send_signal(number)
            tool.communicate(timeout=60)
            wanted = -9 if number == signal.SIGKILL else 128 + number
            check(tool.returncode == wanted, "%s: exit code %d" %
                  (number.name, tool.returncode))
            if number != signal.SIGKILL:
                check(os.listdir(folder) == [], "nothing is left on disk")
        victim.process.stdin.write("\n")
        victim.process.stdin.flush()
        check(victim.process.stdout.readline().split() ==
              [str(count), "150000"], "the process goes on")
    check((threads(victim.pid), descriptors(victim.pid)) == before,
          "with the same threads and descriptors")
    victim.end()


def main():
    heapfork, holders, left = sys.argv[1:4]
    quiet_process(heapfork, holders)
    left_out(heapfork, left)
    ended_tool(heapfork)


main()
