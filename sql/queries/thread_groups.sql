-- Merge threads with the same stack, the largest group first
-- SPDX-License-Identifier: MIT
-- parameters:
--   ?1 tid: only threads with the stack of this one, -1: all
--   ?2 limit: groups at most, -1: all
-- columns:
--   thread_id: the first thread of the group
--   threads: how many have this stack, address for address
--   tids: their kernel thread ids
--   names: their names, each once
--   stack_end: whole, lost (no way further), too_deep (the rest was left out), none
--   level: of the frame, 0 is the innermost; NULL: not unwound
--   function: demangled name; NULL: no symbol
--   file: source file; NULL: no debug information
--   line: source line
--   inlined: 1: inlined into the next frame
--   is_signal: 1: the kernel's frame for the handler of a signal
--   module: file the code is of
--   pc: program counter of the frame
--   how: registers, cfi, frame_pointer (inferred) or inline
WITH stack AS MATERIALIZED (
  SELECT h.id AS id, h.tid AS tid, h.name AS name, coalesce((
      SELECT group_concat(pc, ' ')
      FROM (SELECT pc FROM frame WHERE thread_id = h.id ORDER BY level)),
    h.pc) || coalesce(h.stack_end, '') AS addresses
  FROM thread h),
merged AS MATERIALIZED (
  SELECT min(id) AS first_id, count(*) AS threads, group_concat(tid) AS tids,
    group_concat(DISTINCT name) AS names
  FROM stack
  WHERE ?1 < 0 OR addresses IN (SELECT addresses FROM stack WHERE tid = ?1)
  GROUP BY addresses
  ORDER BY threads DESC, first_id
  LIMIT ?2)
SELECT g.first_id AS thread_id, g.threads AS threads, g.tids AS tids,
  g.names AS names, t.stack_end AS stack_end, t.level AS level,
  t.function AS function, t.file AS file, t.line AS line,
  t.inlined AS inlined, t.is_signal AS is_signal, t.module AS module,
  t.pc AS pc, t.how AS how
FROM merged g
JOIN thread_stack t ON t.thread_id = g.first_id
ORDER BY g.threads DESC, g.first_id, t.level
