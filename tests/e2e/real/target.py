"""A program under test: started, put under load, looked at from outside.

SPDX-License-Identifier: MIT

What a snapshot must not change is read from /proc before and after: threads,
descriptors, signal dispositions, children, tracer. Nothing here knows what
heapfork does inside.
"""
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

SKIP = 77
BIN = os.environ["HF_BIN"]  # the build folder
SOAK = os.environ.get("HF_SOAK", "") not in ("", "0")
NUM_SNAPSHOTS = 60 if SOAK else 20
DEADLINE = 60  # seconds until something that must happen has not


def skip(reason):
    print("skipped:", reason)
    sys.exit(SKIP)


def need(name):
    """The path of a program, or the test is skipped."""
    path = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if not path:
        skip("%s is not installed (scripts/setup core)" % name)
    return path


def check(holds, text):
    if not holds:
        raise AssertionError(text)


def wait_until(condition, text):
    end = time.monotonic() + DEADLINE
    while not condition():
        check(time.monotonic() < end, "waited in vain: " + text)
        time.sleep(0.005)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def stat_fields(pid):
    """State, parent, ... of a process, or None when it is gone."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def children(pid):
    """{pid: state} of all children, zombies too."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = stat_fields(int(name))
            if fields and int(fields[1]) == pid:
                found[int(name)] = fields[0]
    return found


def descriptors(pid):
    found = {}
    for name in os.listdir("/proc/%d/fd" % pid):
        try:
            found[name] = os.readlink("/proc/%d/fd/%s" % (pid, name))
        except FileNotFoundError:
            pass
    return found


def look(pid):
    """All that a snapshot must leave as it was."""
    with open("/proc/%d/status" % pid) as f:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in f
                      if ":\t" in line)
    return {
        "threads": sorted(os.listdir("/proc/%d/task" % pid)),
        "descriptors": descriptors(pid),
        "children": children(pid),
        "signals": [status[key] for key in
                    ("SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt")],
        "tracer": status["TracerPid"].strip(),
    }


class Target:
    """One program, running in a folder of its own."""

    def __init__(self, argv, env=None, stdin=None, stdout=None,
                 spawns=False, unknown_heap=False):
        self.folder = tempfile.mkdtemp(prefix="hf-real-")
        self.argv = argv
        self.env = dict(os.environ, **(env or {}))
        self.num_snapshots = 0
        self.stdin, self.stdout = stdin, stdout
        self.spawns = spawns
        self.unknown_heap = unknown_heap
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def start(self):
        argv = [arg.replace("@FOLDER@", self.folder) for arg in self.argv]
        self.process = subprocess.Popen(
            [BIN + "/examples/allow-ptrace"] + argv, env=self.env,
            cwd=self.folder, stdin=self.stdin or subprocess.DEVNULL,
            stdout=self.stdout or subprocess.DEVNULL)
        self.pid = self.process.pid

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass
        shutil.rmtree(self.folder)

    def command(self, pid=None):
        self.num_snapshots += 1
        path = "%s/%d.heap" % (self.folder, self.num_snapshots)
        return path, [BIN + "/heapfork", "snapshot", "-p",
                      str(pid or self.pid), "-o", path]

    def snapshot(self, pid=None):
        path, argv = self.command(pid)
        done = subprocess.run(argv, capture_output=True, text=True,
                              timeout=DEADLINE)
        if done.returncode == 4:
            skip("not allowed to trace: " + done.stderr)
        # A thread that waits in vfork() for its child cannot be stopped.
        # And of a heap that no reader knows, everything is missing.
        partial = self.unknown_heap or \
            self.spawns and done.returncode == 9
        if self.unknown_heap:
            check(done.returncode == 9, "exit code %d" % done.returncode)
        check(done.returncode == 0 or partial, "snapshot: exit code %d\n%s" %
              (done.returncode, done.stderr))
        snapshot = Snapshot(path, done.stderr)
        check(snapshot.snapshot_row("partial") == partial,
              "exit code %d, but partial is %d" %
              (done.returncode, snapshot.snapshot_row("partial")))
        return snapshot


class Snapshot:
    """The file, asked through a stock SQLite."""

    def __init__(self, path, said):
        self.path, self.said = path, said
        self.db = sqlite3.connect("file:%s?mode=ro" % path, uri=True)

    def rows(self, sql, *args):
        return self.db.execute(sql, args).fetchall()

    def value(self, sql, *args):
        return self.rows(sql, *args)[0][0]

    def snapshot_row(self, name):
        return self.value("SELECT %s FROM snapshot" % name)

    def unknown_share(self):
        return self.snapshot_row("unknown_bytes") / \
            self.snapshot_row("private_anon_bytes")

    def heap_bytes(self):
        return self.value("SELECT total(size_bytes) FROM object")


class Load:
    """Threads that ask until they are told to stop; each answer is checked.

    make_client(number) returns a function that makes one request and returns
    whether the answer was right.
    """

    def __init__(self, make_client, num_threads=3):
        self.make_client = make_client
        self.num_requests = 0
        self.failures = []
        self.stopping = threading.Event()
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.run, args=(i,))
                        for i in range(num_threads)]

    def run(self, number):
        try:
            ask = self.make_client(number)
            while not self.stopping.is_set():
                right = ask()
                time.sleep(0.0005)  # the machine has other work, too
                with self.lock:
                    self.num_requests += 1
                    if not right:
                        self.failures.append("wrong answer")
        except Exception as e:  # any failure of a client fails the test
            with self.lock:
                self.failures.append(repr(e))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        self.wait_for(50)
        return self

    def wait_for(self, more):
        goal = self.num_requests + more
        wait_until(lambda: self.num_requests >= goal or self.failures,
                   "%d more requests" % more)

    def __exit__(self, *_):
        self.stopping.set()
        for thread in self.threads:
            thread.join(DEADLINE)

    def check(self):
        check(not self.failures, "%d of %d requests failed: %s" % (
            len(self.failures), self.num_requests, self.failures[:3]))


def settle(pid):
    """Wait until the process looks the same for a while; returns the look."""
    seen = []
    wait_until(lambda: seen.append(look(pid)) or time.sleep(0.02) or
               len(seen) > 10 and all(s == seen[-1] for s in seen[-10:]),
               "process %d comes to rest" % pid)
    return seen[-1]


def snapshots_under_load(target, load, pid=None):
    """Take the snapshots while the load goes on; nothing else may change."""
    pid = pid or target.pid
    before = settle(pid)
    taken = []
    with load:
        for _ in range(NUM_SNAPSHOTS):
            taken.append(target.snapshot(pid))
            load.wait_for(10)
    load.check()
    after = settle(pid)
    for key in before:
        check(before[key] == after[key], "%s before: %s after: %s" %
              (key, before[key], after[key]))
    check("Z" not in after["children"].values(),
          "zombies: %s" % after["children"])
    print("%d snapshots, %d requests, pauses in ms: %s" % (
        len(taken), load.num_requests, " ".join(
            "%.1f" % (s.snapshot_row("pause_ns") / 1e6) for s in taken)))
    return taken
