-- Tell where, when and how the snapshot was taken
-- SPDX-License-Identifier: MIT
-- parameters: none
-- columns:
--   taken_ns: ns since 1970 (UTC)
--   pid: process id
--   start_time: start of the process, clock ticks since boot
--   boot_id: the kernel's boot id
--   command: name of the process
--   tool: program that wrote the file
--   source: live, core, agent or stop
--   safe_point: were all threads outside of the allocator: found (yes), missed, unknown, none (nobody looked)
--   consistency: exact, late_memory, in_allocator or partial_threads
--   partial: 1: something could not be read
--   pause_ns: time during which the process stood still
--   stop_ns: of this, stopping all threads
--   regs_ns: of this, saving registers
--   fork_ns: of this, the fork
--   resume_ns: of this, letting all threads go
--   reap_ns: second, short stop that removed the child
--   child_life_ns: how long the frozen child existed
--   cow_pages: pages copied because the process wrote to them
--   parent_faults: minor faults of the process while the child existed
--   dropped_bytes: memory the child gave back before its end
--   peak_private_bytes: most memory the child had to itself
--   attempts: stops it took
--   missed_pause_ns: longest pause of a stop that was not taken
--   safe_point_tries: stops to find a safe point; 0: nobody looked
--   pause_calls: ptrace and wait calls in the pause
--   max_thread_calls: of these, most for one thread
--   partial_threads: threads that could not be stopped
--   threads: threads of the process
--   objects: live blocks
--   refs: references
--   live_bytes: usable bytes of all live blocks
--   private_anon_bytes: resident private anonymous memory
--   unknown_bytes: of this, what no reader and no root explains
SELECT taken_ns, pid, start_time, boot_id, command, tool, source, safe_point,
  consistency, partial, pause_ns, stop_ns, regs_ns, fork_ns, resume_ns,
  reap_ns, child_life_ns, cow_pages, parent_faults, dropped_bytes,
  peak_private_bytes, attempts, missed_pause_ns, safe_point_tries, pause_calls,
  max_thread_calls, partial_threads, threads, objects, refs, live_bytes,
  private_anon_bytes, unknown_bytes
FROM snapshot
