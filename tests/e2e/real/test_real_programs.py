#!/usr/bin/python3
"""Unmodified programs of Debian, snapshot while they work.

SPDX-License-Identifier: MIT

usage: HF_BIN=build/dev test_real_programs.py CASE

Each case starts a program under load, takes snapshots, and checks that no
request failed, that nothing about the process changed, that the program's own
data is right, and that the snapshot says of it what is true.
"""
import os
import signal
import subprocess
import sys

import programs
from account_cases import case_perl_account, case_python_account
from clients import (Lines, http_client, listening, memcached_client,
                     redis_client)
from target import (BIN, DEADLINE, Load, Target, check, children, free_port,
                    need, snapshots_under_load, stat_fields, wait_until)

UNREACHABLE = """SELECT count(*), total(size_bytes) FROM object
    WHERE root_distance IS NULL AND size_bytes > 0"""


def python_server(allocator):
    """The server of programs.PYTHON, and clients that put, ask and spawn."""
    port = free_port()
    target = Target([need("python3"), "-c", programs.PYTHON, str(port)],
                    env={"PYTHONMALLOC": allocator}, spawns=True)

    def make_client(number):
        lines = Lines.to_port(port)
        count = [0]

        def ask():
            count[0] += 1
            entry = count[0] * 7 % 20000
            if number == 0 and count[0] % 10 == 0:
                return lines.ask("spawn") == ["ok"]
            return lines.ask("put %d" % entry) == ["ok"] and \
                lines.ask("len %d" % entry) == [str(700 + entry % 8)]
        return ask
    return target, port, Load(make_client)


def run_python(allocator):
    target, port, load = python_server(allocator)
    with target:
        listening(port)
        taken = snapshots_under_load(target, load)
        # ("spawn" children do send SIGCHLD: the program knows how many.)
        entries, spawned, sigchld = Lines.to_port(port).ask("count")[0].split()
        check(entries == "20000", "%s entries" % entries)
        check(int(sigchld) <= int(spawned), "%s SIGCHLD for %s children" %
              (sigchld, spawned))
        return taken


def case_python_malloc():
    """Every object comes from malloc, and is held by something."""
    for snapshot in run_python("malloc"):
        count = snapshot.value("SELECT count(*) FROM object "
                               "WHERE size_bytes > 0")
        check(count > 60000, "only %d objects" % count)
        check(snapshot.unknown_share() < 0.2, "%.0f %% unknown" %
              (100 * snapshot.unknown_share()))
        lost, lost_bytes = snapshot.rows(UNREACHABLE)[0]
        check(lost < count / 100, "%d of %d unreachable" % (lost, count))


def case_python_default():
    """Values come from malloc, what holds them from pools: none is lost."""
    for snapshot in run_python("default"):
        # 33 bytes of header, 700 to 707 of value, and one NUL
        values = "size_bytes BETWEEN 728 AND 776"
        count = snapshot.value("SELECT count(*) FROM object WHERE " + values)
        check(count >= 20000, "only %d values" % count)
        lost = snapshot.value("SELECT count(*) FROM object WHERE "
                              "root_distance IS NULL AND " + values)
        # A value that a thread was just putting or dropping may be seen
        # in between: one for each thread.
        check(lost <= 3, "%d of %d values unreachable" % (lost, count))
        check(snapshot.unknown_share() > 0.02,
              "pools must count as unknown memory")


def run_pipe(argv, num_lines=1):
    """A program that reads lines and answers them: lua, perl."""
    target = Target(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with target:
        lines = Lines.to_process(target.process)
        check(lines.ask("count 0") == ["5000"], "the program starts wrong")

        def make_client(number):
            count = [0]

            def ask():
                count[0] += 1
                entry = count[0] * 7 % 5000 + 1
                return lines.ask("put %d" % entry) == ["ok"] and \
                    lines.ask("get %d" % entry) == \
                    ["entry %d %d" % (entry, entry + 1)]
            return ask
        taken = snapshots_under_load(target, Load(make_client))
        check(lines.ask("count 0") == ["5000"], "entries were lost")
        return taken


def check_interpreter(taken, at_least):
    for snapshot in taken:
        count = snapshot.value("SELECT count(*) FROM object "
                               "WHERE size_bytes > 0")
        check(count >= at_least, "only %d objects" % count)
        lost, lost_bytes = snapshot.rows(UNREACHABLE)[0]
        check(lost < count / 100, "%d of %d objects (%d bytes) unreachable" %
              (lost, count, lost_bytes))


def case_lua():
    """5000 tables in a table, each with a string and a table."""
    check_interpreter(run_pipe([need("lua5.4"), "-e", programs.LUA]), 15000)


def case_perl():
    """5000 hashes in a hash, each with a string and an array."""
    check_interpreter(run_pipe([need("perl"), "-e", programs.PERL]), 25000)


def case_gdb():
    """A debugger with symbols loaded, which evaluates expressions."""
    target = Target([need("gdb"), "-q", "-nx", "-iex", "set auto-load no",
                     "-ex", "set prompt", "-ex", "set confirm off", "-ex",
                     r"echo \nready\n", BIN + "/examples/session-service"],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with target:
        while target.process.stdout.readline() != b"ready\n":
            check(target.process.poll() is None, "gdb ended")
        lines = Lines.to_process(target.process)
        check_interpreter(snapshots_under_load(target, Load(
            lambda number: lambda: lines.ask(
                r'printf "%%d\n", %d * sizeof(long)' % number) ==
            [str(number * 8)])), 5000)
        target.process.communicate(b"quit\n", timeout=DEADLINE)


def case_git():
    """git cat-file --batch, on a small repository of its own."""
    git = need("git")
    target = Target([git, "cat-file", "--batch"],
                    env={"HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"},
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for number in range(200):
        with open("%s/%d" % (target.folder, number), "w") as f:
            f.write("this is %d\n" % number)
    for words in (["init", "-q"], ["add", "."],
                  ["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm",
                   "200 files"]):
        subprocess.run([git] + words, cwd=target.folder, env=target.env,
                       check=True)
    with target:
        lines = Lines.to_process(target.process)

        def make_client(number):
            count = [0]

            def ask():
                count[0] += 1
                head, text, end = lines.ask("HEAD:%d" % (count[0] % 200), 3)
                return head.split()[1] == "blob" and end == "" and \
                    text == "this is %d" % (count[0] % 200)
            return ask
        check_interpreter(snapshots_under_load(target, Load(make_client)), 100)


def case_sqlite3():
    """The shell with a database in memory: pages and a page cache."""
    target = Target([need("sqlite3"), "-batch", ":memory:"],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with target:
        lines = Lines.to_process(target.process)
        question = programs.SQL + "SELECT count(*), sum(number) FROM entry;"
        check(lines.ask(question) == ["20000|200010000"], "a wrong start")

        def make_client(number):
            count = [0]

            def ask():
                count[0] += 1
                entry = count[0] * 7 % 20000 + 1
                return lines.ask(
                    "UPDATE entry SET name = 'entry %d' WHERE number = %d;"
                    " SELECT name FROM entry WHERE number = %d;" %
                    (entry, entry, entry)) == ["entry %d" % entry]
            return ask
        for snapshot in snapshots_under_load(target, Load(make_client)):
            check(snapshot.heap_bytes() > 400000, "the pages are missing")
            lost, lost_bytes = snapshot.rows(UNREACHABLE)[0]
            check(lost_bytes < snapshot.heap_bytes() / 20,
                  "%d bytes unreachable" % lost_bytes)
        check(lines.ask("SELECT count(*), sum(number) FROM entry; "
                        "PRAGMA integrity_check;", 2) ==
              ["20000|200010000", "ok"], "the database was damaged")


def case_nginx():
    """The worker, while it serves a file on kept and on fresh connections."""
    port = free_port()
    target = Target([need("nginx"), "-p", "@FOLDER@", "-e",
                     "@FOLDER@/error.log", "-c", "@FOLDER@/nginx.conf"])
    page = b"".join(b"line %d\n" % i for i in range(2000))
    with open(target.folder + "/page.txt", "wb") as f:
        f.write(page)
    with open(target.folder + "/nginx.conf", "w") as f:
        f.write((programs.NGINX % {
            "port": port,
            "user": "user root;" if os.geteuid() == 0 else "",
        }).replace("@FOLDER@", target.folder))
    with target:
        listening(port)
        worker, = children(target.pid)
        load = Load(lambda number: http_client(port, "/page.txt", page,
                                               keep=number > 0))
        for snapshot in snapshots_under_load(target, load, pid=worker):
            check(snapshot.heap_bytes() > 50000, "the pools are missing")
        check(list(children(target.pid)) == [worker],
              "the master lost its worker, or has another")


def case_memcached():
    """Four threads that wait for events, while keys are set and read."""
    port = free_port()
    target = Target([need("memcached"), "-l", "127.0.0.1", "-p", str(port),
                     "-U", "0", "-t", "4", "-m", "64", "-u", "root"])
    with target:
        listening(port)
        load = Load(lambda number: memcached_client(port, number))
        for snapshot in snapshots_under_load(target, load):
            # Items live in pages of 1 MiB each.
            pages = snapshot.value("SELECT count(*) FROM object "
                                   "WHERE size_bytes >= 1048576")
            check(pages > 0, "the slab pages are missing")
            lost, lost_bytes = snapshot.rows(UNREACHABLE)[0]
            check(lost_bytes < snapshot.heap_bytes() / 100,
                  "%d bytes unreachable" % lost_bytes)


def case_redis():
    """Debian's uses jemalloc: unknown memory, and no invented objects."""
    port = free_port()
    target = Target([need("redis-server"), "--port", str(port), "--bind",
                     "127.0.0.1", "--save", "", "--dir", "@FOLDER@"],
                    unknown_heap=True)
    with target:
        listening(port)
        lines = Lines.to_port(port)
        for i in range(20000):
            lines.ask("SET filler-%d value-of-the-filler-%d\r" % (i, i))
        load = Load(lambda number: redis_client(port, number))
        for snapshot in snapshots_under_load(target, load):
            check(snapshot.unknown_share() > 0.5, "only %.0f %% unknown" %
                  (100 * snapshot.unknown_share()))
            for word in ("no allocator that heapfork knows", "cause:",
                         "fix:", "%.1f %%" % (100 * snapshot.unknown_share())):
                check(word in snapshot.said, "'%s' is not in: %s" %
                      (word, snapshot.said))
            check(snapshot.rows("SELECT value, ok FROM certificate WHERE "
                                "item = 'heap readers'") ==
                  [("none found a heap", 0)], "the certificate is silent")
            leaks = subprocess.run([BIN + "/heapfork", "leaks", snapshot.path],
                                   capture_output=True, text=True)
            check(leaks.stdout == "nothing is known about this heap\n",
                  "leaks says: " + leaks.stdout)
            anon = snapshot.snapshot_row("private_anon_bytes")
            check(snapshot.heap_bytes() < anon / 20,
                  "%d bytes of objects in %d of memory" %
                  (snapshot.heap_bytes(), anon))


def frozen_child(pid):
    """A stopped child that holds no descriptor, or None."""
    for child, state in children(pid).items():
        try:
            if state == "t" and not os.listdir("/proc/%d/fd" % child):
                return child
        except OSError:
            pass
    return None


def catch_frozen_child(target):
    """Begin a snapshot and stop the tool while the child lives."""
    for _ in range(20):
        _, argv = target.command()
        tool = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
        child = None
        while not child and tool.poll() is None:
            child = frozen_child(target.pid)
        tool.send_signal(signal.SIGSTOP)
        if child:
            wait_until(lambda: tool.poll() is not None or
                       stat_fields(tool.pid)[0] in "TZ", "the tool stops")
            if frozen_child(target.pid) == child:
                return tool, child
        tool.send_signal(signal.SIGCONT)
        said = tool.communicate(timeout=DEADLINE)[1]
        check(tool.returncode == 0, said)
    raise AssertionError("no frozen child was ever seen")


def case_restart():
    """A server that ends while its frozen child lives starts again at once."""
    target, port, _ = python_server("malloc")
    with target:
        listening(port)
        tool, child = catch_frozen_child(target)
        target.process.kill()
        target.process.wait()
        target.start()
        listening(port)
        check(target.process.poll() is None, "the port was still in use")
        check(Lines.to_port(port).ask("count")[0].split()[0] == "20000",
              "the new server does not answer")
        check(stat_fields(child) and stat_fields(child)[0] == "t",
              "the child died too early: nothing was shown")
        tool.send_signal(signal.SIGCONT)
        tool.communicate(timeout=DEADLINE)
        wait_until(lambda: stat_fields(child) is None,
                   "the frozen child is gone")
        check(not children(target.pid), "the new server has a child")


def case_session_service():
    """Idle after its work, its account and the snapshot agree exactly."""
    target = Target([BIN + "/examples/session-service",
                     "--rate", "0", "--requests", "100000", "--truth",
                     "@FOLDER@/truth"])
    with target:
        def account():
            try:
                with open(target.folder + "/truth") as f:
                    rows = [line.split() for line in f]
            except FileNotFoundError:
                return {"requests": (0, 0)}
            return {name: (int(count), int(size))
                    for name, count, size in rows}
        # The load is done, its threads are gone, and the janitor has tidied
        # up: the account does not change any more.
        wait_until(lambda: account()["requests"][0] == 100000 and
                   len(os.listdir("/proc/%d/task" % target.pid)) == 2,
                   "the work is done")
        seen = []
        wait_until(lambda: seen.append(account()) or
                   len(seen) > 60 and seen[-1] == seen[-50],
                   "the account stands still")
        truth = account()
        snapshot = target.snapshot()
        census = {row[0]: row[1:] for row in snapshot.rows(
            "SELECT type, count, bytes, unreachable_count FROM census")}
        for name in ("GuestSession", "MemberSession", "Profile", "PageView",
                     "Purchase", "Page"):
            count, size = truth[name]
            check(census[name][0] == count, "%s: %s, truth %s" %
                  (name, census[name], truth[name]))
            # malloc leaves a rest of 16 bytes with the block before it: a
            # few blocks are that much larger than was asked for.
            extra = census[name][1] - size
            check(extra % 16 == 0 and 0 <= extra <= count, "%s: %s, truth %s" %
                  (name, census[name], truth[name]))
            check(census[name][2] == 0, "%s: %d unreachable" %
                  (name, census[name][2]))
        leaked, leaked_bytes = truth["leaked_AuditRecord"]
        found = census["AuditRecord"]
        check(found[0] == leaked + 1, "records: %s, truth %d + 1" %
              (found, leaked))
        # Stale words (in a dead stack, in the slack of a block) hold a few.
        check(leaked * 0.95 <= found[2] <= leaked,
              "unreachable: %d, truth %d" % (found[2], leaked))
        print("the census agrees with", truth)


def main():
    cases = {name[5:]: case for name, case in globals().items()
             if name.startswith("case_")}
    if len(sys.argv) != 2 or sys.argv[1] not in cases:
        sys.exit("usage: test_real_programs.py " + "|".join(sorted(cases)))
    cases[sys.argv[1]]()


main()
