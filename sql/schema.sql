-- The snapshot file: every table, every column.
-- SPDX-License-Identifier: MIT
--
-- One SQLite file holds one snapshot of one process. This file is the format's
-- document: each column says its unit, its meaning, and what NULL means where
-- NULL can occur. Words used everywhere:
--
--  * ids are dense integers from 1; `x_id` refers to the id of table `x`
--  * addresses are 64-bit integers (user space ends at 2^47: never negative)
--  * sizes end in _bytes, times in _ns; flags are sums of the bits listed
--  * NULL is "unknown" or "does not apply", never zero
--  * closed lists are written `one of: a, b, c`
--
-- Promised to users are the views (views.sql). Tables may change with
-- user_version. No content of the process's memory is stored: shape only.

PRAGMA application_id = 0x4846524b; -- the bytes "HFRK"
PRAGMA user_version = 1;

-- Facts about the file itself: format, tool, options. Keys that may be there:
--   tool                     name and version of the program that wrote it
--   partial                  why it is partial, of: memory (could not be
--                            read), threads (could not be stopped),
--                            unsupported (a heap of an unknown version),
--                            no_allocator (no reader found any heap); with
--                            commas; no such key: it is complete
--   unsupported              the heap whose version no reader knows
--   not_captured             which memory is missing from the start, and why
--   capture.fifo             1: real-time priority in the pause; 0: no
--   capture.restarted_calls  system calls restarted instead of EINTR
--   capture.vfork_children   processes that ran on in the memory of the
--                            process while it was forked
--   capture.vfork_stopped    processes in the memory of the process that were
--                            stopped with it
--   capture.locked_arenas    arenas of the allocator whose lock was held
--   capture.threads_inside   threads in the allocator, as seen in the pause
--   capture.way_home         could a borrowed thread find its way back if the
--                            tool was killed: full, or why not, one of:
--                            no_site, no_return, no_stack, shadow, seccomp
--   capture.descriptors_closed  1: the child held no descriptor; 0: it did
--   capture.journaled        1: a note named the child until it was reaped, for
--                            the next run, had this one been killed; 0: none
--   capture.reaped           1: the child left no zombie; 0: it did
--   capture.predicted_pause_ns  the pause as foretold from the page tables
--   capture.prepared_bytes   memory put into huge pages before the pause; NULL:
--                            that was not asked for
--   capture.read_from        where the index had the bytes from: memory or file
--                            (a copy of the child's memory there, and the child
--                            was gone before), or direct (the child itself)
--   capture.read_direct_because  why it was the child itself
--   capture.copied_bytes     memory that was copied, with zeros
--   suspect_objects          rows of object with the flag suspect
--   cached_blocks, cached_bytes, free_blocks, free_bytes    of all areas
--   scanned_bytes, missing_bytes    memory searched for pointers, and not
--   root_holders             how many objects are root holders
CREATE TABLE meta(
  key TEXT PRIMARY KEY,       -- name of the fact: tool, partial, ...
  value TEXT                  -- its value as text; NULL: not known
) STRICT, WITHOUT ROWID;

-- Where, when and how the snapshot was taken. One row.
CREATE TABLE snapshot(
  id INTEGER PRIMARY KEY,     -- always 1
  taken_ns INTEGER,           -- ns since 1970 (UTC) of the instant; NULL: a core without it
  pid INTEGER,                -- process id in the pid namespace of the tool; NULL: unknown
  start_time INTEGER,         -- start of the process, clock ticks since boot; NULL: unknown
  boot_id TEXT,               -- the kernel's boot id (UUID); NULL: unknown
  command TEXT,               -- name of the process (comm), never its arguments; NULL: unknown
  tool TEXT,                  -- name and version of the program that wrote this file
  source TEXT                 -- one of: live, core, agent, stop; NULL: unknown
    CHECK (source IN ('live', 'core', 'agent', 'stop')),
  safe_point TEXT             -- were all threads outside of the allocator when they were stopped; one of: found (yes), missed (no, after safe_point_tries stops), unknown (nothing is known of the allocator), none (nobody looked); NULL: unknown
    CHECK (safe_point IN ('found', 'missed', 'unknown', 'none')),
  consistency TEXT            -- the gravest of: exact, late_memory (some private memory is not of the instant: kept out of the fork, it was read while the process ran), in_allocator (a thread was inside malloc, or an arena was locked), partial_threads (one could not be stopped); NULL: unknown
    CHECK (consistency IN ('exact', 'late_memory', 'in_allocator',
      'partial_threads')),
  partial INTEGER             -- 1: something could not be read or saved; 0: complete; NULL: unknown
    CHECK (partial IN (0, 1)),
  pause_ns INTEGER,           -- time during which the process stood still; NULL: it did not, or unknown
  stop_ns INTEGER,            -- of pause_ns: stopping all threads; NULL: unknown
  regs_ns INTEGER,            -- of pause_ns: saving registers; NULL: unknown
  fork_ns INTEGER,            -- of pause_ns: the fork; NULL: unknown
  resume_ns INTEGER,          -- of pause_ns: letting all threads go; NULL: unknown
  reap_ns INTEGER,            -- second, short stop that removed the child; NULL: none, or unknown
  child_life_ns INTEGER,      -- how long the frozen child existed; NULL: no child, or unknown
  cow_pages INTEGER,          -- pages copied because the process wrote to them meanwhile; NULL: unknown
  parent_faults INTEGER,      -- minor faults of the process while the child existed: copies, and pages it got back for itself; NULL: unknown
  dropped_bytes INTEGER,      -- memory the child gave back before its end; NULL: no child, or unknown
  peak_private_bytes INTEGER, -- most memory the child had to itself at any time, its cost; NULL: no child, or unknown
  attempts INTEGER,           -- stops it took, those for a safe point too; 1 normally; NULL: unknown
  missed_pause_ns INTEGER,    -- longest pause of a stop that was not taken; 0: there was none; NULL: unknown
  safe_point_tries INTEGER,   -- stops to find a safe point; 0: nobody looked; NULL: unknown
  pause_calls INTEGER,        -- ptrace and wait calls in the pause; NULL: unknown
  max_thread_calls INTEGER,   -- of them, most for one thread that was not borrowed; NULL: unknown
  partial_threads INTEGER,    -- of threads: could not be stopped; NULL: unknown
  threads INTEGER,            -- threads of the process at the instant; NULL: unknown
  objects INTEGER,            -- live blocks: rows of object with size_bytes > 0; NULL: unknown
  refs INTEGER,               -- rows of ref; NULL: unknown
  live_bytes INTEGER,         -- usable bytes of all live blocks; NULL: unknown
  private_anon_bytes INTEGER, -- resident private anonymous writable memory; NULL: unknown
  unknown_bytes INTEGER,      -- of private_anon_bytes: what no reader and no root explains; NULL: unknown
  CHECK (id = 1)
) STRICT;

-- ELF objects that were loaded.
CREATE TABLE module(
  id INTEGER PRIMARY KEY,     -- dense id
  path TEXT,                  -- path as mapped; NULL: it has no file
  build_id TEXT,              -- lower-case hexadecimal; NULL: it has none
  base INTEGER,               -- lowest address of its mappings; NULL: unknown
  bias INTEGER                -- run-time address minus address in the ELF file; NULL: unknown
) STRICT;

-- Mappings of the address space, in address order.
CREATE TABLE segment(
  id INTEGER PRIMARY KEY,     -- dense id in address order
  start INTEGER NOT NULL,     -- first address
  "end" INTEGER NOT NULL,     -- first address behind it
  prot TEXT,                  -- as in /proc/PID/maps: rw-p; NULL: unknown
  kind TEXT,                  -- anon, brk, stack, file, shared, vdso, special; NULL: unknown
  module_id INTEGER,          -- the module mapped here; NULL: none
  resident_bytes INTEGER,     -- bytes present in memory; NULL: unknown
  captured TEXT               -- one of: saved, zero (untouched), file (unmodified, read from the file), missing, late (read after the instant: shared memory, or kept out of the fork); NULL: unknown
    CHECK (captured IN ('saved', 'zero', 'file', 'missing', 'late')),
  reason TEXT                 -- why it is not of the instant, one of: dontfork (MADV_DONTFORK keeps it out of forks), wipeonfork (MADV_WIPEONFORK empties it in forks), shared (others may write to it), no_access (the program may not touch it), device (reading it may do something), kernel (vvar and such); NULL: it is of the instant
    CHECK (reason IN ('dontfork', 'wipeonfork', 'shared', 'no_access',
      'device', 'kernel')),
  advice TEXT                 -- what the program or a driver told the kernel about it, with commas, of: dontfork, wipeonfork, dontdump (MADV_DONTDUMP), io; NULL: nothing, or unknown
) STRICT;

-- Threads at the instant; the first is the thread group's leader.
CREATE TABLE thread(
  id INTEGER PRIMARY KEY,     -- dense id
  tid INTEGER,                -- kernel thread id; NULL: unknown
  name TEXT,                  -- comm of the thread; NULL: unknown
  state TEXT,                 -- letter of /proc/PID/stat: R, S, D, T, ...; NULL: unknown
  stop_how TEXT               -- one of: syscall (blocked in one), user (in its own code), signal (about to be delivered), partial (could not be stopped); NULL: unknown
    CHECK (stop_how IN ('syscall', 'user', 'signal', 'partial')),
  pc INTEGER,                 -- program counter; NULL: unknown
  sp INTEGER,                 -- stack pointer; NULL: unknown
  bp INTEGER,                 -- register rbp: the frame pointer, if the code keeps one; it may hold any number, as a signed one; NULL: unknown
  syscall INTEGER,            -- number of the system call it was in; NULL: none, or unknown
  syscall_name TEXT,          -- its name: futex, read, ...; NULL: none, or a number without a name
  stack_end TEXT              -- how far its stack was followed, one of: whole (to its start), lost (no way further), too_deep (the rest was left out), none (no registers); NULL: not tried
    CHECK (stack_end IN ('whole', 'lost', 'too_deep', 'none')),
  in_allocator INTEGER        -- 1: it was inside the allocator, or waited in the kernel for its sake (a lock, mmap); 0: not; NULL: unknown
    CHECK (in_allocator IN (0, 1))
) STRICT;

-- Registers of the threads at the instant. A thread that could not be stopped
-- has none.
CREATE TABLE thread_register(
  thread_id INTEGER NOT NULL, -- the thread
  number INTEGER NOT NULL,    -- place in the usual order: rax is 0
  name TEXT NOT NULL,         -- rax, rbx, ..., rip, eflags, fs_base, ...
  value INTEGER NOT NULL,     -- its 64 bits, as a signed number
  PRIMARY KEY (thread_id, number)
) STRICT, WITHOUT ROWID;

-- Stack frames, where stacks were unwound.
CREATE TABLE frame(
  id INTEGER PRIMARY KEY,     -- dense id
  thread_id INTEGER NOT NULL, -- the thread
  level INTEGER NOT NULL,     -- 0 is the innermost
  pc INTEGER,                 -- program counter; NULL: unknown
  sp INTEGER,                 -- stack pointer in this frame; NULL: unknown
  cfa INTEGER,                -- canonical frame address: end of the frame on the stack; NULL: unknown
  module_id INTEGER,          -- the module of pc; NULL: none, or unknown
  function TEXT,              -- demangled name; NULL: no symbol
  file TEXT,                  -- source file; NULL: no debug information
  line INTEGER,               -- source line from 1; NULL: no debug information
  inlined INTEGER             -- 1: inlined into the next frame; 0: not; NULL: unknown
    CHECK (inlined IN (0, 1)),
  is_signal INTEGER           -- 1: the kernel's frame, for the handler of a signal; 0: not; NULL: unknown
    CHECK (is_signal IN (0, 1)),
  how TEXT                    -- how it was found: registers (innermost), cfi (call frame information), frame_pointer (inferred: without call frame information), inline (no frame of its own: debug information says so), scan, runtime; NULL: unknown
) STRICT;

-- Heap readers that recognised something in the process.
CREATE TABLE reader(
  id INTEGER PRIMARY KEY,     -- dense id
  name TEXT NOT NULL,         -- glibc-malloc, ...
  version TEXT,               -- version of the allocator found in the process; NULL: unknown
  confidence TEXT             -- one of: low, medium, high; NULL: unknown
    CHECK (confidence IN ('low', 'medium', 'high')),
  how TEXT                    -- where its anchors and layout came from; NULL: unknown
) STRICT;

-- Ranges of memory that a reader explains, with headers and free space.
CREATE TABLE heap_area(
  id INTEGER PRIMARY KEY,     -- dense id
  reader_id INTEGER,          -- the reader; NULL: unknown
  kind TEXT NOT NULL          -- one of: arena (main heap), heap (further heap of an arena), mmap (one block with its own mapping), block (of a block-structured heap)
    CHECK (kind IN ('arena', 'heap', 'mmap', 'block')),
  start INTEGER NOT NULL,     -- first address
  "end" INTEGER NOT NULL,     -- first address behind it
  used_bytes INTEGER,         -- usable bytes of live blocks; NULL: unknown
  free_bytes INTEGER,         -- free blocks, and the unused rest at the end; NULL: unknown
  cached_bytes INTEGER,       -- freed blocks kept in per-thread or fast lists; NULL: unknown
  trim_bytes INTEGER,         -- of free_bytes: the unused rest at the end, could be given back; NULL: unknown
  arena INTEGER,              -- which arena of the reader it belongs to, 0 is the main one; NULL: unknown
  suspect INTEGER             -- 1: its arena was locked, or a thread inside the allocator was at work in it, so its free lists may be half changed; 0: not; NULL: unknown
    CHECK (suspect IN (0, 1))
) STRICT;

-- Types of objects.
CREATE TABLE type(
  id INTEGER PRIMARY KEY,     -- dense id
  name TEXT NOT NULL,         -- short name for people
  full_name TEXT,             -- complete name, e.g. with namespaces and template arguments; NULL: same as name
  kind TEXT NOT NULL,         -- one of: size_class (nothing better than the size is known), primitive, struct, class, union, array, container_node, container_buffer, rust_enum, allocator_internal, root_holder, pseudo, or a GHC closure kind
  size_bytes INTEGER,         -- size of one instance; NULL: not one size, or unknown
  module_id INTEGER,          -- module that defines it; NULL: none, or unknown
  package TEXT                -- package or crate that defines it; NULL: unknown
) STRICT;

-- Everything that holds or is held: root holders first, then live blocks in
-- address order, then two pseudo objects. `(several roots)` dominates reachable
-- objects that more than one root holder keeps; `(unreachable)` dominates what is
-- unreachable: leak heads, and what several of those share. sum(size_bytes) is the heap: each byte is counted once.
CREATE TABLE object(
  id INTEGER PRIMARY KEY,     -- dense id
  addr INTEGER,               -- first byte the program sees; NULL: it has no address (registers, pseudo objects)
  size_bytes INTEGER NOT NULL, -- usable size; 0: root holder, pseudo object, or inside another object
  extent_bytes INTEGER,       -- length of what has size_bytes 0 (a global's size, a sub-object's); NULL: same as size_bytes, or none
  type_id INTEGER NOT NULL,   -- its type
  reader_id INTEGER,          -- reader that found it; NULL: root holder or pseudo object
  area_id INTEGER,            -- heap_area it lies in; NULL: none
  container_id INTEGER,       -- object it lies inside of; NULL: it stands alone
  flags INTEGER NOT NULL,     -- bits: 1 reachable, 2 static, 4 pseudo, 8 sub_object, 16 suspect (a thread in the allocator was at work on it: it may be free, or have another size), 32 root_holder
  idom INTEGER NOT NULL,      -- object that dominates it immediately: every path from the roots to it goes through that; 0: the virtual root (root holders and pseudo objects only)
  retained_bytes INTEGER NOT NULL, -- bytes that would become free with it: its own and all it dominates
  root_distance INTEGER,      -- references on a shortest path from a root holder; 0: is one; NULL: unreachable or pseudo
  bfs_parent INTEGER          -- object before it on one shortest path; NULL: root holder, unreachable or pseudo
) STRICT;

-- Evidence for types that were inferred. Absent: the type is certain, or only
-- a size class.
CREATE TABLE object_type(
  object_id INTEGER PRIMARY KEY, -- the object
  rule TEXT NOT NULL,         -- vtable, rtti, edge, container, ...
  confidence REAL,            -- 0 to 1; NULL: not estimated
  votes INTEGER,              -- observations in favour; NULL: not counted
  conflicts INTEGER           -- observations against; NULL: not counted
) STRICT;

-- References: the word at `slot` of `src` points into `dst`.
CREATE TABLE ref(
  src INTEGER NOT NULL,       -- object that holds the pointer
  slot INTEGER NOT NULL,      -- offset of the word in src, bytes; negative: synthetic, not a word in memory
  dst INTEGER NOT NULL,       -- object it points into
  flags INTEGER NOT NULL,     -- bits: 1 interior (not to the first byte), 2 conservative (may be a number that looks like a pointer), 4 weak, 8 ephemeron, 16 tagged, 32 cross_heap, 64 by_root; weak and ephemeron ones keep nothing alive
  member_id INTEGER,          -- member of the type of src; NULL: unknown
  PRIMARY KEY (src, slot)
) STRICT, WITHOUT ROWID;

-- Members of types, down to the leaves: path `list.head.next`.
CREATE TABLE member(
  id INTEGER PRIMARY KEY,     -- dense id
  type_id INTEGER NOT NULL,   -- the type
  offset INTEGER NOT NULL,    -- bytes from the start of the type
  path TEXT NOT NULL          -- names from the outside in, with dots and [n]
) STRICT;

-- What root holders hold: one row for each word (or register) of a root holder
-- that points into an object. The name of the holder itself is its type's name.
CREATE TABLE root(
  id INTEGER PRIMARY KEY,     -- dense id
  holder_id INTEGER NOT NULL, -- the object that is the root holder
  object_id INTEGER,          -- the object held; NULL: the row is about the holder as a whole
  kind TEXT NOT NULL          -- one of: global, tls, register, stack, frame_local, agent_named, unknown_memory, shared, stable_ptr, caf, run_queue, weak, spark
    CHECK (kind IN ('global', 'tls', 'register', 'stack', 'frame_local',
      'agent_named', 'unknown_memory', 'shared', 'stable_ptr', 'caf',
      'run_queue', 'weak', 'spark')),
  name TEXT,                  -- name of this root: symbol or register; NULL: nameless
  addr INTEGER,               -- address of the root; NULL: none (registers)
  thread_id INTEGER,          -- thread it belongs to; NULL: none
  frame_id INTEGER,           -- stack frame it lies in; NULL: none, or unknown
  module_id INTEGER,          -- module it belongs to; NULL: none
  type_id INTEGER,            -- type of the variable; NULL: unknown
  confidence REAL             -- 0 to 1: is it really used as a root; NULL: not estimated
) STRICT;

-- Sums by type, so that a census never reads table object.
CREATE TABLE type_stat(
  type_id INTEGER PRIMARY KEY, -- the type
  count INTEGER NOT NULL,     -- objects
  bytes INTEGER NOT NULL,     -- sum of size_bytes
  unreachable_count INTEGER NOT NULL, -- of count: unreachable
  unreachable_bytes INTEGER NOT NULL, -- of bytes: unreachable
  retained_bytes INTEGER NOT NULL -- sum over instances with no instance of the same type above them in the dominator tree: a lower bound of what would become free with all of them
) STRICT;

-- Sums by type and the type of the immediate dominator.
CREATE TABLE type_dom(
  type_id INTEGER NOT NULL,   -- the type
  dom_type_id INTEGER NOT NULL, -- type of the immediate dominator
  count INTEGER NOT NULL,     -- objects
  bytes INTEGER NOT NULL,     -- sum of size_bytes
  PRIMARY KEY (type_id, dom_type_id)
) STRICT, WITHOUT ROWID;

-- Sums of references by type of source, member and type of target.
CREATE TABLE type_edge(
  src_type_id INTEGER NOT NULL, -- type of the object that points
  member_id INTEGER NOT NULL, -- member that points; 0: unknown
  dst_type_id INTEGER NOT NULL, -- type of the object pointed to
  count INTEGER NOT NULL,     -- references
  bytes INTEGER NOT NULL,     -- sum of size_bytes of the distinct targets
  PRIMARY KEY (src_type_id, member_id, dst_type_id)
) STRICT, WITHOUT ROWID;

-- Merged paths from roots, as a tree of types.
CREATE TABLE retainer_path(
  id INTEGER PRIMARY KEY,     -- dense id; a parent precedes its children
  hash INTEGER NOT NULL,      -- of the whole path: equal in every snapshot
  parent_id INTEGER,          -- step before it; NULL: a root
  type_id INTEGER NOT NULL,   -- type on this step
  member_id INTEGER,          -- member of the parent that points here; NULL: unknown
  count INTEGER NOT NULL,     -- objects on this step
  bytes INTEGER NOT NULL,     -- sum of their size_bytes
  retained_bytes INTEGER NOT NULL -- bytes of this step and all below it
) STRICT;

-- What a GHC closure is.
CREATE TABLE closure(
  object_id INTEGER PRIMARY KEY, -- the object
  info_addr INTEGER,          -- address of its info table; NULL: unknown
  closure_type INTEGER        -- number of the closure type in its GHC version; NULL: unknown
) STRICT;

-- Places of the program where objects were allocated, as a tree of calls.
CREATE TABLE site(
  id INTEGER PRIMARY KEY,     -- dense id; a caller precedes its callees
  parent_id INTEGER,          -- the caller; NULL: outermost
  pc INTEGER,                 -- program counter; NULL: unknown
  module_id INTEGER,          -- module of pc; NULL: unknown
  function TEXT,              -- demangled name; NULL: no symbol
  file TEXT,                  -- source file; NULL: no debug information
  line INTEGER                -- source line from 1; NULL: no debug information
) STRICT;

-- Where objects were allocated, if someone recorded it.
CREATE TABLE object_site(
  object_id INTEGER PRIMARY KEY, -- the object
  site_id INTEGER NOT NULL,   -- innermost call
  requested_bytes INTEGER     -- bytes asked for; NULL: unknown
) STRICT;

-- Damage and doubt met on the way: one row for each kind and reader.
CREATE TABLE anomaly(
  kind TEXT NOT NULL,         -- short lower-case words: "chunk size"
  addr INTEGER,               -- where it was seen first; NULL: nowhere
  reader_id INTEGER,          -- reader that saw it; NULL: none
  count INTEGER NOT NULL,     -- how often
  detail TEXT                 -- of the first one; NULL: nothing to say
) STRICT;

-- How long the phases of the work took.
CREATE TABLE phase(
  name TEXT NOT NULL,         -- scan, dominators, ...; in the order they ran
  ns INTEGER NOT NULL,        -- elapsed time
  items INTEGER,              -- what the phase handled: words, objects, ..., of copy bytes; NULL: not counted
  peak_bytes INTEGER          -- memory of its own arrays at their largest; NULL: not counted
) STRICT;
