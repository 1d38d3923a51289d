"""Snapshots beside malloc's own account of a real program.

SPDX-License-Identifier: MIT
"""
import re
import struct
import subprocess

import accounts
from target import Target, check, need, stat_fields, wait_until


def wait_for_account(target, num_bytes):
    """What the program says when its account is made and it waits."""
    said = b""
    while len(said) < num_bytes:
        more = target.process.stdout.read(num_bytes - len(said))
        check(more, "the program ended without an account")
        said += more
    wait_until(lambda: stat_fields(target.pid)[0] == "S",
               "the program waits for input")
    return said


# malloc's sizes are those of chunks. They begin with a word of header; the
# word behind that belongs to the block before and is not counted twice. Only
# `top` has nobody behind it: heapfork calls both words its header.
HEADER = 8
# What stands before the first chunk of a thread's arena: heap_info (48 bytes
# since glibc 2.35, 32 before) and malloc_state (2200), rounded up to 16.
ARENA_HEADERS = (2256, 2240)


class HeapSums:
    """A snapshot's sums in malloc's way of counting: whole chunks."""

    def __init__(self, snapshot):
        numbers = dict(snapshot.rows("SELECT key, value FROM meta"))
        self.system, self.num_arenas = snapshot.rows(
            "SELECT total(end - start), count(*) FROM heap_area "
            "WHERE kind <> 'mmap'")[0]
        check(snapshot.value("SELECT count(*) FROM heap_area "
                             "WHERE kind = 'heap'") == 0,
              "an arena of more than one heap was not planned here")
        self.mapped, self.num_mapped = snapshot.rows(
            "SELECT total(end - start), count(*) FROM heap_area "
            "WHERE kind = 'mmap'")[0]
        self.num_free = int(numbers["free_blocks"])
        self.free = int(numbers["free_bytes"]) + \
            HEADER * (self.num_free + self.num_arenas)
        self.num_cached = int(numbers["cached_blocks"])
        self.cached = int(numbers["cached_bytes"]) + HEADER * self.num_cached
        self.live = snapshot.value(
            "SELECT total(o.size_bytes + ?) FROM object o "
            "JOIN heap_area a ON a.id = o.area_id "
            "WHERE a.kind <> 'mmap' AND o.size_bytes > 0", HEADER)
        self.main_top = snapshot.value(
            "SELECT max(a.trim_bytes) FROM heap_area a JOIN segment s "
            "ON a.start >= s.start AND a.start < s.end "
            "WHERE s.kind = 'brk'") + 2 * HEADER
        # The same sums as a user sees them.
        summary = {row[0]: row[1:3] for row in snapshot.rows(
            "SELECT item, count, bytes FROM heap_summary")}
        check(summary["arena"] == (self.num_arenas, self.system) and
              summary["free"][0] == self.num_free and
              summary["cached"][0] == self.num_cached,
              "heap_summary does not agree with its tables: %s" % summary)
        areas = snapshot.rows("SELECT total(free_bytes), total(cached_bytes)"
                              " FROM heap_area")[0]
        check(areas == (int(numbers["free_bytes"]),
                        int(numbers["cached_bytes"])), "areas: %s" % (areas,))


def agree(what, ours, theirs):
    check(ours == theirs, "%s: snapshot %d, malloc %d" % (what, ours, theirs))


def python_account(tcache):
    """malloc's account of a python3 with arenas, caches and big chunks."""
    target = Target([need("python3"), "-c", accounts.PYTHON, "@FOLDER@/xml"],
                    env={"PYTHONMALLOC": "malloc", "GLIBC_TUNABLES":
                         "" if tcache else "glibc.malloc.tcache_count=0"},
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with target:
        (arena, ordblks, smblks, hblks, hblkhd, _, fsmblks, uordblks,
         fordblks, keepcost) = struct.unpack(
             "10Q", wait_for_account(target, 80))
        heap = HeapSums(target.snapshot())
        with open(target.folder + "/xml") as f:
            xml = f.read().partition("</malloc>")[0]
    agree("arenas", heap.num_arenas, 4)
    agree("arena", heap.system, arena)
    agree("hblks", heap.num_mapped, hblks)
    agree("hblkhd", heap.mapped, hblkhd)
    agree("ordblks", heap.num_free, ordblks)
    agree("keepcost", heap.main_top, keepcost)
    # Free are, for malloc, the bins, top and the fastbins. heapfork counts the
    # fastbins as cached, together with tcache.
    agree("fordblks", heap.free + fsmblks, fordblks)
    # For malloc, what lies in tcache is in use. (Four threads, 64 lists of 7.)
    num_tcache = heap.num_cached - smblks
    in_tcache = heap.cached - fsmblks
    if tcache:
        check(100 < num_tcache <= 4 * 64 * 7 and in_tcache >= 32 * num_tcache,
              "%d chunks, %d bytes in tcache" % (num_tcache, in_tcache))
    else:
        agree("fastbins", heap.num_cached, smblks)
        agree("bytes in fastbins", heap.cached, fsmblks)
    # In use is the rest; it has the headers of the three threads' arenas.
    headers = uordblks - heap.live - in_tcache
    check(headers in [3 * size for size in ARENA_HEADERS],
          "uordblks: snapshot %d + %d in tcache, malloc %d, differ by %d" %
          (heap.live, in_tcache, uordblks, headers))
    # malloc_info(), asked just before, says the same, arena by arena and in
    # sum. It adds up size words of chunks in bins with their lowest bit, which
    # is set in each of them, but not in that of top.
    count, size = map(int, re.findall(
        r'<total type="rest" count="(\d+)" size="(\d+)"/>', xml)[-1])
    agree("malloc_info: free chunks", heap.num_free, count)
    check(size - heap.free in (0, count - heap.num_arenas),
          "malloc_info: %d free, snapshot %d" % (size, heap.free))
    count, size = map(int, re.findall(
        r'<total type="mmap" count="(\d+)" size="(\d+)"/>', xml)[-1])
    agree("malloc_info: mapped chunks", heap.num_mapped, count)
    agree("malloc_info: mapped bytes", heap.mapped, size)
    agree("malloc_info: arenas", heap.num_arenas, xml.count("<heap nr="))
    print("%d bytes in %d arenas, of it %d free, %d in fastbins, %d in tcache;"
          " %d in %d mappings: to the byte" % (
              arena, heap.num_arenas, heap.free, fsmblks, in_tcache, hblkhd,
              hblks))


def case_python_account():
    """Equal to mallinfo2() and malloc_info(), to the byte."""
    python_account(tcache=True)
    python_account(tcache=False)


def perl_account(tcache):
    target = Target([need("perl"), "-e", accounts.PERL, "@FOLDER@/stats"],
                    env={"GLIBC_TUNABLES":
                         "" if tcache else "glibc.malloc.tcache_count=0"},
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with target:
        wait_for_account(target, 20)
        heap = HeapSums(target.snapshot())
        with open(target.folder + "/stats") as f:
            stats = dict(re.findall(r"^(.*?) *= *(\d+)$", f.read(), re.M))
    agree("arenas", heap.num_arenas, 1)
    agree("system bytes", heap.system + heap.mapped,
          int(stats["system bytes"]))
    # One thread, and no arena but the main one, which has no headers.
    agree("all chunks", heap.live + heap.cached + heap.free, heap.system)
    # What lies in tcache is in use for malloc; without it all is exact.
    in_use = int(stats["in use bytes"])
    in_tcache = in_use - heap.live - heap.mapped
    if tcache:
        check(0 < in_tcache <= heap.cached, "in use: malloc %d, snapshot %d, "
              "and %d cached" % (in_use, heap.live + heap.mapped, heap.cached))
    else:
        agree("in use bytes", heap.live + heap.mapped, in_use)
    check(heap.num_mapped <= int(stats["max mmap regions"]) and
          heap.mapped <= int(stats["max mmap bytes"]), "mapped chunks")
    print("%d bytes in use, of it %d in tcache: to the byte" %
          (in_use, in_tcache))


def case_perl_account():
    """Equal to malloc_stats(), to the byte."""
    perl_account(tcache=True)
    perl_account(tcache=False)
