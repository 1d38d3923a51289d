-- Views: the promise to users. Names and columns stay.
-- SPDX-License-Identifier: MIT
--
-- Every view answers fast on a heap of ten million objects if it is used as
-- its example shows. Views that are chains (path_to_root, retainer) walk only
-- from the object that is asked for: a recursive query in a scalar subquery
-- sees the row it stands beside, and json_each() makes rows of its result.

-- Live objects by type. Never reads table object.
--   type, kind          the type and its kind (schema.sql, table type)
--   count, bytes        instances and the sum of their sizes
--   retained_bytes      what would become free with all of them (lower bound)
--   unreachable_count, unreachable_bytes    of these: unreachable
-- Example: SELECT * FROM census ORDER BY bytes DESC LIMIT 20;
CREATE VIEW census AS
SELECT t.name AS type, t.kind AS kind, s.count AS count, s.bytes AS bytes,
  s.retained_bytes AS retained_bytes,
  s.unreachable_count AS unreachable_count,
  s.unreachable_bytes AS unreachable_bytes
FROM type_stat s JOIN type t ON t.id = s.type_id
WHERE t.kind NOT IN ('root_holder', 'pseudo') AND s.count > 0;

-- The census of the standard containers' own nodes and buffers. Columns as in
-- census.
-- Example: SELECT * FROM census_container ORDER BY retained_bytes DESC;
CREATE VIEW census_container AS
SELECT * FROM census WHERE kind IN ('container_node', 'container_buffer');

-- Every unreachable block.
--   id, addr, type, kind, size_bytes, retained_bytes    the block
-- Example: SELECT type, size_bytes, count(*) FROM leak GROUP BY 1, 2;
CREATE VIEW leak AS
SELECT o.id AS id, o.addr AS addr, t.name AS type, t.kind AS kind,
  o.size_bytes AS size_bytes, o.retained_bytes AS retained_bytes
FROM object o JOIN type t ON t.id = o.type_id
WHERE o.root_distance IS NULL AND o.size_bytes > 0;

-- The tops of unreachable structures: what nothing points to, one block of a
-- cycle, and what several such structures share. Together they retain all that
-- is unreachable, each byte once.
--   id, addr, type, kind, size_bytes    the block
--   retained_bytes      of everything that only it keeps
--   referrers           references to it; 0: the usual leak; else a cycle, or
--                       shared by other unreachable structures
-- Example: SELECT * FROM leak_root ORDER BY retained_bytes DESC LIMIT 20;
CREATE VIEW leak_root AS
SELECT o.id AS id, o.addr AS addr, t.name AS type, t.kind AS kind,
  o.size_bytes AS size_bytes, o.retained_bytes AS retained_bytes,
  (SELECT count(*) FROM ref r WHERE r.dst = o.id) AS referrers
FROM object o CROSS JOIN type t ON t.id = o.type_id
WHERE o.idom = (SELECT p.id FROM object p JOIN type pt ON pt.id = p.type_id
                WHERE p.flags & 4 <> 0 AND pt.name = '(unreachable)');

-- What retains most: objects, root holders and pseudo objects.
--   id, addr, type, kind, size_bytes, retained_bytes    the object
--   root_distance       references from a root; NULL: unreachable or pseudo
--   dominator_id        object that dominates it; 0: the virtual root
-- Example: SELECT * FROM retained_top ORDER BY retained_bytes DESC LIMIT 20;
CREATE VIEW retained_top AS
SELECT o.id AS id, o.addr AS addr, t.name AS type, t.kind AS kind,
  o.size_bytes AS size_bytes, o.retained_bytes AS retained_bytes,
  o.root_distance AS root_distance, o.idom AS dominator_id
FROM object o CROSS JOIN type t ON t.id = o.type_id;

-- Who keeps an object: its dominators, from the nearest up to a root holder
-- or pseudo object. It could be freed by cutting any one of them loose.
--   object_id           the object asked for
--   step                1: its immediate dominator
--   id, addr, type, kind, size_bytes, retained_bytes    the dominator
-- Example: SELECT * FROM retainer WHERE object_id = 4711 ORDER BY step;
CREATE VIEW retainer AS
SELECT o.id AS object_id, j.key AS step, x.id AS id, x.addr AS addr,
  t.name AS type, t.kind AS kind, x.size_bytes AS size_bytes,
  x.retained_bytes AS retained_bytes
FROM object o
CROSS JOIN json_each((
  WITH RECURSIVE up(id) AS (
    SELECT o.id
    UNION ALL
    SELECT c.idom FROM up JOIN object c ON c.id = up.id WHERE c.idom <> 0)
  SELECT json_group_array(id) FROM up)) j
CROSS JOIN object x ON x.id = j.value
CROSS JOIN type t ON t.id = x.type_id
WHERE j.key > 0;

-- A shortest path from an object back to a root holder.
--   object_id           the object asked for
--   step                0: the object itself; the last: the root holder
--   id, addr, type, kind, size_bytes    the object on this step
--   slot                offset in it of the word that points to the step
--                       before; NULL on step 0
-- Example: SELECT * FROM path_to_root WHERE object_id = 4711 ORDER BY step;
CREATE VIEW path_to_root AS
SELECT o.id AS object_id, j.key AS step, x.id AS id, x.addr AS addr,
  t.name AS type, t.kind AS kind, x.size_bytes AS size_bytes,
  (SELECT min(r.slot) FROM ref r
   WHERE r.dst = json_extract(j.value, '$[1]') AND r.src = x.id) AS slot
FROM object o
CROSS JOIN json_each((
  WITH RECURSIVE up(id, before) AS (
    SELECT o.id, NULL
    UNION ALL
    SELECT c.bfs_parent, c.id FROM up JOIN object c ON c.id = up.id
    WHERE c.bfs_parent IS NOT NULL)
  SELECT json_group_array(json_array(id, before)) FROM up)) j
CROSS JOIN object x ON x.id = json_extract(j.value, '$[0]')
CROSS JOIN type t ON t.id = x.type_id
WHERE o.root_distance IS NOT NULL;

-- What an object dominates immediately: freed with it, and with nothing less.
--   parent_id           the dominating object; 0: the virtual root
--   id, addr, type, kind, size_bytes, retained_bytes    the child
-- Example: SELECT * FROM dominator_child WHERE parent_id = 4711
--          ORDER BY retained_bytes DESC LIMIT 20;
CREATE VIEW dominator_child AS
SELECT o.idom AS parent_id, o.id AS id, o.addr AS addr, t.name AS type,
  t.kind AS kind, o.size_bytes AS size_bytes,
  o.retained_bytes AS retained_bytes
FROM object o CROSS JOIN type t ON t.id = o.type_id;

-- Who points to an object.
--   object_id           the object pointed to
--   id, addr, type, kind    the object that points
--   slot                offset of the word in it
--   interior, conservative, weak, by_root    1 or 0: bits of ref.flags
-- Example: SELECT * FROM referrer WHERE object_id = 4711;
CREATE VIEW referrer AS
SELECT r.dst AS object_id, o.id AS id, o.addr AS addr, t.name AS type,
  t.kind AS kind, r.slot AS slot,
  r.flags & 1 <> 0 AS interior, r.flags & 2 <> 0 AS conservative,
  r.flags & 12 <> 0 AS weak, r.flags & 64 <> 0 AS by_root
FROM ref r CROSS JOIN object o ON o.id = r.src
CROSS JOIN type t ON t.id = o.type_id;

-- What keeps memory alive from outside the heap: globals, stacks, registers,
-- thread-local storage, memory nobody explains.
--   id, addr            the holder
--   kind                as in table root; NULL: it holds nothing
--   name                variable, section, thread
--   extent_bytes        its length; NULL: none (registers)
--   retained_bytes      of everything that only this holder keeps
-- Example: SELECT * FROM root_holder ORDER BY retained_bytes DESC LIMIT 20;
CREATE VIEW root_holder AS
SELECT o.id AS id, o.addr AS addr,
  (SELECT r.kind FROM root r WHERE r.holder_id = o.id LIMIT 1) AS kind,
  t.name AS name, o.extent_bytes AS extent_bytes,
  o.retained_bytes AS retained_bytes
FROM object o CROSS JOIN type t ON t.id = o.type_id
WHERE o.idom = 0 AND o.flags & 32 <> 0;

-- The heap in a few lines.
--   item                live; unreachable (of live); allocator_internal (of
--                       live); cached and free (not live); trim (of free);
--                       arena, heap, mmap, block (areas of this kind, whole);
--                       private_anon (resident private anonymous memory);
--                       unexplained (of private_anon: no reader, no root)
--   count               how many; NULL: not counted
--   bytes               how much; NULL: unknown
--   share               bytes as a fraction of what it is part of: unreachable
--                       and allocator_internal of live, trim of free,
--                       unexplained of private_anon; else NULL
-- Example: SELECT * FROM heap_summary;
CREATE VIEW heap_summary AS
WITH
  live(count, bytes, unreachable_count, unreachable_bytes) AS (
    SELECT total(count), total(bytes), total(unreachable_count),
      total(unreachable_bytes) FROM census),
  area(free, cached, trim) AS (
    SELECT sum(free_bytes), sum(cached_bytes), sum(trim_bytes)
    FROM heap_area)
SELECT 'live' AS item, CAST(count AS INTEGER) AS count,
  CAST(bytes AS INTEGER) AS bytes, NULL AS share FROM live
UNION ALL
SELECT 'unreachable', CAST(unreachable_count AS INTEGER),
  CAST(unreachable_bytes AS INTEGER), unreachable_bytes / nullif(bytes, 0)
FROM live
UNION ALL
SELECT 'allocator_internal', CAST(total(c.count) AS INTEGER),
  CAST(total(c.bytes) AS INTEGER),
  total(c.bytes) / nullif((SELECT bytes FROM live), 0)
FROM census c WHERE c.kind = 'allocator_internal'
UNION ALL
SELECT 'cached',
  (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'cached_blocks'),
  cached, NULL FROM area
UNION ALL
SELECT 'free',
  (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'free_blocks'),
  free, NULL FROM area
UNION ALL
SELECT 'trim', NULL, trim, CAST(trim AS REAL) / nullif(free, 0) FROM area
UNION ALL
SELECT kind, count(*), sum("end" - start), NULL FROM heap_area GROUP BY kind
UNION ALL
SELECT 'private_anon', NULL, private_anon_bytes, NULL FROM snapshot
UNION ALL
SELECT 'unexplained', NULL, unknown_bytes,
  CAST(unknown_bytes AS REAL) / nullif(private_anon_bytes, 0)
FROM snapshot;

-- Stacks of the threads, innermost frame first. A thread whose stack was not
-- unwound has one row, with its program counter.
--   thread_id, tid, thread    the thread and its name
--   level               0 is the innermost; NULL: not unwound
--   pc, function, file, line, inlined    the frame
--   state               of the thread: letter of /proc/PID/stat
--   stop_how            where it was: syscall, user, signal, partial
--   syscall, syscall_name     the system call it was in; NULL: in none
--   in_allocator        1: it was inside the allocator; NULL: unknown
--   thread_pc, thread_sp, thread_bp    its registers rip, rsp and rbp
--   stack_end           how far its stack was followed: whole, lost, ...
--   frame_id, sp, cfa, module    the frame: stack pointer, end, file of its code
--   is_signal           1: the kernel's frame for the handler of a signal
--   how                 registers, cfi, frame_pointer (inferred), inline
-- Example: SELECT * FROM thread_stack WHERE tid = 4711 ORDER BY level;
CREATE VIEW thread_stack AS
SELECT h.id AS thread_id, h.tid AS tid, h.name AS thread, f.level AS level,
  coalesce(f.pc, h.pc) AS pc, f.function AS function, f.file AS file,
  f.line AS line, f.inlined AS inlined, h.state AS state,
  h.stop_how AS stop_how, h.syscall AS syscall,
  h.syscall_name AS syscall_name, h.in_allocator AS in_allocator,
  h.pc AS thread_pc, h.sp AS thread_sp, h.bp AS thread_bp,
  h.stack_end AS stack_end, f.id AS frame_id, iif(f.id IS NULL, h.sp, f.sp) AS sp,
  f.cfa AS cfa, m.path AS module, f.is_signal AS is_signal, f.how AS how
FROM thread h
LEFT JOIN frame f ON f.thread_id = h.id
LEFT JOIN module m ON m.id = f.module_id;

-- Damage and doubt met on the way.
--   kind, reader        what, and which heap reader saw it; NULL: none
--   count               how often
--   addr, detail        of the first one
-- Example: SELECT * FROM anomaly_summary ORDER BY count DESC;
CREATE VIEW anomaly_summary AS
SELECT a.kind AS kind, r.name AS reader, a.count AS count, a.addr AS addr,
  a.detail AS detail
FROM anomaly a LEFT JOIN reader r ON r.id = a.reader_id;

-- Memory that is not, or not as of the instant, in the snapshot; and memory
-- that a core file would lack (dontdump), which is in the snapshot all the same.
--   reason              why: as in segment.reason, or dontdump
--   captured            what became of it, as in segment.captured
--   count               segments
--   bytes               address space of them
--   resident_bytes      of it, bytes that are present in memory
-- Example: SELECT * FROM not_frozen ORDER BY resident_bytes DESC;
CREATE VIEW not_frozen AS
SELECT reason, captured, count(*) AS count, sum("end" - start) AS bytes,
  CAST(total(resident_bytes) AS INTEGER) AS resident_bytes
FROM segment WHERE reason IS NOT NULL GROUP BY reason, captured
UNION ALL
SELECT 'dontdump', captured, count(*), sum("end" - start),
  CAST(total(resident_bytes) AS INTEGER)
FROM segment
WHERE instr(advice, 'dontdump') AND reason IS NULL GROUP BY captured;

-- The certificate: what the snapshot cost the process, and how far it can be
-- believed.
--   item                what was looked at, for people
--   value               what was found, as text; NULL: unknown
--   ok                  1: as it should be; 0: read results with this in
--                       mind; NULL: no judgement
--   part                group of items, one of: snapshot, pause, threads,
--                       allocator, memory, child, heap
--   unit                of number, one of: ns, bytes, regions, percent; NULL: a
--                       count, or there is no number
--   key                 name of the item for programs: it stays. Several rows
--                       may have one: each reason why it is partial, each
--                       thread that is named
--   number              the value as a number, 1 and 0 for yes and no; NULL:
--                       unknown, or it is none
-- Example: SELECT * FROM certificate WHERE ok = 0;
CREATE VIEW certificate AS
WITH
  fact(key, value, number) AS (
    SELECT key, value, CAST(value AS INTEGER)
    FROM meta WHERE key LIKE 'capture.%'),
  kept(reason, title) AS (VALUES
    ('dontfork', 'kept out of forks (MADV_DONTFORK)'),
    ('wipeonfork', 'wiped by forks (MADV_WIPEONFORK)'),
    ('shared', 'shared with other processes, or a file'),
    ('dontdump', 'kept out of core files (MADV_DONTDUMP)'),
    ('no_access', 'without any access (PROT_NONE)'),
    ('device', 'memory of devices'),
    ('kernel', 'pages of the kernel')),
  -- One for each part: SQLite allows few terms in one compound SELECT. A value
  -- that is NULL here is the number.
  about_snapshot(key, item, value, number, unit, ok) AS (
    SELECT 'source', 'source', source, NULL, NULL, NULL FROM snapshot
    UNION ALL
    SELECT 'consistency', 'consistency', consistency, NULL, NULL,
      consistency = 'exact'
    FROM snapshot
    UNION ALL
    SELECT 'partial', 'partial',
      CASE partial WHEN 1 THEN 'yes' WHEN 0 THEN 'no' END, partial, NULL,
      partial = 0
    FROM snapshot
    UNION ALL
    SELECT 'partial_reason', 'reason: ' || j.value, CASE j.value
        WHEN 'memory' THEN 'some memory could not be read'
        WHEN 'threads' THEN 'some threads could not be stopped'
        WHEN 'unsupported' THEN 'a heap of a version that no reader knows'
        WHEN 'no_allocator' THEN 'no reader found a heap' END, NULL, NULL, 0
    FROM meta m
    JOIN json_each('["' || replace(m.value, ',', '","') || '"]') j
    WHERE m.key = 'partial'),
  about_pause(key, item, value, number, unit, ok) AS (
    SELECT 'pause', 'pause', NULL, pause_ns, 'ns', NULL FROM snapshot
    UNION ALL
    SELECT 'predicted_pause', 'pause as predicted', NULL, number, 'ns', NULL
    FROM fact WHERE key = 'capture.predicted_pause_ns' AND value IS NOT NULL
    UNION ALL
    SELECT 'pause_stop', 'of it, stopping all threads', NULL, stop_ns, 'ns',
      NULL
    FROM snapshot
    UNION ALL
    SELECT 'pause_registers', 'of it, saving registers', NULL, regs_ns, 'ns',
      NULL
    FROM snapshot
    UNION ALL
    SELECT 'pause_fork', 'of it, the fork', NULL, fork_ns, 'ns', NULL
    FROM snapshot
    UNION ALL
    SELECT 'pause_resume', 'of it, letting all threads go', NULL, resume_ns,
      'ns', NULL
    FROM snapshot
    UNION ALL
    SELECT 'reap_pause', 'pause of one thread to reap the child', NULL,
      reap_ns, 'ns', NULL
    FROM snapshot
    UNION ALL
    SELECT 'stops', 'stops it took', NULL, attempts, NULL, NULL FROM snapshot
    UNION ALL
    SELECT 'missed_pause', 'longest pause of a stop that was not taken', NULL,
      missed_pause_ns, 'ns', NULL
    FROM snapshot WHERE attempts > 1 OR safe_point_tries > 1
    UNION ALL
    SELECT 'pause_calls', 'calls to the kernel in the pause', NULL,
      pause_calls, NULL, NULL
    FROM snapshot
    UNION ALL
    SELECT 'max_thread_calls', 'most of them for one thread', NULL,
      max_thread_calls, NULL, max_thread_calls <= 6
    FROM snapshot
    UNION ALL
    SELECT 'real_time', 'real-time priority in the pause',
      CASE value WHEN '1' THEN 'yes' WHEN '0' THEN 'no' END, number, NULL,
      NULL
    FROM fact WHERE key = 'capture.fifo'
    UNION ALL
    SELECT 'prepared', 'bytes in huge pages made before', NULL, number,
      'bytes', NULL
    FROM fact WHERE key = 'capture.prepared_bytes' AND value IS NOT NULL
    UNION ALL
    SELECT 'restarted_calls', 'system calls restarted', NULL, number, NULL,
      NULL
    FROM fact WHERE key = 'capture.restarted_calls'
    UNION ALL
    SELECT 'way_home', 'way home of a borrowed thread', CASE value
        WHEN 'full' THEN 'full: it finds back itself, whenever the tool dies'
        WHEN 'no_site' THEN 'not full: no syscall; ret in its memory'
        WHEN 'no_return' THEN 'not full: no signal restorer in its memory'
        WHEN 'no_stack' THEN 'not full: no stack with room for sure'
        WHEN 'shadow' THEN 'not full: shadow stacks forbid the return'
        WHEN 'seccomp'
          THEN 'not full: its seccomp filter may kill it on the way'
        ELSE value END,
      NULL, NULL, value = 'full'
    FROM fact WHERE key = 'capture.way_home'),
  about_threads(key, item, value, number, unit, ok) AS (
    SELECT 'threads', 'threads', NULL, count(*), NULL, NULL FROM thread
    UNION ALL
    SELECT 'stopped_in_' || stop_how, CASE stop_how
        WHEN 'syscall' THEN 'stopped in a system call'
        WHEN 'user' THEN 'stopped in their own code'
        WHEN 'signal' THEN 'stopped before a signal' END,
      NULL, count(*), NULL, NULL
    FROM thread WHERE stop_how IN ('syscall', 'user', 'signal')
    GROUP BY stop_how
    UNION ALL
    SELECT 'not_stopped', 'threads not stopped', NULL, count(*), NULL,
      count(*) = 0
    FROM thread WHERE stop_how = 'partial'
    UNION ALL
    SELECT 'not_stopped_thread', 'not stopped: thread ' || coalesce(tid, id),
      name, NULL, NULL, 0
    FROM thread WHERE stop_how = 'partial'
    UNION ALL
    SELECT 'vfork_children', 'vfork children that ran on', NULL, number, NULL,
      value = '0'
    FROM fact WHERE key = 'capture.vfork_children'
    UNION ALL
    SELECT 'vfork_stopped', 'processes in the same memory, stopped with it',
      NULL, number, NULL, NULL
    FROM fact WHERE key = 'capture.vfork_stopped'),
  about_allocator(key, item, value, number, unit, ok) AS (
    SELECT 'safe_point', 'safe point', CASE safe_point
        WHEN 'none' THEN 'not looked for'
        WHEN 'found' THEN 'found'
        WHEN 'missed' THEN 'missed'
        WHEN 'unknown' THEN 'not known for this allocator' END,
      NULL, NULL, CASE safe_point WHEN 'found' THEN 1 WHEN 'missed' THEN 0 END
    FROM snapshot
    UNION ALL
    SELECT 'safe_point_stops', 'stops to find it', NULL, safe_point_tries,
      NULL, NULL
    FROM snapshot WHERE safe_point_tries > 0
    UNION ALL
    SELECT 'in_allocator', 'threads in the allocator', NULL,
      sum(in_allocator), NULL, sum(in_allocator) = 0
    FROM thread
    UNION ALL
    SELECT 'in_allocator_thread',
      'in the allocator: thread ' || coalesce(tid, id), name, NULL, NULL, 0
    FROM thread WHERE in_allocator = 1
    UNION ALL
    SELECT 'locked_arenas', 'arenas locked', NULL, number, NULL, value = '0'
    FROM fact WHERE key = 'capture.locked_arenas'
    UNION ALL
    SELECT 'suspect_objects', 'suspect objects', NULL,
      CAST(value AS INTEGER), NULL, value = '0'
    FROM meta WHERE key = 'suspect_objects'),
  about_memory(key, item, value, number, unit, ok) AS (
    SELECT 'region_' || k.reason || coalesce('_' || j.captured, ''),
      k.title || CASE j.captured WHEN 'late' THEN ', read late'
        WHEN 'missing' THEN ', not captured' WHEN 'saved' THEN ', captured'
        WHEN 'zero' THEN ', untouched' WHEN 'file' THEN ', as in the file'
        ELSE '' END,
      coalesce(j.count, 0) || ' regions, ' || coalesce(j.bytes, 0) ||
        ' bytes, ' || coalesce(j.resident_bytes, 0) || ' resident',
      coalesce(j.count, 0), 'regions',
      CASE WHEN k.reason IN ('dontfork', 'wipeonfork')
        THEN coalesce(j.captured IS NOT 'missing' AND j.resident_bytes = 0, 1)
      END
    FROM kept k LEFT JOIN not_frozen j ON j.reason = k.reason
    UNION ALL
    SELECT 'missing_segments', 'missing segments', NULL, count(*), NULL,
      count(*) = 0
    FROM segment
    WHERE captured = 'missing' AND prot LIKE 'r%' AND kind <> 'special'
    UNION ALL
    SELECT 'missing_bytes', 'missing bytes', NULL, CAST(value AS INTEGER),
      'bytes', value = '0'
    FROM meta WHERE key = 'missing_bytes'
    UNION ALL
    SELECT 'not_captured', 'not captured', value, NULL, NULL, 0
    FROM meta WHERE key = 'not_captured'
    UNION ALL
    SELECT 'late_bytes', 'private bytes read late', NULL,
      CAST(total(resident_bytes) AS INTEGER), 'bytes',
      total(resident_bytes) = 0
    FROM segment WHERE captured = 'late' AND kind <> 'shared'),
  about_child(key, item, value, number, unit, ok) AS (
    SELECT 'child_life', 'lifetime of the child', NULL, child_life_ns, 'ns',
      NULL
    FROM snapshot
    UNION ALL
    SELECT 'cow_pages', 'pages the process copied meanwhile', NULL, cow_pages,
      NULL, NULL
    FROM snapshot
    UNION ALL
    SELECT 'parent_faults', 'faults of the process meanwhile', NULL,
      parent_faults, NULL, NULL
    FROM snapshot
    UNION ALL
    SELECT 'dropped', 'memory the child gave back early', NULL, dropped_bytes,
      'bytes', NULL
    FROM snapshot
    UNION ALL
    SELECT 'peak_private', 'most memory the child had to itself', NULL,
      peak_private_bytes, 'bytes', NULL
    FROM snapshot
    UNION ALL
    SELECT 'read_from', 'heap was read from', CASE value
        WHEN 'memory' THEN 'a copy of the child in memory'
        WHEN 'file' THEN 'a copy of the child in a file'
        WHEN 'direct' THEN 'the child itself' || coalesce(': ' || (
          SELECT value FROM meta WHERE key = 'capture.read_direct_because'),
          '')
        ELSE value END, NULL, NULL, NULL
    FROM fact WHERE key = 'capture.read_from' AND value IS NOT NULL
    UNION ALL
    SELECT 'descriptors_closed', 'descriptors closed in the child',
      CASE value WHEN '1' THEN 'yes' ELSE 'no' END, number, NULL, value = '1'
    FROM fact WHERE key = 'capture.descriptors_closed' AND value IS NOT NULL
    UNION ALL
    SELECT 'journaled', 'child known to the next run, had this one been killed',
      CASE value WHEN '1' THEN 'yes' ELSE 'no' END, number, NULL, NULL
    FROM fact WHERE key = 'capture.journaled' AND value IS NOT NULL
    UNION ALL
    SELECT 'reaped', 'child reaped',
      CASE value WHEN '1' THEN 'yes' ELSE 'no' END, number, NULL, value = '1'
    FROM fact WHERE key = 'capture.reaped' AND value IS NOT NULL),
  about_heap(key, item, value, number, unit, ok) AS (
    SELECT 'reader', 'reader ' || name,
      coalesce(version, 'unknown version') || ', confidence ' ||
        coalesce(confidence, 'unknown'),
      NULL, NULL, confidence <> 'low'
    FROM reader
    UNION ALL
    SELECT 'heap_readers', 'heap readers',
      coalesce((SELECT group_concat(name, ', ') FROM reader
                WHERE id IN (SELECT reader_id FROM heap_area)),
               'none found a heap'),
      NULL, NULL, EXISTS (SELECT 1 FROM heap_area)
    UNION ALL
    SELECT 'unsupported', 'unsupported heap', value, NULL, NULL, 0
    FROM meta WHERE key = 'unsupported'
    UNION ALL
    SELECT 'unexplained', 'unexplained private memory',
      printf('%.1f %%', 100.0 * unknown_bytes / nullif(private_anon_bytes, 0)),
      100.0 * unknown_bytes / nullif(private_anon_bytes, 0), 'percent',
      unknown_bytes * 10 < private_anon_bytes
    FROM snapshot WHERE unknown_bytes IS NOT NULL
    UNION ALL
    SELECT 'anomalies', 'anomalies', NULL, CAST(total(count) AS INTEGER),
      NULL, total(count) = 0
    FROM anomaly),
  line(part, key, item, value, number, unit, ok) AS (
    SELECT 'snapshot', key, item, value, number, unit, ok FROM about_snapshot
    UNION ALL
    SELECT 'pause', key, item, value, number, unit, ok FROM about_pause
    UNION ALL
    SELECT 'threads', key, item, value, number, unit, ok FROM about_threads
    UNION ALL
    SELECT 'allocator', key, item, value, number, unit, ok FROM about_allocator
    UNION ALL
    SELECT 'memory', key, item, value, number, unit, ok FROM about_memory
    UNION ALL
    SELECT 'child', key, item, value, number, unit, ok FROM about_child
    UNION ALL
    SELECT 'heap', key, item, value, number, unit, ok FROM about_heap)
SELECT item, coalesce(value, CAST(number AS TEXT)) AS value, ok, part, unit,
  key, number
FROM line;
