"""The programs of the soak: started, at work, at rest, with their own checks.

SPDX-License-Identifier: MIT
"""
import glob
import os
import pwd
import shutil
import subprocess
import threading

import programs
from clients import Lines, http_client, listening, redis_client
from target import (BIN, DEADLINE, Load, Target, check, children, free_port,
                    wait_until)

HERE = os.path.dirname(os.path.abspath(__file__))
PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"


class Missing(Exception):
    """A program is not installed, or must not be traced by us."""


def need(name, package):
    path = shutil.which(name, path=PATH)
    if not path:
        raise Missing("%s is not installed (Debian: %s)" % (name, package))
    return path


class Program:
    """To add one: these methods, and a line in PROGRAMS."""

    num_checks = 0     # requests answered, and results compared, all right
    exact_fds = True   # at rest the same descriptors, not only as many
    memory_slack = 8 << 20  # at rest it may be so much larger than before
    in_core = True     # scripts/setup core installs it: in CI it must run

    def start(self):
        """Make it ready to work."""

    def pids(self):
        """Processes to take snapshots of, now."""
        return [self.target.pid]

    def watched(self):
        """Those of them that must be the same at rest."""
        return [self.target.pid]

    def is_cache(self, path):
        """A descriptor of this file may come and go at rest."""
        return False

    def is_pooled(self, thread):
        """A thread of this name may come and go at rest."""
        return False

    def work(self):
        """Put it under load, in the background."""

    def rest(self):
        """End the load, and check what it did. Raises AssertionError."""

    def finish(self):
        """End the program, with its last checks."""

    def cleanup(self):
        """After finish, and after failures."""
        self.target.__exit__()


class SelfChecking(Program):
    """A program that speaks the protocol of check.py."""

    def run(self, argv, env=None):
        self.target = Target(argv, env=env, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)
        self.target.start()
        self.lines = Lines.to_process(self.target.process)

    def work(self):
        self.lines.write_file.write(b"work\n")
        self.lines.write_file.flush()

    def rest(self):
        answer = self.lines.ask("rest")[0].split(None, 3)
        check(len(answer) == 4 and answer[0] == "resting",
              "it says %r, and ended with %s" %
              (answer, self.target.process.poll()))
        check(answer[2] == "0", "%s of %s of its checks failed, the last: %s" %
              (answer[2], answer[1], answer[3]))
        check(int(answer[1]) > self.num_checks, "it did nothing")
        self.num_checks = int(answer[1])

    def finish(self):
        self.target.process.stdin.close()
        code = self.target.process.wait(DEADLINE)
        check(code == 0, "it exits with %d" % code)


class Python(SelfChecking):
    """Threads, subprocesses, fork, an event loop, a timer's signals."""

    def start(self):
        self.run([need("python3", "python3"), HERE + "/check.py"])


class Node(SelfChecking):
    """Timers, child processes, worker threads, requests to itself."""

    in_core = False
    memory_slack = 64 << 20  # its heap follows the load

    def start(self):
        self.run([need("node", "nodejs"), "--expose-gc", HERE + "/check.js"])


class Java(SelfChecking):
    """The collector at work, threads, child processes, timers."""

    # What it collects closes its descriptors when it likes to.
    exact_fds = False
    in_core = False

    def is_pooled(self, thread):
        # As many as there were child processes, or tasks, at one time.
        return thread.startswith(("process reaper", "ForkJoinPool"))

    def start(self):
        need("javac", "default-jdk-headless")
        # (A fixed number of threads: they are compared.)
        self.run([need("java", "default-jdk-headless"), "-Xms128m",
                  "-Xmx128m", "-XX:+AlwaysPreTouch",
                  "-XX:-UseDynamicNumberOfCompilerThreads",
                  "-XX:-UseDynamicNumberOfGCThreads", HERE + "/Check.java"])


class Nginx(Program):
    """The worker and the master, under GET requests."""

    def start(self):
        self.port = free_port()
        self.target = Target([need("nginx", "nginx"), "-p", "@FOLDER@", "-e",
                              "@FOLDER@/error.log", "-c",
                              "@FOLDER@/nginx.conf"])
        folder = self.target.folder
        self.page = b"".join(b"line %d\n" % i for i in range(2000))
        with open(folder + "/page.txt", "wb") as f:
            f.write(self.page)
        with open(folder + "/nginx.conf", "w") as f:
            f.write((programs.NGINX % {
                "port": self.port,
                "user": "user root;" if os.geteuid() == 0 else "",
            }).replace("@FOLDER@", folder))
        self.target.start()
        listening(self.port)
        self.worker, = children(self.target.pid)

    def pids(self):
        return [self.worker, self.worker, self.worker, self.target.pid]

    def watched(self):
        return [self.worker, self.target.pid]

    def work(self):
        self.load = Load(lambda number: http_client(
            self.port, "/page.txt", self.page, keep=number > 0))
        self.load.__enter__()

    def rest(self):
        self.load.__exit__()
        self.load.check()
        self.num_checks += self.load.num_requests

    def finish(self):
        check(list(children(self.target.pid)) == [self.worker],
              "the master lost its worker, or has another")
        with open(self.target.folder + "/error.log") as f:
            said = f.read()
        check(not said, "nginx complains: " + said[-300:])
        self.target.process.terminate()
        code = self.target.process.wait(DEADLINE)
        check(code == 0, "it exits with %d" % code)


class Runs:
    """A client program, run again and again until it is told to stop; each
    run must end well."""

    def __init__(self, argv, judge, cwd, user=None):
        self.argv, self.judge, self.cwd = argv, judge, cwd
        self.user = user
        self.num_right, self.failures = 0, []
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.loop, daemon=True)
        self.thread.start()

    def loop(self):
        while not self.stopping.is_set():
            try:
                run = subprocess.run(self.argv, capture_output=True, text=True,
                                     cwd=self.cwd, user=self.user,
                                     stdin=subprocess.DEVNULL, timeout=600)
                check(run.returncode == 0, "%s exits with %d: %s" % (
                    self.argv[0], run.returncode,
                    (run.stderr or run.stdout)[-300:]))
                self.num_right += self.judge(run.stdout)
            except (AssertionError, subprocess.TimeoutExpired) as e:
                self.failures.append(str(e))
                return

    def stop(self):
        self.stopping.set()
        self.thread.join(DEADLINE * 2)
        check(not self.thread.is_alive(), "%s does not end" % self.argv[0])
        check(not self.failures, "; ".join(self.failures))
        return self.num_right


class Redis(Program):
    """redis-benchmark, clients that check what they read, and background
    saves: forks of its own."""

    def start(self):
        self.port = free_port()
        self.benchmark = need("redis-benchmark", "redis-tools")
        self.target = Target([need("redis-server", "redis-server"), "--port",
                              str(self.port), "--bind", "127.0.0.1", "--save",
                              "", "--dir", "@FOLDER@"])
        self.target.start()
        listening(self.port)
        self.lines = Lines.to_port(self.port)
        # The buffers of all connections are there before the first look.
        for i in range(20000):
            check(self.lines.ask("SET filler-%d value-of-the-filler-%d\r" %
                                 (i, i)) == ["+OK"], "SET")

    def work(self):
        def judge(said):
            lines = [line for line in said.splitlines() if "requests" in line]
            check(len(lines) >= 4, "redis-benchmark says " + said[-300:])
            return 4 * 5000
        self.runs = Runs([self.benchmark, "-p", str(self.port), "-q", "-t",
                          "set,get,incr,lpush", "-n", "5000", "-c", "10",
                          "-r", "1000", "-d", "100"], judge,
                         self.target.folder)
        self.load = Load(lambda number: redis_client(self.port, number))
        self.load.__enter__()
        self.saves = Load(lambda _: self.save, num_threads=1)
        self.saves.threads[0].start()

    def save(self):
        """A background save, to its end: it must succeed."""
        said = self.lines.ask("BGSAVE\r")[0]
        if not said.startswith("+Background saving"):
            return False
        while "rdb_bgsave_in_progress:1" in self.info():
            if self.saves.stopping.wait(0.1):
                break
        wait_until(lambda: "rdb_bgsave_in_progress:0" in self.info(),
                   "the background save ends")
        return "rdb_last_bgsave_status:ok" in self.info()

    def info(self):
        size = int(self.lines.ask("INFO persistence\r")[0][1:])
        with self.lines.lock:
            text = self.lines.read_file.read(size + 2)
        return text.decode()

    def rest(self):
        for load in self.load, self.saves:
            load.__exit__()
            load.check()
            self.num_checks += load.num_requests
        self.num_checks += self.runs.stop()
        check(self.saves.num_requests > 0, "no background save")
        # The list that LPUSH made long would hide what a snapshot costs.
        check(self.lines.ask("DEL mylist\r")[0][0] == ":", "DEL")

    def finish(self):
        check(self.lines.ask("GET filler-7\r", 2)[1] ==
              "value-of-the-filler-7", "a filler was lost")
        self.target.process.terminate()
        code = self.target.process.wait(DEADLINE)
        check(code == 0, "it exits with %d" % code)


class PostgreSQL(Program):
    """pgbench, and a session with known answers; backends, writers, the
    postmaster."""

    right = None  # what the session must answer

    def start(self):
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"))
        if not found:
            raise Missing("PostgreSQL is not installed (Debian: postgresql)")
        self.bin = os.path.dirname(found[-1]) + "/"
        need(self.bin + "pgbench", "postgresql")
        # It refuses to run as root.
        self.user = None
        if os.geteuid() == 0:
            self.user = "postgres"
            try:
                self.uid = pwd.getpwnam("postgres")
            except KeyError:
                raise Missing("there is no user postgres") from None
        self.port = free_port()
        self.target = Target([], env={"LC_ALL": "C"})
        folder = self.target.folder
        if self.user:
            os.chown(folder, self.uid.pw_uid, self.uid.pw_gid)
        self.tool("initdb", "-D", folder + "/data", "-A", "trust", "-U",
                  "soak", "--no-sync")
        argv = [self.bin + "postgres", "-D", folder + "/data", "-k", folder,
                "-p", str(self.port), "-c", "listen_addresses=", "-c",
                "fsync=off", "-c", "shared_buffers=32MB", "-c",
                "autovacuum=off", "-c", "logging_collector=off"]
        if self.user:
            argv = [need("setpriv", "util-linux"), "--reuid", self.user,
                    "--regid", str(self.uid.pw_gid), "--clear-groups"] + argv
        self.target.argv = argv
        self.log = open(folder + "/log", "wb")
        self.target.process = subprocess.Popen(
            [BIN + "/examples/allow-ptrace"] + argv, cwd=folder,
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.target.pid = self.target.process.pid
        wait_until(lambda: os.path.exists("%s/.s.PGSQL.%d" %
                                          (folder, self.port)) and
                   self.is_ready(), "PostgreSQL is ready")
        self.tool("createdb", *self.where(), "soak")
        self.tool("pgbench", *self.where(), "-i", "-q", "-s", "2", "soak")
        # A session of our own: its backend stays all the time.
        self.session = subprocess.Popen(
            [self.bin + "psql", *self.where(), "-qAtX", "soak"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.lines = Lines.to_process(self.session)
        self.backend = int(self.lines.ask("SELECT pg_backend_pid();")[0])
        check(self.ask_session(), "the session answers %s" % self.right)

    def where(self):
        return ["-h", self.target.folder, "-p", str(self.port), "-U", "soak"]

    def tool(self, name, *args):
        return subprocess.run([self.bin + name, *args], check=True,
                              user=self.user, cwd=self.target.folder,
                              capture_output=True, text=True,
                              env=self.target.env).stdout

    def is_ready(self):
        return subprocess.run([self.bin + "pg_isready", *self.where()],
                              capture_output=True).returncode == 0

    def pids(self):
        backends = list(children(self.target.pid))
        return [self.backend, self.target.pid] + backends

    def watched(self):
        return [self.backend, self.target.pid]

    def is_cache(self, path):
        # Backends keep the files of relations open.
        return path.startswith(self.target.folder + "/data/")

    def ask_session(self):
        """Sorting, hashing, and sums. The first answer is the right one: it
        is asked before the first snapshot."""
        answer = self.lines.ask(
            "SELECT sum(n), count(DISTINCT n % 100), max(md5(n::text)) "
            "FROM generate_series(1, 5000) n;")
        if not self.right:
            self.right = answer
        return answer == self.right and answer[0].startswith("12502500|100|")

    def work(self):
        def judge(said):
            fields = dict(line.split(": ", 1) for line in said.splitlines()
                          if ": " in line)
            failed = fields.get("number of failed transactions", "0 (0.000%)")
            check(failed.startswith("0 "), "pgbench: %s failed" % failed)
            return int(fields["number of transactions actually processed"])
        self.runs = Runs([self.bin + "pgbench", *self.where(), "-n", "-c", "4",
                          "-j", "1", "-T", "2", "soak"], judge,
                         self.target.folder, self.user)
        self.load = Load(lambda _: self.ask_session, num_threads=1)
        self.load.threads[0].start()

    def rest(self):
        self.load.__exit__()
        self.load.check()
        self.num_checks += self.load.num_requests + self.runs.stop()
        # What pgbench did is right if its sums are.
        sums = self.lines.ask(
            "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = s AND "
            "(SELECT sum(tbalance) FROM pgbench_tellers) = s AND "
            "(SELECT sum(bbalance) FROM pgbench_branches) = s "
            "FROM (SELECT sum(delta) AS s FROM pgbench_history) x;")
        check(sums == ["t"], "the balances do not agree: %s" % sums)
        # Backends of pgbench end.
        wait_until(lambda: len(self.backends()) == 1, "pgbench's are gone")

    def backends(self):
        names = []
        for pid in children(self.target.pid):
            try:
                with open("/proc/%d/cmdline" % pid) as f:
                    names.append(f.read())
            except OSError:
                pass
        return [n for n in names if "[local]" in n]

    def finish(self):
        self.session.communicate(b"\\q\n", timeout=DEADLINE)
        self.target.process.terminate()
        code = self.target.process.wait(DEADLINE)
        check(code == 0, "it exits with %d" % code)
        self.log.close()
        with open(self.target.folder + "/log") as f:
            for line in f:
                check("terminated by signal" not in line and
                      "PANIC" not in line and "server process" not in line,
                      "its log says: " + line)

    def cleanup(self):
        if hasattr(self, "session") and self.session.poll() is None:
            self.session.kill()
            self.session.wait()
        if self.target.process:
            if self.target.process.poll() is None:
                self.target.process.terminate()
            self.target.__exit__()
        else:
            shutil.rmtree(self.target.folder)


PROGRAMS = {
    "python": Python,
    "node": Node,
    "java": Java,
    "nginx": Nginx,
    "postgresql": PostgreSQL,
    "redis": Redis,
}
