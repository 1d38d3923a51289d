#!/usr/bin/env python3
"""heapfork snapshot --all-children: one file for each descendant, one table,
never two processes stopped at once.

usage: test_all_children.py HEAPFORK FAMILY

SPDX-License-Identifier: MIT
"""
import atexit
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

from hf_e2e import check, children


class Family:
    """The victim, in a process group of its own."""

    def __init__(self, program):
        self.process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, start_new_session=True)
        atexit.register(self.end)
        self.members = {}
        while len(self.members) < 5:
            words = self.process.stdout.readline().split()
            self.members[int(words[1])] = int(words[2])
        self.pid = self.process.pid

    def alive(self):
        return {pid for pid in self.members if state(pid) in "SRt"}

    def end(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait()


def state(pid):
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "gone"


def take(heapfork, pid, output, *options):
    run = subprocess.run(
        [heapfork, "snapshot", "-p", str(pid), "--all-children", "-o", output,
         "--json", *options], capture_output=True, text=True)
    return run, json.loads(run.stdout) if run.stdout else []


def objects(path):
    db = sqlite3.connect("file:%s?mode=ro" % path, uri=True)
    pid, = db.execute("SELECT pid FROM snapshot").fetchone()
    count, = db.execute("SELECT count(*) FROM object WHERE size_bytes "
                        "BETWEEN 333 AND 359").fetchone()
    return pid, count


class Watch(threading.Thread):
    """How many of some processes stood in a ptrace stop at the same time."""

    def __init__(self, pids):
        super().__init__()
        self.pids, self.most, self.over = pids, 0, False

    def run(self):
        while not self.over:
            self.most = max(self.most,
                            sum(state(pid) == "t" for pid in self.pids))
            time.sleep(0.001)


def every_member(heapfork, family, mode):
    with tempfile.TemporaryDirectory() as folder:
        watch = Watch(list(family.members))
        watch.start()
        run, rows = take(heapfork, family.pid, folder + "/", "--mode", mode)
        watch.over = True
        watch.join()
        check(run.returncode == 0, "%s: exit 0: %s" % (mode, run.stderr))
        check([row["pid"] for row in rows][0] == family.pid,
              "the process itself comes first")
        check({row["pid"] for row in rows} == set(family.members),
              "then each descendant, also of the second degree")
        check(watch.most <= 1, "never two stood at once (%s)" % watch.most)
        for row in rows:
            check(row["file"] == "%s/%d.heap" % (folder, row["pid"]),
                  "its file has a plain name: %s" % row["file"])
            pid, count = objects(row["file"])
            check(pid == row["pid"] and row["status"] == "ok" and
                  row["command"] == "victim_family" and row["pause_ms"] >= 0,
                  "its row is right: %s" % row)
            check(family.members[pid] <= count <= family.members[pid] + 300,
                  "%d: its objects are in its file: %d" % (pid, count))
        check(sorted(os.listdir(folder)) ==
              sorted("%d.heap" % pid for pid in family.members),
              "one file each, and no other")
        check("5 processes, 5 snapshots" in run.stderr, "one line says so")
        check(family.alive() == set(family.members), "all run on")


def one_fails(heapfork, family):
    with tempfile.TemporaryDirectory() as folder:
        pids = sorted(set(family.members) - {family.pid})
        blocked = os.path.join(folder, "w-%d.heap" % pids[1])
        with open(blocked, "w") as file:
            file.write("mine")
        run, rows = take(heapfork, family.pid,
                         os.path.join(folder, "w-%p.heap"))
        check(run.returncode == 9, "exit 9 if one fails: %d" % run.returncode)
        check("process %d 'victim_family': '%s' exists" %
              (pids[1], blocked) in run.stderr and "fix: " in run.stderr,
              "and what to do about it is told: %s" % run.stderr)
        status = {row["pid"]: row["status"] for row in rows}
        check("exists" in status[pids[1]], "its row says why: %s" %
              status[pids[1]])
        check(sum(text == "ok" for text in status.values()) == 4,
              "the others are done")
        with open(blocked) as file:
            check(file.read() == "mine", "what was there is there")


def one_ends(heapfork, family):
    with tempfile.TemporaryDirectory() as folder:
        mortal = max(pid for pid, _ in children(family.pid))
        tool = subprocess.Popen(
            [heapfork, "snapshot", "-p", str(family.pid), "--all-children",
             "-o", folder, "--json"], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        # The first is the largest: it takes the time that is needed here.
        while not os.listdir(folder):
            time.sleep(0.0005)
        os.kill(mortal, signal.SIGKILL)
        out, said = tool.communicate(timeout=60)
        status = {row["pid"]: row["status"] for row in json.loads(out)}
        check(tool.returncode == 0, "one that ends is no failure: %s" % said)
        check(status[mortal] == "ended" and "has ended, and was skipped" in
              said, "it is skipped with a note")
        check(sum(text == "ok" for text in status.values()) == 4,
              "the others are done")


def not_ourselves_and_no_frozen_child(heapfork, family):
    with tempfile.TemporaryDirectory() as folder:
        # A shell whose children are a process and the tool.
        run = subprocess.run(
            ["bash", "-c", 'sleep 60 & "$0" snapshot -p $$ --all-children '
             '--csv -o "$1"; code=$?; kill %1; exit $code', heapfork, folder],
            capture_output=True, text=True)
        names = sorted(line.split(",")[1]
                       for line in run.stdout.splitlines()[1:])
        check((run.returncode, names) == (0, ["bash", "sleep"]),
              "the tool is no descendant: %s %s %s" %
              (run.returncode, names, run.stderr))
        # The frozen child of another snapshot, held for as long as it takes.
        path = os.path.join(folder, "x.heap")
        other = subprocess.Popen(
            [heapfork, "snapshot", "-p", str(family.pid), "-o", path],
            stderr=subprocess.DEVNULL)
        frozen = set()
        while other.poll() is None and not frozen:
            frozen = {pid for pid, letter in children(family.pid)
                      if pid not in family.members and letter == "t"}
        os.kill(other.pid, signal.SIGSTOP)
        if frozen:
            run, rows = take(heapfork, family.pid, folder)
            check(not frozen & {row["pid"] for row in rows},
                  "a frozen child is no descendant: %s" % frozen)
        os.kill(other.pid, signal.SIGCONT)
        other.wait()


def nginx(heapfork, program):
    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, "nginx.conf")
        os.chmod(folder, 0o755)
        with open(config, "w") as file:
            file.write("""daemon off; master_process on; worker_processes 2;
error_log %(f)s/error.log; pid %(f)s/pid;
events { worker_connections 16; }
http { access_log off; client_body_temp_path %(f)s/a; proxy_temp_path %(f)s/b;
fastcgi_temp_path %(f)s/c; uwsgi_temp_path %(f)s/d; scgi_temp_path %(f)s/e;
server { listen unix:%(f)s/socket; } }
""" % {"f": folder})
        server = subprocess.Popen([program, "-c", config, "-p", folder],
                                  stderr=subprocess.DEVNULL)
        atexit.register(server.kill)
        while len(children(server.pid)) < 2:
            check(server.poll() is None, "nginx runs")
            time.sleep(0.01)
        run, rows = take(heapfork, server.pid, os.path.join(folder,
                                                            "w%n-%p.heap"))
        check(run.returncode == 0 and len(rows) == 3 and
              all(row["objects"] > 100 and row["command"] == "nginx"
                  for row in rows), "nginx: a master and two workers: %s %s" %
              (rows, run.stderr))
        server.terminate()
        check(server.wait() == 0, "nginx ends as it should")


def main():
    heapfork, program = sys.argv[1:3]
    family = Family(program)
    every_member(heapfork, family, "fork")
    every_member(heapfork, family, "stop")
    one_fails(heapfork, family)
    not_ourselves_and_no_frozen_child(heapfork, family)
    one_ends(heapfork, family)
    run, _ = take(heapfork, family.pid, "one.heap")
    check(run.returncode == 2 and "%p" in run.stderr,
          "the name of one file is refused")
    run, _ = take(heapfork, family.pid, "a-%p-%x.heap")
    check(run.returncode == 2, "an unknown letter, too")
    run, _ = take(heapfork, 2 ** 31 - 2, "a-%p.heap")
    check(run.returncode == 3, "a process that is not there: exit 3")
    family.end()
    if shutil.which("nginx"):
        nginx(heapfork, shutil.which("nginx"))
    else:
        print("nginx is not installed: left out")


main()
