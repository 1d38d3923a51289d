"""Clients of the programs under test: HTTP, memcached, Redis, lines in a pipe.

SPDX-License-Identifier: MIT
"""
import http.client
import socket
import threading


def connect(port):
    """Wait until someone listens."""
    for _ in range(600):
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=30)
        except ConnectionRefusedError:
            threading.Event().wait(0.02)
    raise AssertionError("nobody listens on port %d" % port)


def listening(port):
    connect(port).close()


def http_client(port, path, expected, keep):
    """One GET a request, on one connection or on a new one each time."""
    state = {}

    def ask():
        connection = state.get("connection")
        if not connection:
            connection = http.client.HTTPConnection("127.0.0.1", port,
                                                    timeout=30)
            if keep:
                state["connection"] = connection
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        if not keep:
            connection.close()
        return answer.status == 200 and body == expected
    return ask


class Lines:
    """A line protocol over a socket or a pair of pipes."""

    def __init__(self, read_file, write_file):
        self.read_file, self.write_file = read_file, write_file
        self.lock = threading.Lock()

    @classmethod
    def to_port(cls, port):
        s = connect(port)
        return cls(s.makefile("rb"), s.makefile("wb"))

    @classmethod
    def to_process(cls, process):
        return cls(process.stdout, process.stdin)

    def ask(self, text, num_lines=1):
        with self.lock:
            self.write_file.write(text.encode() + b"\n")
            self.write_file.flush()
            return [self.read_file.readline().decode().rstrip("\r\n")
                    for _ in range(num_lines)]


def memcached_client(port, number):
    """Set a value of its own, then read it back."""
    lines = Lines.to_port(port)
    count = [0]

    def ask():
        count[0] += 1
        key = "key-%d-%d" % (number, count[0] % 5000)
        value = ("value %d " % count[0]) * 12
        stored = lines.ask("set %s 0 0 %d\r\n%s\r" %
                           (key, len(value), value))
        got = lines.ask("get %s\r" % key, 3)
        return stored == ["STORED"] and got[1] == value
    return ask


def redis_client(port, number):
    lines = Lines.to_port(port)
    count = [0]

    def ask():
        count[0] += 1
        key = "key-%d-%d" % (number, count[0] % 5000)
        stored = lines.ask("SET %s value-%d\r" % (key, count[0]))
        got = lines.ask("GET %s\r" % key, 2)
        return stored == ["+OK"] and got[1] == "value-%d" % count[0]
    return ask
