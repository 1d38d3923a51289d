-- List the threads as they were at the instant
-- SPDX-License-Identifier: MIT
-- parameters: none
-- columns:
--   id: the thread
--   tid: kernel thread id
--   name: its name
--   state: letter of /proc/PID/stat
--   stop_how: syscall, user, signal, or partial (could not be stopped)
--   pc: program counter
--   sp: stack pointer
--   in_allocator: 1: it was inside the allocator; NULL: unknown
SELECT id, tid, name, state, stop_how, pc, sp, in_allocator
FROM thread
ORDER BY id
