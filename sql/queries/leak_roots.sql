-- List the tops of unreachable structures
-- SPDX-License-Identifier: MIT
-- parameters:
--   ?1 limit: rows at most; -1: all
-- columns:
--   id: the block; of a cycle, one of them
--   type: its type
--   kind: kind of its type
--   addr: its address
--   size_bytes: its own size
--   retained_bytes: what only it keeps, itself included
--   referrers: 0: the usual leak; else a cycle, or shared by several structures
SELECT id, type, kind, addr, size_bytes, retained_bytes, referrers
FROM leak_root
ORDER BY retained_bytes DESC, id
LIMIT ?1
