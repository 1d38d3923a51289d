-- Show the registers of the threads
-- SPDX-License-Identifier: MIT
-- parameters:
--   ?1 tid: this thread only, -1: all
--   ?2 limit: threads at most, -1: all
-- columns:
--   thread_id: the thread
--   tid: kernel thread id
--   thread: its name
--   name: rax, rbx, ...
--   value: its 64 bits, as a signed number
SELECT h.id AS thread_id, h.tid AS tid, h.name AS thread, r.name AS name,
  r.value AS value
FROM thread h
JOIN thread_register r ON r.thread_id = h.id
WHERE h.id IN (SELECT id FROM thread WHERE ?1 < 0 OR tid = ?1
               ORDER BY id LIMIT ?2)
ORDER BY h.id, r.number
