"""A Python program that checks itself while it works: threads, subprocesses,
timers, queues, pipes.

SPDX-License-Identifier: MIT

Protocol of all programs of the soak that check themselves, on standard input
and output: "work" begins, "rest" stops all work and answers "resting NUM_DONE
NUM_WRONG DETAIL"; at the end of input the program exits, 0 if nothing was ever
wrong.
"""
import asyncio
import hashlib
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time

PAUSE = 0.005  # after each step: whoever takes the snapshots works, too

working = threading.Event()
lock = threading.Lock()
count = {"done": 0, "wrong": 0}
detail = ["-"]
busy = [0]
ticks = [0]


def checked(right, what):
    with lock:
        count["done"] += 1
        if not right:
            count["wrong"] += 1
            detail[0] = what


def worker(step):
    """Steps while there is work; one that fails is wrong."""
    def loop():
        while True:
            working.wait()
            with lock:
                busy[0] += 1
            try:
                if working.is_set():
                    step()
            except Exception as e:
                checked(False, "%s: %r" % (step.__name__, e))
            with lock:
                busy[0] -= 1
            time.sleep(PAUSE)
    threading.Thread(target=loop, daemon=True).start()


BLOCK = bytes(range(256)) * 4096
DIGEST = hashlib.sha256(BLOCK).hexdigest()


def computes():
    checked(hashlib.sha256(BLOCK).hexdigest() == DIGEST, "sha256")


def churns():
    kept = {}
    for number in range(2000):
        kept["key %d" % number] = [number] * (number % 17)
    total = sum(len(v) for v in kept.values())
    checked(total == sum(n % 17 for n in range(2000)), "churn")


def spawns():
    word = "word-%d" % random.randrange(10**6)
    run = subprocess.run(["/bin/echo", word], capture_output=True, text=True)
    checked((run.returncode, run.stdout, run.stderr) ==
            (0, word + "\n", ""), "echo: %r" % run)


def pipes():
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as cat:
        out, _ = cat.communicate(BLOCK[:200000])
    checked(cat.returncode == 0 and out == BLOCK[:200000], "cat")


def forks():
    """os.fork and waitpid for this child only."""
    pid = os.fork()
    if pid == 0:
        os._exit(7)
    got, status = os.waitpid(pid, 0)
    checked(got == pid and os.WEXITSTATUS(status) == 7, "fork")


channel = queue.Queue(50)


def produces():
    number = random.randrange(10**9)
    channel.put((number, number * 3 + 1))


def consumes():
    try:
        number, sent = channel.get(timeout=0.2)
    except queue.Empty:
        return
    checked(sent == number * 3 + 1, "queue")


def sleeps():
    """A sleep is never shorter than asked for."""
    start = time.monotonic()
    time.sleep(0.01)
    checked(time.monotonic() - start >= 0.01, "a short sleep")


def events():
    """Timers of an event loop: all come, and none too early."""
    async def main():
        async def after(delay):
            start = time.monotonic()
            await asyncio.sleep(delay)
            # (The loop rounds to its clock's resolution.)
            return time.monotonic() - start >= delay - 0.001
        return await asyncio.gather(*[after(d / 1000) for d in (20, 5, 10)])
    checked(asyncio.run(main()) == [True] * 3, "event loop")


def on_tick(*_):
    ticks[0] += 1


def main():
    signal.signal(signal.SIGALRM, on_tick)
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    for step in (computes, churns, spawns, spawns, pipes, forks, produces,
                 consumes, sleeps, events):
        worker(step)
    for line in sys.stdin:
        before = ticks[0]
        if line.strip() == "work":
            working.set()
        elif line.strip() == "rest":
            working.clear()
            while busy[0]:
                time.sleep(0.01)
            while not channel.empty():
                consumes()
            # (The timer ticks on while the main thread reads.)
            time.sleep(0.1)
            checked(ticks[0] > before, "no ticks of the timer")
            print("resting", count["done"], count["wrong"], detail[0],
                  flush=True)
    signal.setitimer(signal.ITIMER_REAL, 0)
    sys.exit(1 if count["wrong"] else 0)


main()
