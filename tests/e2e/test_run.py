#!/usr/bin/env python3
"""heapfork run: the program runs as if heapfork were not there, and snapshots
of it are taken when it is time.

usage: test_run.py HEAPFORK GROWER CONFINE

SPDX-License-Identifier: MIT
"""
import ctypes
import os
import pty
import select
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

from hf_e2e import check, children, fail


class Run:
    """heapfork run, with the grower as its program."""

    def __init__(self, heapfork, folder, options, program, **keywords):
        self.folder = folder
        self.tool = subprocess.Popen(
            [heapfork, "run", *options, "--", *program],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, cwd=folder, **keywords)
        self.said = {}
        self.arguments = []
        self.expect("ready")
        self.pid = int(self.said["pid"])

    def line(self):
        line = self.tool.stdout.readline()
        if not line:
            fail("the program ended: %s" % self.tool.stderr.read())
        return line.strip()

    def expect(self, wanted):
        while True:
            line = self.line()
            name, _, value = line.partition(" ")
            self.said[name] = value
            if name == "argument":
                self.arguments.append(value)
            if line == wanted:
                return

    def tell(self, text, answer=None):
        self.tool.stdin.write(text + "\n")
        self.tool.stdin.flush()
        if answer:
            self.expect(answer)

    def wait_for(self, name):
        path = os.path.join(self.folder, name)
        for _ in range(3000):
            if os.path.exists(path):
                return path
            time.sleep(0.01)
        return fail("%s never came: %s" % (name, os.listdir(self.folder)))

    def end(self, code=0):
        out, said = self.tool.communicate("exit %d\n" % code, timeout=60)
        self.rest = out
        self.errors = said
        return self.tool.returncode


def held(path):
    db = sqlite3.connect("file:%s?mode=ro" % path, uri=True)
    return db.execute("SELECT count(*) FROM object WHERE size_bytes "
                      "BETWEEN 333 AND 359 AND flags & 1").fetchone()[0]


def exit_codes(heapfork):
    def code(*argv, **keywords):
        return subprocess.run([heapfork, "run", *argv], capture_output=True,
                              text=True, **keywords)

    check(code("--", "sh", "-c", "exit 0").returncode == 0, "exit 0 is 0")
    check(code("--", "sh", "-c", "exit 77").returncode == 77, "77 is 77")
    check(code("sh", "-c", "exit 5").returncode == 5, "without --, too")
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV):
        run = code("--", "sh", "-c", "ulimit -c 0; kill -%d $$" % number)
        check(run.returncode == 128 + number, "%s is 128 + %d" %
              (number.name, number))
    run = code("--", "no-such-program-anywhere")
    check(run.returncode == 127 and "cannot run" in run.stderr,
          "a program that is not there: 127")
    check(code("--", "/etc/passwd").returncode == 126,
          "one that cannot be executed: 126")
    check(code("--", "/").returncode == 126, "a folder: 126")
    check(code().returncode == 2, "no program: 2")
    check(code("-o", "a.heap", "--", "true").returncode == 2,
          "one name for all: 2")
    check(code("-o", "a-%x.heap", "--", "true").returncode == 2,
          "an unknown letter: 2")
    run = code("--", "cat", input="through\n")
    check((run.stdout, run.stderr) == ("through\n", ""),
          "its input and output are its own, and we say nothing")
    run = code("--", "sh", "-c", "echo out; echo err >&2; ls /proc/self/fd")
    check(run.stdout.split() == ["out", "0", "1", "2", "3"] and
          run.stderr == "err\n", "it gets no descriptor of ours: %s" %
          run.stdout.split())


def beforehand(heapfork, confine, folder):
    """What would fail at each snapshot is told before the program starts."""
    started = os.path.join(folder, "started")

    def refused(code, words, *argv, by=()):
        run = subprocess.run([*by, heapfork, "run", *argv, "--", "touch",
                              started], capture_output=True, text=True,
                             cwd=folder)
        check(run.returncode == code and
              all(word in run.stderr for word in words),
              "%s: %d: %s" % (argv or by, run.returncode, run.stderr))
        check(not os.path.exists(started), "the program was not started")

    refused(2, ["'%z' means nothing", "%p is the pid"], "-o", "a-%z.heap")
    refused(10, ["no folder '/nonexist'", "fix:"], "-o", "/nonexist/%n.heap")
    with open(os.path.join(folder, "b-1.heap"), "w"):
        pass
    refused(2, ["'b-1.heap' exists"], "-o", "b-%n.heap")
    os.mkdir(os.path.join(folder, "c-1.heap"))
    refused(2, ["not a regular file"], "-o", "c-%n.heap", "--force")
    for what in "ptrace", "kill-ptrace":
        refused(4, ["seccomp filter on heapfork itself", "fix:"],
                by=[confine, what])
    run = subprocess.run([heapfork, "run", "-o", "b-%n.heap", "--force", "--",
                          "touch", started], cwd=folder)
    check(run.returncode == 0 and os.path.exists(started),
          "and nothing else is in the way")
    check(sorted(os.listdir(folder)) == ["b-1.heap", "c-1.heap", "started"],
          "nothing is left of the look")


def inheritance(heapfork, grower, folder):
    plain = subprocess.run([grower], input="", capture_output=True, text=True)
    words = dict(line.split(" ", 1) for line in plain.stdout.splitlines()
                 if " " in line)
    run = Run(heapfork, folder, [], [grower, "-q", "--", "--rss", "a b"])
    check(run.arguments == ["-q", "--", "--rss", "a b"],
          "its arguments are as given")
    check((run.said["ignores"], run.said["blocks"]) ==
          (words["ignores"], words["blocks"]),
          "its signal mask and dispositions, too")
    check(run.end() == 0, "it ends")

    def ignore():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)

    run = Run(heapfork, folder, [], [grower], preexec_fn=ignore,
              restore_signals=False)
    ignores = int(run.said["ignores"], 16)
    check(ignores >> (signal.SIGHUP - 1) & 1 and
          ignores >> (signal.SIGPIPE - 1) & 1,
          "what is ignored stays so (nohup)")
    check(run.end() == 0, "it ends")


def at_exit(heapfork, grower, folder):
    # However short it is.
    for i in range(5):
        path = os.path.join(folder, "short-%d.heap" % i)
        run = subprocess.run([heapfork, "run", "--at-exit", "-o", path, "--",
                              "/bin/true"], capture_output=True, text=True)
        check(run.returncode == 0 and os.path.exists(path),
              "a program that ends at once: %s" % run.stderr)
    run = subprocess.run([heapfork, "run", "--at-exit", "-o", "none.heap",
                          "--", "/no/such/program"], capture_output=True,
                         text=True, cwd=folder)
    check(run.returncode == 127 and "snapshot" not in run.stderr,
          "one that is not there: %s" % run.stderr)
    run = Run(heapfork, folder, ["--at-exit", "-o", "e-%p.heap"], [grower])
    run.tell("hold 1234", "held 1234")
    check(run.end(5) == 5, "at exit: the exit code")
    path = os.path.join(folder, "e-%d.heap" % run.pid)
    check(os.path.exists(path), "a snapshot at its end: %s" % run.errors)
    check(held(path) == 1234, "all that it held at its exit: %d" % held(path))
    db = sqlite3.connect("file:%s?mode=ro" % path, uri=True)
    check(db.execute("SELECT source, partial FROM snapshot").fetchone() ==
          ("stop", 0), "it stood, and the snapshot is whole")
    # By a signal, after an exec, with another snapshot before.
    run = Run(heapfork, folder, ["--at-exit", "--on-signal", "USR1"],
              [grower])
    run.tell("hold 10", "held 10")
    run.tell("exec", "ready")
    run.tell("hold 77", "held 77")
    run.tool.send_signal(signal.SIGUSR1)
    check(held(run.wait_for("victim_grower-%d-1.heap" % run.pid)) == 77,
          "on the signal")
    run.tell("hold 3", "held 80")
    os.kill(run.pid, signal.SIGSEGV)
    run.tool.stdin.close()
    check(run.tool.wait(60) == 128 + signal.SIGSEGV, "the signal is told")
    check(held(run.wait_for("victim_grower-%d-2.heap" % run.pid)) == 80,
          "and what it held when it came")


def signals(heapfork, grower, folder, *options):
    run = Run(heapfork, folder, options, [grower])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP,
                   signal.SIGQUIT, signal.SIGUSR1, signal.SIGALRM,
                   signal.SIGWINCH, signal.SIGABRT):
        run.tool.send_signal(number)
        run.expect("signal %d" % number)
    check(run.tool.poll() is None, "signals are sent on, and nothing else")
    libc = ctypes.CDLL(None)
    check(libc.sigqueue(run.tool.pid, signal.SIGRTMIN,
                        ctypes.c_void_p(4711)) == 0, "sigqueue")
    run.expect("value 4711")
    check(run.tool.poll() is None, "one of real time has its value")
    # While a snapshot is taken, as well.
    run.tell("hold 60000", "held 60000")
    run.tool.send_signal(signal.SIGUSR2)
    while not children(run.pid):
        time.sleep(0.0005)
    for number in (signal.SIGTERM, signal.SIGUSR1):
        run.tool.send_signal(number)
        run.expect("signal %d" % number)
    path = run.wait_for("victim_grower-%d-1.heap" % run.pid)
    check(held(path) == 60000, "the snapshot is taken all the same: %d" %
          held(path))
    check(run.end(3) == 3, "the exit code is the program's")
    check("signal" not in run.rest, "SIGUSR2 was ours")
    # Not for us, and nobody's who does not ask for it.
    run = Run(heapfork, folder, ["--rss", "10G"], [grower])
    run.tool.send_signal(signal.SIGUSR2)
    run.expect("signal %d" % signal.SIGUSR2)
    check(run.end() == 0, "with --rss alone SIGUSR2 is the program's")
    # We die, it lives.
    run = Run(heapfork, folder, [], [grower])
    run.tool.kill()
    run.tool.wait()
    run.tell("hold 3", "held 3")
    os.kill(run.pid, signal.SIGKILL)


def on_signal(heapfork, grower, folder):
    run = Run(heapfork, folder, ["-o", "s-%p-%n-%%.heap", "--on-signal",
                                 "SIGUSR1"], [grower])
    for number, count in ((1, 100), (2, 250)):
        run.tell("hold %d" % (count - (100 if number == 2 else 0)),
                 "held %d" % count)
        run.tool.send_signal(signal.SIGUSR1)
        path = run.wait_for("s-%d-%d-%%.heap" % (run.pid, number))
        check(held(path) == count, "snapshot %d has its %d objects" %
              (number, count))
    run.tell("exec", "ready")
    run.tell("hold 40", "held 40")
    run.tool.send_signal(signal.SIGUSR1)
    path = run.wait_for("s-%d-3-%%.heap" % run.pid)
    check(held(path) == 40, "after an exec, too: %d" % held(path))
    with open(os.path.join(folder, "s-%d-4-%%.heap" % run.pid), "w"):
        pass
    run.tool.send_signal(signal.SIGUSR1)
    run.tool.send_signal(signal.SIGTERM)
    run.expect("signal %d" % signal.SIGTERM)
    time.sleep(0.1)
    check(run.end(9) == 9, "a failure of ours is not the program's")
    check("exists" in run.errors, "but it is told: %s" % run.errors)


def on_threshold(heapfork, grower, folder):
    run = Run(heapfork, folder, ["--rss", "60M", "-o", "r-%n.heap", "-q"],
              [grower])
    run.tell("hold 500", "held 500")
    time.sleep(0.4)
    check(not os.path.exists(os.path.join(folder, "r-1.heap")),
          "below the threshold nothing happens")
    run.tell("fill 80", "filled")
    check(held(run.wait_for("r-1.heap")) == 500, "above there is a snapshot")
    time.sleep(0.4)
    check(not os.path.exists(os.path.join(folder, "r-2.heap")),
          "one for each crossing")
    run.tell("drop", "dropped")
    time.sleep(0.4)
    run.tell("fill 80", "filled")
    run.wait_for("r-2.heap")
    check(run.end(0) == 0 and run.errors == "", "-q: nothing is said: %s" %
          run.errors)


def state(pid):
    with open("/proc/%d/stat" % pid) as file:
        return file.read().rsplit(")", 1)[1].split()[0]


def wait_state(pid, wanted):
    for _ in range(3000):
        if state(pid) == wanted:
            return
        time.sleep(0.001)
    fail("process %d is %s, not %s" % (pid, state(pid), wanted))


def read_until(fd, text):
    got = ""
    while text not in got:
        if not select.select([fd], [], [], 20)[0]:
            fail("no %r on the terminal: %r" % (text, got))
        got += os.read(fd, 4096).decode()
    return got


def signals_before_the_exit(heapfork, grower, folder):
    signals(heapfork, grower, folder, "--at-exit", "--on-signal", "USR2")


def on_a_terminal(heapfork, grower, folder):
    """Job control and Ctrl-C: the program has each once."""
    shell, fd = pty.fork()
    if shell == 0:
        os.chdir(folder)
        os.execlp("bash", "bash", "--norc", "--noprofile", "-i")
    os.write(fd, ("PS1='$ '; stty -echo\n'%s' run -- '%s'\n" %
                  (heapfork, grower)).encode())
    got = read_until(fd, "ready")
    pid = int(got.split("pid ")[-1].split()[0])
    tool = int(open("/proc/%d/stat" % pid).read().rsplit(")", 1)[1].split()[1])
    check(os.getpgid(pid) == os.getpgid(tool), "it is in our process group")
    os.write(fd, b"\x03")
    read_until(fd, "signal 2")
    os.write(fd, b"hold 5\n")
    got = read_until(fd, "held 5")
    check("signal" not in got, "Ctrl-C comes once: %r" % got)
    os.write(fd, b"\x1a")
    wait_state(pid, "T")
    wait_state(tool, "T")
    read_until(fd, "Stopped")
    check(True, "Ctrl-Z stops both")
    os.write(fd, b"fg\n")
    wait_state(pid, "S")
    os.write(fd, b"hold 5\n")
    read_until(fd, "held 10")
    os.write(fd, b"exit 44\n")
    read_until(fd, "$ ")
    os.write(fd, b"echo code-$?\n")
    read_until(fd, "code-44")
    check(True, "fg goes on, and the shell learns the exit code")
    os.write(fd, b"exit\n")
    os.close(fd)
    os.waitpid(shell, 0)


def main():
    heapfork, grower, confine = sys.argv[1:4]
    exit_codes(heapfork)
    with tempfile.TemporaryDirectory() as folder:
        beforehand(heapfork, confine, folder)
    for test in (inheritance, signals, on_signal, on_threshold, on_a_terminal,
                 at_exit, signals_before_the_exit):
        with tempfile.TemporaryDirectory() as folder:
            test(heapfork, grower, folder)


main()
