#!/usr/bin/env python3
"""The certificate says what /proc, and the program itself, say from outside.

usage: test_certificate.py HEAPFORK

SPDX-License-Identifier: MIT
"""
import json
import os
import re
import subprocess
import sys
import time

from hf_e2e import Snapshot, Victim, check

PAGE = 4096

# Regions of every kind, each of another size; threads that wait, compute, and
# write to a page now and then.
PROGRAM = r"""
import mmap, threading, time
PAGE = 4096
WIPEONFORK, NOHUGEPAGE = 18, 15
keep = []

def region(name, pages, touched, advice=(), flags=mmap.MAP_PRIVATE,
           prot=mmap.PROT_READ | mmap.PROT_WRITE):
    memory = mmap.mmap(-1, pages * PAGE, flags=flags | mmap.MAP_ANONYMOUS,
                       prot=prot)
    if prot:
        memory.madvise(NOHUGEPAGE)
    for a in advice:
        memory.madvise(a)
    for page in range(touched):
        memory[page * PAGE] = 1
    keep.append(memory)
    print("region", name, pages, touched)

region("dontfork", 301, 3, [mmap.MADV_DONTFORK])
region("wipeonfork", 302, 4, [WIPEONFORK])
region("dontdump", 303, 5, [mmap.MADV_DONTDUMP])
region("shared", 304, 6, flags=mmap.MAP_SHARED)
region("no_access", 305, 0, prot=0)
region("shared_dontfork", 306, 7, [mmap.MADV_DONTFORK], flags=mmap.MAP_SHARED)
region("wiped_dontdump", 307, 8, [WIPEONFORK, mmap.MADV_DONTDUMP])
region("plain", 308, 9)

wait = threading.Event()
def waits():
    wait.wait()
def computes():
    # No lock of the interpreter: hashlib releases it.
    import hashlib
    block = bytes(1 << 25)
    while True:
        hashlib.sha256(block)
def writes():
    plain = keep[-1]
    while True:
        for page in range(308):
            plain[page * PAGE] = 1
        time.sleep(0.001)
for work in waits, waits, waits, computes, writes:
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
print("ready", flush=True)
time.sleep(1000)
"""


def smaps(pid):
    """[(bytes, resident, permissions, path, flags)] of all mappings."""
    found = []
    with open("/proc/%d/smaps" % pid) as f:
        for line in f:
            head = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+ *(.*)",
                            line)
            if head:
                start, end = (int(x, 16) for x in head.groups()[:2])
                found.append([start, end, 0, head[3], head[4], []])
            elif line.startswith("Rss:"):
                found[-1][2] = int(line.split()[1]) * 1024
            elif line.startswith("VmFlags:"):
                found[-1][5] = line.split()[1:]
    return found


def minor_faults(pid):
    with open("/proc/%d/stat" % pid) as f:
        return int(f.read().rpartition(")")[2].split()[7])


def sums(rows):
    """{reason: [count, bytes, resident]} over what was captured how."""
    found = {}
    for reason, _, count, size, resident in rows:
        one = found.setdefault(reason, [0, 0, 0])
        one[0] += count
        one[1] += size
        one[2] += resident
    return found


def check_regions(snap, maps, victim):
    """All regions of a kind, against the flags that the kernel shows."""
    rows = snap.rows("SELECT * FROM not_frozen")
    found = sums(rows)
    special = [m for m in maps if "io" in m[5] or "pf" in m[5]]
    rest = [m for m in maps if m not in special and
            m[4] != "[vsyscall]"]
    expected = {
        "dontfork": [m for m in rest if "dc" in m[5]],
        "wipeonfork": [m for m in rest if "wf" in m[5]],
        "shared": [m for m in rest if m[3][3] == "s" and "dc" not in m[5]],
        "no_access": [m for m in rest if m[3] == "---p" and not m[2] and
                      not m[4]],
        "dontdump": [m for m in rest if "dd" in m[5] and "wf" not in m[5] and
                     "dc" not in m[5]],
    }
    for reason, mine in expected.items():
        size = sum(m[1] - m[0] for m in mine)
        check(found.get(reason, [0, 0])[:2] == [len(mine), size],
              "%s: %d regions, %d bytes: %s" %
              (reason, len(mine), size, found.get(reason)))
        check(mine, "and there was one")
    touched = {name: (int(pages) * PAGE, int(touched) * PAGE)
               for name, pages, touched in victim.words("region")}
    for reason, names in (
            ("dontfork", ("dontfork", "shared_dontfork")),
            ("wipeonfork", ("wipeonfork", "wiped_dontdump")),
            ("dontdump", ("dontdump",))):
        check(found[reason][2] == sum(touched[n][1] for n in names),
              "resident of %s is what was touched: %s" %
              (reason, found[reason]))
    for reason in "dontfork", "wipeonfork", "shared":
        check({r[1] for r in rows if r[0] == reason} == {"late"},
              "%s was read late" % reason)
    check({r[1] for r in rows if r[0] == "no_access"} == {"missing"},
          "what nobody may touch is missing")
    check({r[1] for r in rows if r[0] == "dontdump"} == {"saved"},
          "what core files lack is captured all the same")
    for name, (size, _) in touched.items():
        advice = {"dontfork": "dontfork", "wipeonfork": "wipeonfork",
                  "dontdump": "dontdump", "shared_dontfork": "dontfork",
                  "wiped_dontdump": "wipeonfork,dontdump"}.get(name)
        # The kernel may have merged a plain one with its neighbours.
        if name in ("plain", "no_access"):
            continue
        check((advice,) in snap.rows(
            "SELECT advice FROM segment WHERE \"end\" - start = ?", size),
              "advice on %s: %s" % (name, advice))
    # What the view says, the certificate says.
    for reason, title in (("dontfork", "kept out of forks%"),
                          ("wipeonfork", "wiped by forks%"),
                          ("dontdump", "kept out of core files%"),
                          ("no_access", "without any access%"),
                          ("shared", "shared with other%")):
        lines = snap.rows("SELECT value, ok FROM certificate WHERE item LIKE ?"
                          " AND part = 'memory'", title)
        text = ["%d regions, %d bytes, %d resident" % tuple(r[2:])
                for r in rows if r[0] == reason]
        check(sorted(v for v, _ in lines) == sorted(text),
              "the certificate counts them: %s" % lines)
        if reason in ("dontfork", "wipeonfork"):
            check({ok for _, ok in lines} == {0}, "and warns of them")


def check_numbers(snap, record, before, after, elapsed_ns):
    """The row, and the certificate's own lines."""
    certificate = {r[0]: r[1] for r in snap.rows(
        "SELECT item, value FROM certificate")}
    parts = [r[0] for r in snap.rows(
        "SELECT DISTINCT part FROM certificate")]
    check(parts == ["snapshot", "pause", "threads", "allocator", "memory",
                    "child", "heap"], "the parts: %s" % parts)
    for item, column in (
            ("pause", "pause_ns"),
            ("of it, stopping all threads", "stop_ns"),
            ("of it, saving registers", "regs_ns"),
            ("of it, the fork", "fork_ns"),
            ("of it, letting all threads go", "resume_ns"),
            ("pause of one thread to reap the child", "reap_ns"),
            ("stops it took", "attempts"),
            ("calls to the kernel in the pause", "pause_calls"),
            ("most of them for one thread", "max_thread_calls"),
            ("threads", "threads"),
            ("threads not stopped", "partial_threads"),
            ("lifetime of the child", "child_life_ns"),
            ("pages the process copied meanwhile", "cow_pages"),
            ("faults of the process meanwhile", "parent_faults"),
            ("memory the child gave back early", "dropped_bytes"),
            ("most memory the child had to itself", "peak_private_bytes")):
        check(item in certificate, "the certificate has '%s'" % item)
        value = record[column]
        check(certificate[item] == (None if value is None else str(value)),
              "%s is %s: %s" % (item, column, certificate[item]))
    for item, value in (("way home of a borrowed thread", None),
                        ("real-time priority in the pause", None),
                        ("system calls restarted", None),
                        ("vfork children that ran on", "0"),
                        ("processes in the same memory, stopped with it", "0"),
                        ("safe point", None), ("suspect objects", None),
                        ("descriptors closed in the child", "yes"),
                        ("child reaped", "yes")):
        check(item in certificate and certificate[item],
              "the certificate has '%s': %s" % (item, certificate.get(item)))
        if value:
            check(certificate[item] == value, "it is " + value)
    check(0 < record["stop_ns"] + record["regs_ns"] + record["fork_ns"] +
          record["resume_ns"] <= record["pause_ns"] < elapsed_ns,
          "the parts of the pause are within it, and it in the run")
    check(0 < record["pause_ns"] < record["child_life_ns"] + 10**9 and
          record["child_life_ns"] < elapsed_ns, "the child lived in the run")
    check(record["attempts"] >= 1, "it took a stop")
    # A thread writes to 308 pages all the time.
    check(record["cow_pages"] > 0, "%d pages were copied" %
          record["cow_pages"])
    if record["parent_faults"] is not None:
        # Nearly all copies are for threads of its own, each after a fault.
        check(record["cow_pages"] // 2 < record["parent_faults"] <=
              after - before,
              "faults: %d of %d in the whole run" %
              (record["parent_faults"], after - before))
    if record["peak_private_bytes"] is not None:
        check(record["peak_private_bytes"] >= PAGE,
              "and they cost memory: %d" % record["peak_private_bytes"])


def main():
    heapfork = sys.argv[1]
    victim = Victim([sys.executable, "-c", PROGRAM])
    maps = smaps(victim.pid)
    before, start = minor_faults(victim.pid), time.monotonic_ns()
    snap = Snapshot(heapfork, victim.pid)
    elapsed_ns = time.monotonic_ns() - start
    after = minor_faults(victim.pid)
    check(smaps(victim.pid)[0][:2] == maps[0][:2], "the program runs on")

    run = subprocess.run([heapfork, "info", "--json", snap.path],
                         capture_output=True, text=True, check=True)
    record = json.loads(run.stdout)[0]
    check_regions(snap, maps, victim)
    check_numbers(snap, record, before, after, elapsed_ns)

    tids = sorted(int(t) for t in os.listdir("/proc/%d/task" % victim.pid))
    check(record["threads"] == len(tids) and
          sorted(t for t, in snap.rows("SELECT tid FROM thread")) == tids,
          "its %d threads" % len(tids))
    how = dict(snap.rows("SELECT item, CAST(value AS INTEGER) FROM certificate"
                         " WHERE item LIKE 'stopped %'"))
    check(sum(how.values()) == len(tids), "each was stopped somehow: %s" % how)
    check(how["stopped in a system call"] >= 3, "those that wait in a call")
    check(how.get("stopped in their own code", 0) >= 1,
          "the one that computes in its code")

    people = subprocess.run([heapfork, "info", snap.path],
                            capture_output=True, text=True, check=True).stdout
    for part in ("the pause:", "the allocator at this moment:",
                 "afterwards, while the frozen child was read:"):
        check(part in people, "info has '%s'" % part)
    check(re.search(r"^! kept out of forks \(MADV_DONTFORK\), read late +"
                    r"2 regions, 2.4 MiB, 40.0 KiB resident$", people, re.M),
          "info has sizes for people, and a mark")
    check(re.search(r"^  pause +\d+\.\d (ms|us)$", people, re.M),
          "and times")
    check("paused " in snap.run.stderr and
          "pages copied by the process" in snap.run.stderr,
          "snapshot says what it cost: " + snap.run.stderr)
    victim.end()


main()
