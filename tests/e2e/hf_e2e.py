"""What the end-to-end tests share: victims, snapshots, rows.

SPDX-License-Identifier: MIT
"""
import atexit
import os
import sqlite3
import subprocess
import sys
import tempfile
import time


def fail(text):
    print("FAIL: " + text)
    sys.exit(1)


def check(condition, text):
    if not condition:
        fail(text)
    print("ok: " + text)


class Victim:
    """A victim program: started, read until it says it is ready, ended."""

    def __init__(self, argv, env=None):
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, **(env or {})})
        atexit.register(self.end)
        self.lines = []
        for line in self.process.stdout:
            self.lines.append(line.split())
            if self.lines[-1] == ["ready"]:
                break
        else:
            fail("%s ended before it was ready" % argv[0])

    def words(self, first):
        return [line[1:] for line in self.lines if line and line[0] == first]

    def wait_for_syscall(self, number):
        """Until the main thread waits in this system call."""
        for _ in range(1000):
            with open("/proc/%d/syscall" % self.pid) as file:
                if file.read().split()[0] == str(number):
                    return
            time.sleep(0.01)
        fail("the victim does not come to wait in call %d" % number)

    @property
    def pid(self):
        return self.process.pid

    def alive(self):
        return self.process.poll() is None

    def end(self):
        self.process.kill()
        self.process.wait()


def children(pid):
    """Direct children of a process, zombies too."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % entry) as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append((int(entry), fields[0]))
    return found


def threads(pid):
    return sorted(os.listdir("/proc/%d/task" % pid))


def descriptors(pid):
    return sorted(os.listdir("/proc/%d/fd" % pid))


class Snapshot:
    """A snapshot of a process, in a folder that goes with the object."""

    def __init__(self, heapfork, pid, options=(), prefix=()):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "a.heap")
        self.run = subprocess.run(
            [*prefix, heapfork, "snapshot", "-p", str(pid), "-o", self.path,
             *options],
            capture_output=True, text=True)
        if self.run.returncode not in (0, 9):
            fail("snapshot: exit %d: %s" % (self.run.returncode,
                                            self.run.stderr))
        self.db = sqlite3.connect("file:%s?mode=ro" % self.path, uri=True)

    def rows(self, sql, *params):
        return self.db.execute(sql, params).fetchall()

    def one(self, sql, *params):
        rows = self.rows(sql, *params)
        return rows[0] if rows else None

    def holder(self, object_id):
        """(kind, name) at the top of the dominator tree over an object."""
        while True:
            row = self.one(
                "SELECT o.idom, t.kind, t.name FROM object o "
                "JOIN type t ON t.id = o.type_id WHERE o.id = ?", object_id)
            if row[0] == 0:
                return row[1], row[2]
            object_id = row[0]
