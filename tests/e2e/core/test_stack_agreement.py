"""Our frames beside gdb's, on cores of programs as they are installed.

SPDX-License-Identifier: MIT

usage: test_stack_agreement.py PRINT_STACKS TAKE_CORE [PROGRAM...]

Each program is brought to stand in many different places; a core of it is
written, so that nobody moves, and both look at that. Stacks are compared
frame by frame: address, and name. Every difference is printed with its class;
one without a class is a failure. HF_SOAK=1: all programs, more threads.
"""
import collections
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PRINT_STACKS, TAKE_CORE = sys.argv[1:3]
SOAK = bool(os.environ.get("HF_SOAK"))
started = []


def start(argv, **options):
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL,
                               stdin=subprocess.PIPE, start_new_session=True,
                               **options)
    started.append(process)
    return process.pid


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
        return [int(word) for word in file.read().split()]


def wait_until(condition):
    for _ in range(600):
        if condition():
            return True
        time.sleep(0.1)
    return False


def num_threads(pid):
    try:
        return len(os.listdir("/proc/%d/task" % pid))
    except OSError:
        return 0


# ---- programs: each returns the pids to look at, or None ----

PYTHON = r'''
import queue, select, socket, sys, threading, time, zlib, re, json, hashlib
lock = threading.Lock(); lock.acquire()
left, right = socket.socketpair()
def recurse(n, leaf):
    return leaf() if n == 0 else recurse(n - 1, leaf)
def by_key(leaf):
    return sorted([3, 1, 2], key=lambda _: leaf())
def by_map(leaf):
    return list(map(lambda _: leaf(), [1]))
class Item:
    def __init__(self, leaf): self.leaf = leaf
    def __eq__(self, other): return self.leaf()
    def __hash__(self): return 1
def by_dict(leaf):
    return {Item(leaf): 1}.get(Item(leaf))
def by_sub(leaf):
    return re.sub("a", lambda _: str(leaf()), "a")
def by_generator(leaf):
    def numbers():
        yield leaf()
    return sum(numbers())
def by_json(leaf):
    return json.loads("{}", object_hook=lambda _: leaf())
leaves = [lambda: time.sleep(3600), lock.acquire, queue.Queue().get,
          lambda: select.select([left], [], []), lambda: left.recv(1),
          lambda: hashlib.pbkdf2_hmac("sha256", b"x", b"y", 1 << 30),
          threading.Event().wait, lambda: sys.stdin.buffer.raw.read(1)]
ways = [lambda leaf: recurse(1, leaf), lambda leaf: recurse(20, leaf), by_key,
        by_map, by_dict, by_sub, by_generator, by_json]
for way in ways:
    for leaf in leaves:
        threading.Thread(target=way, args=(leaf,), daemon=True).start()
lock.acquire()
'''


def python(folder):
    pid = start(["/usr/bin/python3", "-c", PYTHON])
    wait_until(lambda: num_threads(pid) == 65)
    return [pid]


NGINX = """
worker_processes 6;
daemon off;
user root;
pid %(folder)s/pid;
error_log %(folder)s/error.log;
events { worker_connections 64; }
http {
    access_log off;
    client_body_temp_path %(folder)s/body;
    proxy_temp_path %(folder)s/proxy;
    fastcgi_temp_path %(folder)s/fastcgi;
    uwsgi_temp_path %(folder)s/uwsgi;
    scgi_temp_path %(folder)s/scgi;
    server { listen unix:%(folder)s/socket; root %(folder)s; }
}
"""


def nginx(folder):
    path = os.path.join(folder, "nginx.conf")
    with open(path, "w") as file:
        file.write(NGINX % {"folder": folder})
    pid = start(["nginx", "-c", path, "-e", os.path.join(folder, "e.log")])
    wait_until(lambda: len(children(pid)) == 6)
    return [pid] + children(pid)


def redis(folder):
    pid = start(["redis-server", "--port", "0", "--dir", folder, "--unixsocket",
                 os.path.join(folder, "redis.sock"), "--io-threads", "8",
                 "--io-threads-do-reads", "yes"])
    wait_until(lambda: num_threads(pid) >= 11)
    return [pid]


JAVA = r'''
import java.util.concurrent.*;
public class Stand {
    static int deep(int n) throws Exception {
        if (n > 0) return deep(n - 1) + 1;
        Thread.sleep(3600000); return 0;
    }
    public static void main(String[] args) throws Exception {
        for (int i = 0; i < 40; i++) {
            final int n = i;
            new Thread(() -> {
                try {
                    if (n % 3 == 0) deep(n);
                    else if (n % 3 == 1) new LinkedBlockingQueue<String>().take();
                    else synchronized (new Object()) { deep(2); }
                } catch (Exception e) { }
            }).start();
        }
    }
}
'''


def java(folder):
    path = os.path.join(folder, "Stand.java")
    with open(path, "w") as file:
        file.write(JAVA)
    pid = start(["java", "-Xmx128m", "-XX:ParallelGCThreads=8",
                 "-XX:-UsePerfData", path])

    def stands():
        names = collections.Counter()
        for tid in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/comm" % (pid, tid)) as file:
                names[file.read().startswith("Thread-")] += 1
        return names[True] >= 40
    wait_until(stands)
    return [pid]


RUST = r'''
use std::sync::{mpsc, Arc, Barrier, Condvar, Mutex};
use std::{collections::BTreeMap, io::Read, thread, time::Duration};
#[inline(never)]
fn deep<F: Fn()>(n: u32, leaf: &F) -> u32 {
    if n > 0 { deep(n - 1, leaf) + 1 } else { leaf(); 0 }
}
trait Way { fn go(&self, leaf: &dyn Fn()) -> u32; }
struct Sorted; struct Mapped; struct Tree;
impl Way for Sorted { fn go(&self, leaf: &dyn Fn()) -> u32 {
    let mut v = vec![3, 1, 2];
    v.sort_by(|a, b| { leaf(); a.cmp(b) }); v[0] } }
impl Way for Mapped { fn go(&self, leaf: &dyn Fn()) -> u32 {
    [1u32].iter().map(|x| { leaf(); *x }).sum() } }
impl Way for Tree { fn go(&self, leaf: &dyn Fn()) -> u32 {
    let mut t = BTreeMap::new(); t.insert(1, 2);
    t.retain(|_, _| { leaf(); true }); t[&1] } }
fn main() {
    let ready = Arc::new(Barrier::new(29));
    for i in 0..28u32 {
        let ready = ready.clone();
        thread::spawn(move || {
            ready.wait();
            let sleep = || thread::sleep(Duration::from_secs(3600));
            let take = || { let (_s, r) = mpsc::channel::<u32>();
                            r.recv_timeout(Duration::from_secs(3600)).ok(); };
            let park = || thread::park();
            let wait = || { let m = Mutex::new(()); let c = Condvar::new();
                            drop(c.wait(m.lock().unwrap())); };
            let leaves: [&dyn Fn(); 4] = [&sleep, &take, &park, &wait];
            let leaf = leaves[(i % 4) as usize];
            match i / 4 { 0 => Sorted.go(leaf), 1 => Mapped.go(leaf),
                          2 => Tree.go(leaf), n => deep(n * 3, &leaf) };
        });
    }
    ready.wait();
    std::io::stdin().read(&mut [0]).unwrap();
}
'''


def rust(folder):
    if not shutil.which("rustc"):
        return None
    source = os.path.join(folder, "stand.rs")
    exe = os.path.join(folder, "stand")
    with open(source, "w") as file:
        file.write(RUST)
    built = subprocess.run(["rustc", "-g", "-O", "-o", exe, source],
                           stdin=subprocess.DEVNULL, capture_output=True)
    if built.returncode:
        return None
    pid = start([exe])
    wait_until(lambda: num_threads(pid) == 29)
    time.sleep(0.5)
    return [pid]


def ripgrep(folder):
    pipes = [os.path.join(folder, "pipe%d" % i) for i in range(12)]
    for path in pipes:
        os.mkfifo(path)
    pid = start(["rg", "--threads", "8", "word", *pipes])
    wait_until(lambda: num_threads(pid) >= 8)
    return [pid]


def pandoc(_folder):
    pid = start(["pandoc", "-f", "markdown", "+RTS", "-N4", "-RTS"])
    if not wait_until(lambda: num_threads(pid) >= 2):
        return None
    time.sleep(1)
    return [pid]


def node(_folder):
    pid = start(["node", "-e", "setInterval(() => {}, 1 << 30)"])
    wait_until(lambda: num_threads(pid) >= 11)
    return [pid]


def postgres(folder):
    tools = "/usr/lib/postgresql"
    versions = sorted(os.listdir(tools)) if os.path.isdir(tools) else []
    if not versions or not shutil.which("runuser") or os.geteuid():
        return None
    tools = os.path.join(tools, versions[-1], "bin")
    data = os.path.join(folder, "data")
    os.chmod(folder, 0o755)
    os.mkdir(data)
    shutil.chown(data, "postgres")
    as_user = ["runuser", "-u", "postgres", "--"]
    made = subprocess.run([*as_user, tools + "/initdb", "-D", data, "-N"],
                          stdin=subprocess.DEVNULL, capture_output=True,
                          cwd=data)
    if made.returncode:
        return None
    runner = start([*as_user, tools + "/postgres", "-D", data, "-k", data,
                    "-c", "listen_addresses=", "-c", "fsync=off"], cwd=data)
    pids = []

    def is_up():
        pids[:] = children(runner)
        return pids and len(children(pids[0])) >= 5
    if not wait_until(is_up):
        return None
    for sql in ("SELECT pg_sleep(3600)", "SELECT pg_advisory_lock(1), "
                "pg_sleep(3600)", "SELECT pg_advisory_lock(1)",
                "SELECT count(*) FROM generate_series(1, 3) g, "
                "LATERAL (SELECT pg_sleep(3600 + g)) s",
                "DO 'BEGIN PERFORM pg_sleep(3600); END'"):
        start([*as_user, "psql", "-h", data, "-c", sql, "postgres"], cwd=data)
    wait_until(lambda: len(children(pids[0])) >= 10)
    time.sleep(1)
    return pids + children(pids[0])


PROGRAMS = {"python": ("/usr/bin/python3", python), "nginx": ("nginx", nginx),
            "redis": ("redis-server", redis), "java": ("java", java),
            "rust": ("rustc", rust), "ripgrep": ("rg", ripgrep),
            "pandoc": ("pandoc", pandoc), "node": ("node", node),
            "postgres": ("psql", postgres)}
# What takes its time to start, or gdb to read.
SLOW = ("java", "postgres", "pandoc", "node", "rust")


# ---- the two lists of frames ----

Frame = collections.namedtuple("Frame", "pc name how")


def run(*argv):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=240, errors="replace")
    return done.stdout


def our_stacks(core):
    """tid -> (frames that are some on the stack, how it ended)"""
    found = {}
    for line in run(PRINT_STACKS, core).splitlines():
        if line.startswith("TID "):
            tid, end = line[4:].split(": ")
            frames = []
            found[int(tid)] = frames, end
            continue
        match = re.match(r"#\d+ (0x[0-9a-f]+) (.*) \S+:\d+ \[(\w+)\]", line)
        if match and match.group(3) != "inline":
            frames.append(Frame(int(match.group(1), 16), match.group(2),
                                match.group(3)))
    return found


def gdb_stacks(exe, core):
    found = {}
    text = run("gdb", "-batch", "-nx", "-ex", "set debuginfod enabled off",
               "-x", os.path.join(HERE, "gdb_frames.py"), exe, core)
    for line in text.splitlines():
        words = line.split(" ", 3)
        if words[0] == "THREAD":
            frames, end = [], []
            found[int(words[1])] = frames, end
        elif words[0] == "FRAME":
            frames.append(Frame(int(words[1], 16), words[3], words[2]))
        elif words[0] in ("END", "ERROR") and found:
            end.append(line.split(" ", 1)[1])
    return found


def plain(name):
    """A name without arguments and what compilers add."""
    name = re.sub(r"\[abi:\w+\]| \[clone [^]]*\]|@.*", "", name)
    name = re.sub(r"::h[0-9a-f]{16}$", "", name)
    depth, out = 0, ""
    for char in name.replace("operator()", "operator_call").replace(
            "(anonymous namespace)", "anonymous").replace("->", "").replace(
            "operator<<", "operator_ll").replace("operator>>", "operator_rr"):
        depth += char in "(<"
        if not depth:
            out += char
        depth -= char in ")>"
    return re.sub(r"\.(isra|part|cold|constprop|lto_priv)(\.\d+)?", "",
                  out).split(" ")[-1].rsplit("::", 1)[-1].lstrip("_").replace(
                      "GI_", "").lstrip("_")


class Comparison:
    def __init__(self):
        self.frames = self.stacks = self.equal_stacks = 0
        self.classes = collections.Counter()
        self.names = collections.Counter()
        self.unexplained = []

    def differ(self, kind, text):
        self.classes[kind] += 1
        if kind == "unexplained":
            self.unexplained.append(text)
        print("  %s: %s" % (kind, text))

    def compare(self, who, mine, end, others, other_end, is_code):
        """Frame by frame: ours, and those of gdb that are some."""
        real = []
        for frame in others:
            if frame.how == "tailcall":
                self.classes["tail call (gdb's, without a frame)"] += 1
            elif frame.how != "inline":
                real.append(frame)
        self.stacks += 1
        # The name of an address is that of the outermost function there:
        # inlined ones come first in gdb's list, too.
        for i, frame in enumerate(mine):
            if i >= len(real):
                self.differ(*self.rest_of_ours(who, i, mine, real, end,
                                               other_end, is_code))
                return
            if frame.pc != real[i].pc:
                kind = "unexplained"
                if i and not is_code(mine[i - 1].pc):
                    kind = "behind code made at run time"
                elif i and frame.how == "pointer":
                    kind = "inferred by us, guessed by gdb"
                self.differ(kind, "%s: #%d 0x%x %s, gdb has 0x%x %s" % (
                    who, i, frame.pc, frame.name, real[i].pc, real[i].name))
                return
            self.frames += 1
            if plain(frame.name) != plain(real[i].name):
                self.names[frame.name, real[i].name] += 1
        if len(real) > len(mine):
            last = mine[-1] if mine else None
            kind = "unexplained"
            if last and not is_code(last.pc):
                kind = "behind code made at run time"
            elif real[len(mine)].pc == 0:
                kind = "gdb shows a null return address"
            elif end == "lost":
                kind = "lost by us"
            self.differ(kind, "%s: ours ends (%s) at #%d, gdb has 0x%x %s" % (
                who, end, len(mine), real[len(mine)].pc,
                real[len(mine)].name))
            return
        self.equal_stacks += 1

    @staticmethod
    def rest_of_ours(who, i, mine, real, end, other_end, is_code):
        kind = "unexplained"
        if real and not is_code(real[-1].pc):
            kind = "behind code made at run time"
        elif other_end and other_end[0] != "-":
            kind = "gdb stopped: " + other_end[0]
        return kind, "%s: gdb ends at #%d, ours goes on at 0x%x %s (%s)" % (
            who, i, mine[i].pc, mine[i].name, mine[i].how)


def code_of(pid):
    ranges = []
    with open("/proc/%d/maps" % pid) as file:
        for line in file:
            words = line.split()
            if "x" in words[1] and len(words) > 5:
                ranges.append([int(word, 16) for word in
                               words[0].split("-")])
    return lambda addr: any(low <= addr <= high for low, high in ranges)


def look_at(name, pids, folder, comparison):
    for pid in pids:
        core = os.path.join(folder, "core")
        text = run(TAKE_CORE, str(pid), core)
        if not os.path.exists(core):
            print("SKIP: %s: no core: %s" % (name, text))
            return
        is_code = code_of(pid)
        exe = os.readlink("/proc/%d/exe" % pid)
        mine, gdbs = our_stacks(core), gdb_stacks(exe, core)
        if set(mine) != set(gdbs):
            comparison.differ("unexplained", "%s: threads %s, gdb %s" % (
                name, sorted(mine), sorted(gdbs)))
        for tid, (frames, end) in mine.items():
            others, other_end = gdbs.get(tid, ([], []))
            comparison.compare("%s %d" % (name, tid), frames, end, others,
                               other_end, is_code)
        os.unlink(core)


def stop():
    for process in started:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    started.clear()


def main():
    if not shutil.which("gdb"):
        print("SKIP: no gdb")
        sys.exit(77)
    wanted = sys.argv[3:] or [name for name in PROGRAMS
                              if SOAK or name not in SLOW]
    total = Comparison()
    for name in wanted:
        tool, make = PROGRAMS[name]
        if not shutil.which(tool):
            print("SKIP: no %s" % name)
            continue
        before = total.stacks, total.frames, total.equal_stacks
        with tempfile.TemporaryDirectory(prefix="hf-agree-") as folder:
            try:
                pids = make(folder)
                if pids:
                    look_at(name, pids, folder, total)
            finally:
                stop()
        print("%s: %d stacks, %d frames equal, %d stacks wholly" % (
            name, total.stacks - before[0], total.frames - before[1],
            total.equal_stacks - before[2]))
    for (ours, gdbs), count in sorted(total.names.items(),
                                      key=lambda item: -item[1])[:60]:
        print("  name x %d: %s | gdb: %s" % (count, ours, gdbs))
    print("in all: %d stacks, %d of them equal to the last frame; %d frames "
          "of the same address, %d of them with another name" % (
              total.stacks, total.equal_stacks, total.frames,
              sum(total.names.values())))
    for kind, count in total.classes.most_common():
        print("  class: %s: %d" % (kind, count))
    if not total.stacks:
        print("SKIP: nothing to look at")
        sys.exit(77)
    if total.unexplained:
        print("FAIL: %d differences without an explanation" %
              len(total.unexplained))
        sys.exit(1)


main()
