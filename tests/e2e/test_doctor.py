#!/usr/bin/env python3
"""`heapfork doctor`, --dry-run, --max-pause and --timeout: what they say, that
it is true, and that nobody is stopped or changed by it.

The predicted pause is compared with the real one of the same process at the
same time, in factors, and more than once: other programs want this machine's
CPUs, too.

usage: test_doctor.py HEAPFORK VICTIM

SPDX-License-Identifier: MIT
"""
import csv
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time

from hf_e2e import Snapshot, Victim, check, children, fail, threads

FACTOR = 4
TRIES = 6


def run(heapfork, *arguments):
    return subprocess.run([heapfork, *arguments], capture_output=True,
                          text=True)


def checks(heapfork, pid):
    """The checks by name. A machine that is so busy that nothing can be
    measured is asked again."""
    for _ in range(TRIES):
        done = run(heapfork, "doctor", "--json", str(pid))
        rows = {row["check"]: row for row in json.loads(done.stdout)}
        if rows["pause"]["value"]:
            break
    return rows


def heap(program, mib, kind):
    victim = Victim([program, str(mib), kind])
    if victim.words("skipped"):
        return None
    return victim


def prediction_is_near(heapfork, program, mib, kind):
    """@return the median of a few predicted pauses, ns."""
    victim = heap(program, mib, kind)
    if not victim:
        print("skipped: %d MiB of %s pages: not here" % (mib, kind))
        return None
    seen, values = [], []
    for _ in range(TRIES):
        predicted = checks(heapfork, victim.pid)["pause"]["value"]
        values.append(predicted)
        snap = Snapshot(heapfork, victim.pid)
        real = snap.one("SELECT pause_ns FROM snapshot")[0]
        seen.append("%.2f/%.2f ms" % (predicted / 1e6, real / 1e6))
        if real / FACTOR <= predicted <= real * FACTOR:
            print("ok: %d MiB of %s pages: predicted/real %s" %
                  (mib, kind, ", ".join(seen)))
            break
    else:
        fail("%d MiB of %s pages: predicted/real %s" %
             (mib, kind, ", ".join(seen)))
    while len(values) < 5:
        values.append(checks(heapfork, victim.pid)["pause"]["value"])
    victim.end()
    return sorted(values)[len(values) // 2]


def prediction_grows(heapfork, program):
    usual = {(mib, kind): prediction_is_near(heapfork, program, mib, kind)
             for mib in (64, 512) for kind in ("small", "huge")}
    check(usual[64, "small"] < usual[512, "small"],
          "more small pages: a longer pause")
    if usual[512, "huge"]:
        check(usual[512, "huge"] < usual[512, "small"],
              "huge pages: a shorter pause than with small ones")


def says_how_long_at_worst(heapfork, program):
    victim = heap(program, 8, "small")
    row = checks(heapfork, victim.pid)["pause"]
    both = re.search(r"about ([0-9.]+) ms, up to ([0-9.]+) ms", row["found"])
    check(both and float(both.group(1)) <= float(both.group(2)) and
          abs(float(both.group(1)) - row["value"] / 1e6) < 0.06,
          "what is expected, and at worst: " + row["found"])
    victim.end()


def threads_count(heapfork, program):
    few, many = (Victim([program, "8", "small", str(num)])
                 for num in (1, 200))
    few_ns, many_ns = (
        min(checks(heapfork, victim.pid)["pause"]["value"] for _ in range(3))
        for victim in (few, many))
    check(checks(heapfork, many.pid)["threads"]["value"] == 201,
          "all threads are counted")
    check(few_ns < many_ns, "more threads: a longer pause")
    few.end()
    many.end()


def switches(pid):
    with open("/proc/%d/status" % pid) as status:
        text = status.read()
    return re.search(r"TracerPid:\t0\n", text) is not None, \
        re.search(r"nonvoluntary_ctxt_switches:\t(\d+)", text).group(1)


def nobody_is_stopped(heapfork, program):
    victim = heap(program, 8, "small")
    before = threads(victim.pid), children(victim.pid), switches(victim.pid)
    for arguments in (["doctor", str(victim.pid)],
                      ["snapshot", "-p", str(victim.pid), "--dry-run"]):
        done = run(heapfork, *arguments)
        check(done.returncode == 0, "nothing is in its way")
        check("nothing is in the way" in done.stdout, "... it says")
        check(not done.stderr, "and nothing else: " + done.stderr)
    after = threads(victim.pid), children(victim.pid), switches(victim.pid)
    check(before == after, "the process sleeps on, has no child, no tracer")
    victim.end()


def says_the_same(heapfork, program):
    victim = heap(program, 8, "small")
    as_json = checks(heapfork, victim.pid)
    as_csv = list(csv.DictReader(io.StringIO(
        run(heapfork, "doctor", "--csv", str(victim.pid)).stdout)))
    as_table = run(heapfork, "doctor", str(victim.pid)).stdout
    dry = run(heapfork, "snapshot", "--dry-run", "-p", str(victim.pid)).stdout
    names = list(as_json)
    check([row["check"] for row in as_csv] == names, "CSV has the same checks")
    for text, name in ((as_table, "the table"), (dry, "--dry-run")):
        check([line.split()[0] for line in text.splitlines()[1:len(names) + 1]]
              == names, name + " has the same checks")
    check(all(row["verdict"] in ("ok", "warning", "unknown", "blocker") and
              row["found"] for row in as_json.values()),
          "each has a verdict, and what was found")
    check(all(row["cause"] for row in as_json.values()
              if row["verdict"] in ("warning", "blocker")),
          "what is not well has a cause")
    check(run(heapfork, "doctor").returncode == 2, "which process? is asked")
    victim.end()


JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"


def other_allocator(heapfork, program, folder):
    """The exit status is that of the snapshot, and the doctor says why."""
    if not os.path.exists(JEMALLOC):
        print("skipped: no " + JEMALLOC)
        return
    victim = Victim([program, "8", "small"], {"LD_PRELOAD": JEMALLOC})
    output = os.path.join(folder, "j.heap")
    doctor = run(heapfork, "doctor", str(victim.pid))
    dry = run(heapfork, "snapshot", "-p", str(victim.pid), "--dry-run")
    real = run(heapfork, "snapshot", "-p", str(victim.pid), "-o", output)
    codes = doctor.returncode, dry.returncode, real.returncode
    check(codes == (9, 9, 9), "jemalloc: doctor, --dry-run and snapshot exit "
          "with 9, not %s: %s" % (codes, real.stderr))
    check("would be partial, with exit status 9: see allocator" in
          doctor.stdout, "... and the last line says so")
    check("nothing is in the way" not in doctor.stdout, "... and only that")
    os.unlink(output)
    victim.end()


def dry(heapfork, pid, *options):
    done = run(heapfork, "snapshot", "-p", str(pid), "--dry-run", "--json",
               *options)
    rows = json.loads(done.stdout) if done.stdout else []
    return done, {row["check"]: row for row in rows}


def what_else_is_needed(heapfork, program, folder):
    """Output, room on its disk, --spool and --prepare are looked at, and what
    is refused is refused before the pause."""
    victim = Victim([program, "8", "small"])
    base = ["-p", str(victim.pid)]
    output = os.path.join(folder, "a.heap")
    missing = os.path.join(folder, "missing")
    done, rows = dry(heapfork, victim.pid, "-o", output, "--prepare",
                     "--spool", folder)
    check(done.returncode == 0, "a dry run with all of it: " + done.stderr)
    free = os.statvfs(folder)
    free = free.f_bavail * free.f_frsize
    check(free / 4 < rows["disk"]["value"] < free * 4,
          "disk: as much is free as there is")
    check(free / 4 < rows["spool"]["value"] < free * 4, "spool, too")
    check(rows["prepare"]["verdict"] in ("ok", "warning"), "prepare")
    plain = dry(heapfork, victim.pid)[1]
    check(not {"disk", "spool", "prepare"} & set(plain), "if asked for only")
    for options, code, said in (
            (["-o", folder + "/x/"], 2, "ends in '/'"),
            (["-o", missing + "/a.heap"], 10, "there is no folder"),
            (["-o", "/proc/x.heap"], 10, "no folder where files can be made"),
            (["-o", output, "--spool", missing], 10,
             "cannot make a file in '%s'" % missing)):
        for more in [], ["--dry-run"]:
            done = run(heapfork, "snapshot", *base, *options, *more)
            check(done.returncode == code and said in
                  done.stdout + done.stderr and "paused" not in done.stderr,
                  "%s %s: exit %d, '%s', no pause: %d %s" %
                  (options, more, code, said, done.returncode, done.stderr))
    check("there is no folder '/proc'" not in
          run(heapfork, "snapshot", *base, "-o", "/proc/x.heap").stderr,
          "/proc is a folder")
    check(os.listdir(folder) == [], "nothing is left")
    victim.end()


def a_full_disk(heapfork, program, folder):
    victim = Victim([program, "8", "small"])
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=64k none \"$1\" "
         "&& shift && exec \"$@\"", "sh", folder, heapfork, "snapshot", "-p",
         str(victim.pid), "-o", os.path.join(folder, "a.heap")],
        capture_output=True, text=True)
    if "unshare" in done.stderr or "mount" in done.stderr:
        print("skipped: a file system of its own cannot be mounted here")
    else:
        check(done.returncode == 6 and "no room for" in done.stderr and
              "paused" not in done.stderr, "a full disk: exit 6 before the "
              "pause, not %d: %s" % (done.returncode, done.stderr))
    victim.end()


def little_address_space(heapfork, program, folder):
    if os.environ.get("HF_SANITIZED"):
        return
    victim = Victim([program, "100", "blocks"])
    done = subprocess.run(
        ["sh", "-c", "ulimit -v 40000; exec \"$@\"", "sh", heapfork,
         "snapshot", "-p", str(victim.pid), "-o",
         os.path.join(folder, "m.heap")], capture_output=True, text=True)
    check(done.returncode == 10 and "cause: the address space of heapfork is "
          "limited to 39.1 MiB" in done.stderr and "fix: " in done.stderr,
          "RLIMIT_AS is named: %d %s" % (done.returncode, done.stderr))
    check(os.listdir(folder) == [] and victim.alive(), "nothing else happens")
    victim.end()


def sizes_are_readable(heapfork, program):
    victim = Victim([program, "8", "small"])
    base = ["snapshot", "-p", str(victim.pid), "--dry-run"]
    text = run(heapfork, *base, "--keep-memory-free", "100T").stdout
    check("100.0 TiB" in text, "100 TiB: " + text)
    check(not re.search(r"[0-9]{5,} [KMGT]iB", text), "no number is long")
    text = run(heapfork, *base, "--bytes").stdout
    check(re.search(r"child takes about [0-9]+ bytes", text) and
          not re.search(r"[0-9] [KMGT]iB", text.replace("4 KiB", "")),
          "--bytes: exact ones")
    victim.end()


def max_pause(heapfork, program, folder):
    victim = heap(program, 256, "small")
    output = os.path.join(folder, "a.heap")
    base = ["-p", str(victim.pid), "-o", output]
    # A limit far below what anybody could do, and one far above.
    predicted_ms = checks(heapfork, victim.pid)["pause"]["value"] / 1e6
    check(predicted_ms > 1, "256 MiB of small pages take a millisecond")
    done = run(heapfork, "snapshot", *base, "--max-pause", "1")
    check(done.returncode == 11, "above --max-pause: exit 11, not %d: %s" %
          (done.returncode, done.stderr))
    check("longer than --max-pause 1" in done.stderr and
          "cause: " in done.stderr and "fix: " in done.stderr, "... it says so")
    check(not os.path.exists(output), "... and takes none")
    done = run(heapfork, "snapshot", "--dry-run", *base, "--max-pause", "1")
    check(done.returncode == 11 and not os.path.exists(output),
          "--dry-run says the same")
    done = run(heapfork, "snapshot", *base, "--max-pause", "60000", "-v")
    check(done.returncode in (0, 9), "below it: a snapshot")
    check(re.search(r"^predicted: [0-9.]+ ms; the pause was [0-9.]+ times",
                    done.stderr, re.M), "-v compares the two")
    snap = Snapshot(heapfork, victim.pid, ["--max-pause", "60000"])
    value = snap.one("SELECT value FROM meta WHERE key = "
                     "'capture.predicted_pause_ns'")[0]
    check(int(value) > 0, "the prediction is kept")
    check(run(heapfork, "snapshot", *base, "--force", "--mode", "stop",
              "--max-pause", "9").returncode == 2,
          "--mode stop has no such pause")
    victim.end()


def options_of_a_capture(heapfork, program, folder):
    """doctor takes what changes its verdict, as the snapshot does."""
    victim = heap(program, 256, "small")
    done = run(heapfork, "doctor", str(victim.pid), "--max-pause", "0.5")
    check(done.returncode == 11 and "--max-pause 0.5" in done.stdout and
          "--prepare" in done.stdout, "doctor --max-pause 0.5: exit 11, and "
          "--prepare is named: %d" % done.returncode)
    done = run(heapfork, "doctor", str(victim.pid), "--mode", "stop", "--json")
    rows = {row["check"]: row for row in json.loads(done.stdout)}
    check("--mode stop" in rows["pause"]["found"] and
          "overcommit" not in rows, "doctor --mode stop")
    done = run(heapfork, "doctor", str(victim.pid), "--keep-memory-free",
               "100T")
    check(done.returncode == 6, "doctor --keep-memory-free: exit 6")
    start = time.monotonic()
    done = run(heapfork, "snapshot", "-p", str(victim.pid), "-o",
               os.path.join(folder, "t.heap"), "--timeout", "0.001")
    check(done.returncode == 8 and "within --timeout 0.001" in done.stderr,
          "--timeout 0.001: exit 8: %d %s" % (done.returncode, done.stderr))
    for option in "--timeout", "--stop-timeout", "--max-pause":
        for value, code in ("0", 2), ("0.0", 2), ("x", 2), (".", 2), \
                           ("1.5x", 2), ("9999999", 2), ("-1", 2), \
                           ("0.5", 3), (".5", 3), ("1.", 3):
            # No such process: the command line was right.
            done = run(heapfork, "snapshot", "-p", "2147483647", "-o",
                       os.path.join(folder, "t.heap"), option + "=" + value)
            check(done.returncode == code, "%s %s: exit %d, not %d" %
                  (option, value, code, done.returncode))
    victim.end()


def timeout(heapfork, program, folder):
    # So many objects that the index takes longer than the limit.
    victim = Victim([program, "3000", "blocks"])
    output = os.path.join(folder, "b.heap")
    start = time.monotonic()
    done = run(heapfork, "snapshot", "-p", str(victim.pid), "-o", output,
               "--timeout", "1")
    took = time.monotonic() - start
    if done.returncode in (0, 9) and took < 1:
        print("skipped: this machine indexes 3 million objects in %.2f s" %
              took)
    else:
        check(done.returncode == 8, "--timeout: exit 8, not %d: %s" %
              (done.returncode, done.stderr))
        check("within --timeout 1" in done.stderr, "... it says so")
        check(not os.path.exists(output), "... and leaves no file")
        check(sorted(os.listdir(folder)) == [], "... nor a part of one")
    check(children(victim.pid) == [], "the child is gone, and reaped")
    check(victim.alive(), "the process is there")
    victim.end()


def zombies(pid):
    return [child for child, state in children(pid) if state == "Z"]


def reap(heapfork, program, folder):
    victim = Victim([program, "3000", "blocks"])
    # Killed while it reads the child: that dies with it, and is left.
    tool = subprocess.Popen(
        [heapfork, "snapshot", "-p", str(victim.pid), "--spool", "none", "-o",
         os.path.join(folder, "c.heap")], stderr=subprocess.PIPE, text=True)
    while not tool.stderr.readline().startswith("paused"):
        check(tool.poll() is None, "the snapshot goes on")
    tool.kill()
    tool.wait()
    tool.stderr.close()
    for _ in range(1000):
        if zombies(victim.pid):
            break
        time.sleep(0.01)
    check(len(zombies(victim.pid)) == 1, "a killed snapshot leaves a zombie")
    row = checks(heapfork, victim.pid)["left-behind"]
    check(row["verdict"] == "warning" and row["value"] == 1 and
          "--reap %d" % victim.pid in row["fix"], "the doctor sees it")
    check(zombies(victim.pid), "... and does nothing about it")
    child = zombies(victim.pid)[0]
    done = run(heapfork, "doctor", "--reap", "--json", str(victim.pid))
    check(json.loads(done.stdout) == [{"target": victim.pid, "child": child,
                                       "result": "reaped"}],
          "the rows say whom: " + done.stdout)
    check(done.returncode == 0 and "zombies reaped: 1, left: 0" in done.stderr,
          "--reap has it reaped: " + done.stderr)
    empty = run(heapfork, "doctor", "--reap", "--csv", str(victim.pid))
    check(empty.stdout.split() == ["target,child,result"], "nothing is left: "
          "a header only: " + empty.stdout)
    check(children(victim.pid) == [], "it is gone")
    check(checks(heapfork, victim.pid)["left-behind"]["verdict"] == "ok",
          "the doctor agrees")
    check(victim.alive(), "the process goes on")
    victim.end()


def main():
    heapfork, program = sys.argv[1:3]
    nobody_is_stopped(heapfork, program)
    says_the_same(heapfork, program)
    sizes_are_readable(heapfork, program)
    says_how_long_at_worst(heapfork, program)
    threads_count(heapfork, program)
    prediction_grows(heapfork, program)
    with tempfile.TemporaryDirectory() as folder:
        other_allocator(heapfork, program, folder)
        what_else_is_needed(heapfork, program, folder)
        a_full_disk(heapfork, program, folder)
        little_address_space(heapfork, program, folder)
        timeout(heapfork, program, folder)
        max_pause(heapfork, program, folder)
        options_of_a_capture(heapfork, program, folder)
    with tempfile.TemporaryDirectory() as folder:
        # Records of our own: other captures of this user would reap, too.
        os.environ["XDG_RUNTIME_DIR"] = folder
        reap(heapfork, program, folder)


if __name__ == "__main__":
    main()
