"""What a thread-local variable holds, its name and its thread say.

SPDX-License-Identifier: MIT

usage: test_tls.py HEAPFORK VICTIM
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                ".."))
from hf_e2e import Snapshot, Victim, check  # noqa: E402

HEAPFORK, VICTIM = sys.argv[1:3]

victim = Victim([VICTIM])
snapshot = Snapshot(HEAPFORK, victim.pid)
variables = victim.words("variable")
check(len(variables) == 16, "four variables in each of four threads")
for name, tid, addr, obj in variables:
    rows = snapshot.rows(
        "SELECT t.name, h.tid, o.addr, r.kind, r.addr FROM root r"
        " JOIN object o ON o.id = r.holder_id JOIN type t ON t.id = o.type_id"
        " JOIN object held ON held.id = r.object_id"
        " LEFT JOIN thread h ON h.id = r.thread_id"
        " WHERE held.addr = ? AND r.kind = 'tls'", int(obj, 16))
    comm = "victim_tls" if int(tid) == victim.pid else "worker"
    check(rows == [("%s, TLS of %s (tid %s)" % (name, comm, tid), int(tid),
                    int(addr, 16), "tls", int(addr, 16))],
          "%s of %s: %s" % (name, tid, rows))
victim.end()
