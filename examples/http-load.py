#!/usr/bin/python3
"""Ask an HTTP server for pages until SIGTERM, and keep account of the answers.

SPDX-License-Identifier: MIT

usage: http-load.py HOST PORT ACCOUNT-FILE [PATH...]

ACCOUNT-FILE always holds one line: "requests N failed N slowest_ms N".
"""
import http.client
import os
import signal
import sys
import threading
import time

NUM_THREADS = 4


class Account:
    """What the threads saw; one lock, as the numbers belong together."""

    def __init__(self, path):
        self.path = path
        self.lock = threading.Lock()
        self.requests = 0
        self.failed = 0
        self.slowest = 0.0

    def add(self, seconds, ok):
        with self.lock:
            self.requests += 1
            self.failed += not ok
            self.slowest = max(self.slowest, seconds)

    def write(self):
        with self.lock:
            text = "requests %d failed %d slowest_ms %.1f\n" % (
                self.requests, self.failed, self.slowest * 1000)
        draft = self.path + ".new"
        with open(draft, "w") as out:
            out.write(text)
        os.rename(draft, self.path)


def ask(host, port, paths, account, stopping):
    number = 0
    while not stopping.is_set():
        start = time.monotonic()
        try:
            connection = http.client.HTTPConnection(host, port, timeout=10)
            connection.request("GET", paths[number % len(paths)])
            answer = connection.getresponse()
            ok = answer.status == 200 and len(answer.read()) > 0
            connection.close()
        except (OSError, http.client.HTTPException):
            ok = False
        account.add(time.monotonic() - start, ok)
        number += 1
        time.sleep(0.002)


def main():
    if len(sys.argv) < 4:
        sys.exit("usage: http-load.py HOST PORT ACCOUNT-FILE [PATH...]")
    account = Account(sys.argv[3])
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    threads = [
        threading.Thread(target=ask, args=(
            sys.argv[1], int(sys.argv[2]), sys.argv[4:] or ["/"], account,
            stopping))
        for _ in range(NUM_THREADS)
    ]
    for thread in threads:
        thread.start()
    while not stopping.wait(0.05):
        account.write()
    for thread in threads:
        thread.join()
    account.write()


main()
