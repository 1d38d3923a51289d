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
--   safe_point: where the threads were stopped; none: wherever they were
--   consistency: exact, in_allocator or partial_threads
--   partial: 1: something could not be read
--   pause_ns: time during which the process stood still
--   stop_ns: of this, stopping all threads
--   regs_ns: of this, saving registers
--   fork_ns: of this, the fork
--   resume_ns: of this, letting all threads go
--   reap_ns: second, short stop that removed the child
--   child_life_ns: how long the frozen child existed
--   cow_pages: pages copied because the process wrote to them
--   threads: threads of the process
--   objects: live blocks
--   refs: references
--   live_bytes: usable bytes of all live blocks
--   private_anon_bytes: resident private anonymous memory
--   unknown_bytes: of this, what no reader and no root explains
SELECT taken_ns, pid, start_time, boot_id, command, tool, source, safe_point,
  consistency, partial, pause_ns, stop_ns, regs_ns, fork_ns, resume_ns,
  reap_ns, child_life_ns, cow_pages, threads, objects, refs, live_bytes,
  private_anon_bytes, unknown_bytes
FROM snapshot
