"""What debuggers that nobody here wrote say of our cores.

SPDX-License-Identifier: MIT

usage: test_core_debuggers.py HEAPFORK TAKE_CORE VICTIM...

Of each victim (dynamic, static, stripped): the frames of the core are those
of the stopped parent; variables are readable; the database from the core is
that of the frozen process. Then the notes of one core are left out one by one:
each is there because some debugger needs it.
"""
import os
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                ".."))
from hf_e2e import Victim, check, fail  # noqa: E402

HEAPFORK, TAKE_CORE = sys.argv[1:3]
VICTIMS = sys.argv[3:]
KINDS = ["epoll", "cond", "read", "spin", "sleep"]
FRAMES = re.compile(r"\b((?:inner|middle|outer)_\w+)")
NUM_FRAMES = 3 * len(KINDS) + 2  # main has no outer_


def run(*argv):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=120, errors="replace")
    return done.stdout


def need(program):
    if not shutil.which(program):
        print("SKIP: no " + program)
        sys.exit(77)


def gdb(core, exe, *commands):
    argv = ["gdb", "-batch", "-nx"]
    for command in commands:
        argv += ["-ex", command]
    return run(*argv, exe, core)


def num_frames(text):
    return len(set(FRAMES.findall(text)))


def stacks(text):
    """Of eu-stack: thread id -> names of its frames, innermost first."""
    found = {}
    for line in text.splitlines():
        if line.startswith("TID "):
            found[int(line[4:].rstrip(":"))] = names = []
        match = re.match(r"#\d+\s+0x[0-9a-f]+(?: - \d+)?\s*(\S*)", line)
        if match and found:
            names.append(match.group(1))
    return found


def same_stacks(live, core, spinning):
    if live.keys() != core.keys():
        fail("threads %s, in the core %s" % (sorted(live), sorted(core)))
    for tid, names in live.items():
        # Where a thread that runs stands is another place each time.
        skip = 1 if tid == spinning else 0
        if names[skip:] != core[tid][skip:]:
            fail("thread %d: %s, in the core %s" % (tid, names, core[tid]))


def thread_id(pid, name):
    for tid in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/comm" % (pid, tid)) as file:
            if file.read().strip() == name:
                return int(tid)
    fail("no thread " + name)


def rows(path, table):
    with sqlite3.connect(path) as db:
        return db.execute("SELECT * FROM " + table).fetchall()


ALL_TABLES = ["object", "ref", "root", "type", "module", "segment", "reader",
              "heap_area", "anomaly", "object_type"]


def same_databases(live, core):
    """Of different instants: each capture may touch some stack of the thread
    that it borrows, below what is live, so what is resident there grows."""
    for table in ALL_TABLES:
        if table == "segment":
            table = "(SELECT id, start, \"end\", prot, kind, module_id, " \
                    "captured, reason, advice FROM segment)"
        if rows(live, table) != rows(core, table):
            fail("table %s differs: %s" % (table, set(
                rows(live, table)) ^ set(rows(core, table))))
    print("ok: each row of the database from the core is the live one's")


def check_core(victim, exe, core, stripped):
    debug = VICTIMS[0]
    same_stacks(stacks(run("eu-stack", "-p", str(victim.pid))),
                stacks(run("eu-stack", "--core", core, "-e", exe)),
                thread_id(victim.pid, "spin"))
    print("ok: eu-stack: the frames of the core are the parent's")
    if stripped:
        return
    text = gdb(core, exe, "thread apply all bt")
    check(num_frames(text) == NUM_FRAMES, "gdb finds every frame")
    check("terminated with signal" not in text, "gdb sees no crash")
    check(num_frames(run("eu-stack", "--core", core, "-e", exe)) ==
          NUM_FRAMES, "eu-stack finds every frame")
    if exe == debug:
        check(num_frames(run("eu-stack", "--core", core)) == NUM_FRAMES,
              "eu-stack finds every frame by the core alone")
    if shutil.which("lldb"):
        check(num_frames(run("lldb", "-b", "-o", "bt all", "-c", core,
                             exe)) == NUM_FRAMES, "lldb finds every frame")
    text = gdb(core, exe, "print sessions->next->name",
               "print sessions->number", "print greeting")
    check("second session" in text, "gdb reads the heap")
    check("= 1001" in text, "gdb reads global variables")
    check("greeting in rodata" in text, "gdb reads constants")
    text = gdb(core, exe, "thread apply all print thread_number")
    numbers = sorted(int(n) for n in re.findall(r"\$\d+ = (\d+)", text))
    check(numbers == [100, 101, 102, 103, 104, 105],
          "gdb reads thread-local variables of every thread")
    text = gdb(core, exe, "thread apply all info registers rip fs_base")
    check(len(re.findall(r"^rip ", text, re.M)) == 6,
          "gdb has the registers of every thread")


def check_strip(exe, core, folder):
    """Stacks stay, secrets go."""
    out = os.path.join(folder, "stripped")
    run(HEAPFORK, "core", "strip", core, out)
    check(os.path.exists(out), "heapfork strips the core")
    if "stripped" not in exe:
        for text, name in [
                (gdb(out, exe, "thread apply all bt"), "gdb"),
                (run("eu-stack", "--core", out, "-e", exe), "eu-stack")]:
            check(num_frames(text) == NUM_FRAMES,
                  name + " finds every frame in it")
    with open(core, "rb") as file:
        whole = file.read()
    with open(out, "rb") as file:
        rest = file.read()
    for secret in [b"secret of the environment", b"secret argument",
                   b"second session", b"first session"]:
        check(secret in whole, "the core has: %s" % secret.decode())
        check(secret not in rest, "the stripped core has not")
    heap = out + ".heap"
    text = run(HEAPFORK, "index", out, "-o", heap)
    check("stripped" in text, "heapfork says that there is no heap in it")


def check_cli(victim, folder):
    """snapshot --core: core and database of one instant."""
    core, heap = os.path.join(folder, "cli.core"), os.path.join(folder,
                                                                "cli.heap")
    text = run(HEAPFORK, "snapshot", "-p", str(victim.pid), "--core", core,
               "-o", heap)
    check(os.path.exists(core) and os.path.exists(heap),
          "heapfork writes a core and a snapshot: " + text.splitlines()[-2])
    check(os.stat(core).st_mode & 0o777 == 0o600, "nobody else may read it")
    run(HEAPFORK, "index", core, "-o", core + ".heap")
    for table in ALL_TABLES + ["thread", "frame"]:
        if rows(heap, table) != rows(core + ".heap", table):
            fail("table %s differs" % table)
    facts = "(SELECT taken_ns, start_time, boot_id, pause_ns, fork_ns, " \
            "threads, safe_point FROM snapshot)"
    check(rows(heap, facts) == rows(core + ".heap", facts),
          "the core knows its capture")
    print("ok: each row is the same, threads and frames too")
    packed = os.path.join(folder, "cli.zst")
    run(HEAPFORK, "snapshot", "-p", str(victim.pid), "--core", packed,
        "--compress", "zstd:3")
    with open(packed, "rb") as file:
        check(file.read(4) == b"\x28\xb5\x2f\xfd", "a core alone, packed")
    for option in [["--max-size", "50K"], ["--keep-free", "900T"]]:
        small = os.path.join(folder, "small")
        done = subprocess.run(
            [HEAPFORK, "snapshot", "-p", str(victim.pid), "--core", small] +
            option, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True, timeout=120)
        check(done.returncode == 6 and "fix: " in done.stderr and
              not os.path.exists(small),
              "no core beyond %s: %s" % (option[0], done.stderr.split(
                  "\n")[-4:-1]))


def check_victim(exe, folder):
    victim = Victim([exe, "secret argument"],
                    {"SECRET": "secret of the environment"})
    victim.wait_for_syscall(0)  # read
    core = os.path.join(folder, "core")
    # The first capture touches some stack of the thread it borrows, below
    # what is live: pages that are resident from then on.
    run(TAKE_CORE, str(victim.pid), core)
    print("-- " + os.path.basename(exe))
    out = run(TAKE_CORE, str(victim.pid), core)
    words = out.split()
    facts = dict(zip(words[::2], map(int, words[1::2])))
    check(facts["missing"] == 0, "all memory is in the core")
    held = facts["memory"] - facts["zero"]
    check(os.stat(core).st_blocks * 512 <= 1.05 * held + 128 * 1024,
          "the core takes no more room than what it holds, and its notes")
    check_core(victim, exe, core, "stripped" in exe)
    packed = os.path.join(folder, "core.zst")
    run(TAKE_CORE, str(victim.pid), packed, "0x33", "3")
    for path in core, packed:
        heap = path + ".heap"
        text = run(HEAPFORK, "index", path, "-o", heap)
        check(os.path.exists(heap), "heapfork reads %s: %s" %
              (os.path.basename(path), text.splitlines()[0]))
    # The process stands in its calls: nothing but the spinner's registers
    # has changed since.
    live = os.path.join(folder, "live.heap")
    run(HEAPFORK, "snapshot", "-p", str(victim.pid), "-o", live)
    same_databases(live, core + ".heap")
    same_databases(live, packed + ".heap")
    check_strip(exe, core, folder)
    check_cli(victim, folder)
    victim.end()
    return core


def rewrite(core, out, keep_note, keep_bytes=lambda load: True):
    """A copy of a core without some notes, or some PT_LOADs' bytes."""
    with open(core, "rb") as file:
        data = bytearray(file.read())
    offset, = struct.unpack_from("<Q", data, 32)
    num, = struct.unpack_from("<H", data, 56)
    for i in range(num):
        at = offset + 56 * i
        kind, flags, start, vaddr, _, size, memory = struct.unpack_from(
            "<IIQQQQQ", data, at)
        if kind == 1 and not keep_bytes((flags, vaddr, size, memory)):
            struct.pack_into("<Q", data, at + 32, 0)
        if kind != 4:
            continue
        kept, pos = bytearray(), start
        while pos < start + size:
            name, desc, note = struct.unpack_from("<III", data, pos)
            end = pos + 12 + (name + 3) // 4 * 4 + (desc + 3) // 4 * 4
            label = bytes(data[pos + 12:pos + 12 + name - 1]).decode()
            if keep_note(label, note):
                kept += data[pos:end]
            pos = end
        data[start:start + len(kept)] = kept
        struct.pack_into("<Q", data, at + 32, len(kept))
    with open(out, "wb") as file:
        file.write(data)


PRPSINFO, AUXV, FILE, SIGINFO = 3, 6, 0x46494c45, 0x53494749
FPREGSET, XSTATE = 2, 0x202


def check_ablation(exe, core, folder):
    """Which debugger goes blind without which part."""
    print("-- what each part of a core is for")
    cut = os.path.join(folder, "cut")
    cases = [
        # left out, gdb, eu-stack with the program, eu-stack alone, lldb
        ("nothing", set(), True, True, True, True),
        ("SIGINFO", {SIGINFO}, True, True, True, True),
        ("FPREGSET and XSTATE", {FPREGSET, XSTATE}, True, True, True, True),
        ("PRPSINFO", {PRPSINFO}, True, False, False, True),
        ("AUXV", {AUXV}, False, True, True, False),
        ("FILE", {FILE}, True, True, False, True),
        ("our own", {0x48460001, 0x48460002, 0x48460003},
         True, True, True, True),
    ]
    for name, types, *expected in cases:
        rewrite(core, cut, lambda label, note: note not in types)
        seen = [
            num_frames(gdb(cut, exe, "thread apply all bt")) == NUM_FRAMES,
            num_frames(run("eu-stack", "--core", cut, "-e", exe)) ==
            NUM_FRAMES,
            num_frames(run("eu-stack", "--core", cut)) == NUM_FRAMES,
        ]
        if shutil.which("lldb"):
            seen.append(num_frames(run("lldb", "-b", "-o", "bt all", "-c",
                                       cut, exe)) == NUM_FRAMES)
        check(seen == expected[:len(seen)], "without %s: %s" % (name, seen))
    # Read-only pages of files: RELRO leads to the list of libraries.
    rewrite(core, cut, lambda label, note: True,
            lambda load: load[0] & 2 or not load[2] or load[0] & 1)
    text = gdb(cut, exe, "thread apply all bt")
    check(num_frames(text) < NUM_FRAMES or "start_thread" not in text,
          "without the pages that were made read-only gdb finds less")


def main():
    need("gdb")
    need("eu-stack")
    with tempfile.TemporaryDirectory(prefix="hf-core-") as folder:
        for exe in VICTIMS:
            sub = os.path.join(folder, os.path.basename(exe))
            os.mkdir(sub)
            core = check_victim(exe, sub)
            if exe == VICTIMS[0]:
                check_ablation(exe, core, sub)


main()
