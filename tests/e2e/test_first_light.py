#!/usr/bin/env python3
"""One true line from a running process to SQL answers: the victim tells who
holds each of its objects, and the snapshot must say the same.

usage: test_first_light.py HEAPFORK VICTIM

SPDX-License-Identifier: MIT
"""
import sys

from hf_e2e import Snapshot, Victim, check, children, descriptors, threads

REACHABLE = 1


def check_object(snap, name, addr, usable, kind, holder):
    row = snap.one("SELECT id, size_bytes, flags, root_distance FROM object "
                   "WHERE addr = ? AND size_bytes > 0", int(addr, 16))
    if kind == "freed":
        check(row is None, "%s is not an object" % name)
        return
    check(row is not None, "%s is an object" % name)
    object_id, size, flags, distance = row
    check(size == int(usable), "%s has %s usable bytes" % (name, usable))
    top_kind, top_name = snap.holder(object_id)
    if kind == "unreachable":
        check(not flags & REACHABLE and distance is None,
              "%s is unreachable" % name)
        check(top_name == "(unreachable)", "%s hangs there" % name)
        return
    check(flags & REACHABLE and distance >= 1, "%s is reachable" % name)
    if kind == "several":
        check(top_name == "(several roots)", "%s has several roots" % name)
        return
    if kind == "register":
        names = {r[0] for r in snap.rows(
            "SELECT name FROM root WHERE object_id = ? AND kind = ?",
            object_id, kind)}
        check(holder in names, "%s is in register %s: %s" %
              (name, holder, names))
        return
    check(top_kind == "root_holder", "%s has one root holder" % name)
    if holder != "-":
        check(top_name == holder, "%s is held by %s, not %s" %
              (name, holder, top_name))
    # Follow the shortest path up to the root itself.
    path = object_id
    while distance > 1:
        path, distance = snap.one(
            "SELECT p.id, p.root_distance FROM object o JOIN object p "
            "ON p.id = o.bfs_parent WHERE o.id = ?", path)
    kinds = {r[0] for r in snap.rows(
        "SELECT kind FROM root WHERE object_id = ?", path)}
    check(kind in kinds, "%s is kept by a root of kind %s: %s" %
          (name, kind, kinds))


def main():
    heapfork, program = sys.argv[1:3]
    victim = Victim([program])
    before = threads(victim.pid), descriptors(victim.pid)
    snap = Snapshot(heapfork, victim.pid)

    check(snap.one("PRAGMA integrity_check") == ("ok",), "the file is sound")
    for words in victim.words("object"):
        check_object(snap, *words)

    heads = {r[0] for r in snap.rows(
        "SELECT o.addr FROM object o JOIN object u ON u.id = o.idom "
        "JOIN type t ON t.id = u.type_id WHERE t.name = '(unreachable)'")}
    lost = {w[0]: int(w[1], 16) for w in victim.words("object")
            if w[3] == "unreachable"}
    check(lost["lost_head"] in heads and lost["lost_below"] not in heads,
          "a leaked chain hangs by its head")
    check((lost["lost_cycle_a"] in heads) != (lost["lost_cycle_b"] in heads),
          "a leaked cycle hangs by one of its members")

    for name, count in victim.words("class"):
        row = snap.one("SELECT count, kind FROM census WHERE type = ?", name)
        check(row == (int(count), "class"), "%s instances of %s: %s" %
              (count, name, row))

    for holder, nodes, size in victim.words("list"):
        row = snap.one(
            "SELECT o.retained_bytes FROM object o JOIN type t "
            "ON t.id = o.type_id WHERE t.name = ? AND t.kind = 'root_holder'",
            holder)
        check(row == (int(size),), "%s retains its %s nodes: %s bytes, %s" %
              (holder, nodes, size, row))

    check(snap.one("SELECT sum(size_bytes) FROM object") ==
          snap.one("SELECT sum(bytes) FROM census"), "the census is the heap")
    check(snap.one("SELECT count(*) FROM object o JOIN type t ON t.id = "
                   "o.type_id WHERE o.idom = 0 AND t.kind NOT IN "
                   "('root_holder', 'pseudo')") == (0,),
          "only root holders have no dominator")
    check(snap.one("SELECT max(r.c) FROM (SELECT count(*) c FROM object o "
                   "WHERE o.size_bytes > 0 GROUP BY o.addr) r") == (1,),
          "no object is there twice")
    names = {r[0] for r in snap.rows("SELECT name FROM thread")}
    check("worker-7" in names, "threads have their names")

    check(victim.alive(), "the program runs on")
    check((threads(victim.pid), descriptors(victim.pid)) == before,
          "with the same threads and descriptors")
    check(children(victim.pid) == [], "and no child, dead or alive")
    victim.end()


main()
