-- Show the stacks of the threads, innermost frame first
-- SPDX-License-Identifier: MIT
-- parameters:
--   ?1 tid: this thread only, -1: all
--   ?2 limit: threads at most, -1: all
-- columns:
--   thread_id: the thread
--   tid: kernel thread id
--   thread: its name
--   state: letter of /proc/PID/stat
--   stop_how: syscall, user, signal, or partial (could not be stopped)
--   syscall: number of the system call it was in; NULL: in none
--   syscall_name: its name; NULL: none, or not known
--   in_allocator: 1: it was inside the allocator; NULL: unknown
--   thread_pc: register rip of the thread
--   thread_sp: register rsp
--   thread_bp: register rbp
--   stack_end: whole, lost (no way further), too_deep (the rest was left out), none
--   level: of the frame, 0 is the innermost; NULL: not unwound
--   function: demangled name; NULL: no symbol
--   file: source file; NULL: no debug information
--   line: source line
--   inlined: 1: inlined into the next frame
--   is_signal: 1: the kernel's frame for the handler of a signal
--   module: file the code is of
--   pc: program counter of the frame
--   sp: its stack pointer
--   cfa: its end on the stack
--   how: registers, cfi, frame_pointer (inferred) or inline
SELECT thread_id, tid, thread, state, stop_how, syscall, syscall_name,
  in_allocator, thread_pc, thread_sp, thread_bp, stack_end, level, function,
  file, line, inlined, is_signal, module, pc, sp, cfa, how
FROM thread_stack
WHERE thread_id IN (SELECT id FROM thread WHERE ?1 < 0 OR tid = ?1
                    ORDER BY id LIMIT ?2)
ORDER BY thread_id, level
