#!/usr/bin/env python3
"""What a program keeps out of its forks is in its snapshot: read late from the
program itself, and holding what it points to.

usage: test_left_out.py HEAPFORK VICTIM

SPDX-License-Identifier: MIT
"""
import sys

from hf_e2e import Snapshot, Victim, check


def main():
    heapfork, program = sys.argv[1:3]
    victim = Victim([program])
    snap = Snapshot(heapfork, victim.pid)
    objects = victim.words("object")

    check(snap.run.returncode == 0, "the snapshot is whole: %d, %s" %
          (snap.run.returncode, snap.run.stderr))
    check("out of its forks" in snap.run.stderr, "and what is late is said")
    check(len(objects) == 2000, "the program told of its objects")
    for table, start, end in victim.words("table"):
        row = snap.one("SELECT captured, resident_bytes, prot, kind "
                       "FROM segment WHERE start <= ? AND \"end\" >= ?",
                       int(start, 16), int(end, 16))
        check(row == ("late", 8192, "rw-p", "anon"),
              "%s is read late: %s" % (table, row))
        top = snap.one(
            "SELECT o.id, t.name FROM object o JOIN type t ON t.id = o.type_id "
            "WHERE t.kind = 'root_holder' AND o.addr = ?", int(start, 16))
        check(top is not None and top[1] == "unknown memory",
              "%s is a root holder: %s" % (table, top))
        held = {r[0] for r in snap.rows(
            "SELECT addr FROM object WHERE idom = ? AND flags & 1", top[0])}
        mine = {int(addr, 16) for name, addr in objects if name == table}
        # A stale register or stack word may point to one or two, too.
        check(len(mine - held) <= 2, "%s holds its objects: %d of %d" %
              (table, len(mine & held), len(mine)))
    unreachable = {r[0] for r in snap.rows(
        "SELECT addr FROM object WHERE size_bytes > 0 AND NOT flags & 1")}
    check(not unreachable & {int(addr, 16) for _, addr in objects},
          "none is unreachable")
    check(snap.one("SELECT CAST(value AS INTEGER) FROM certificate "
                   "WHERE item = 'private bytes read late' "
                   "AND ok = 0")[0] >= 2 * 8192,
          "the certificate counts them")
    anon, unknown = snap.one(
        "SELECT private_anon_bytes, unknown_bytes FROM snapshot")
    check(anon >= unknown >= 2 * 8192, "they are unexplained private memory")
    check(snap.one("SELECT consistency FROM snapshot")[0] == "late_memory",
          "nobody is told that it is exact")
    check(victim.alive(), "the program runs on")
    victim.end()


main()
