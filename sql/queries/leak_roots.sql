-- List the heads of unreachable structures
-- SPDX-License-Identifier: MIT
-- parameters:
--   ?1 limit: rows at most; -1: all
-- columns:
--   id: the head; of a cycle, one of its blocks
--   type: its type
--   kind: kind of its type
--   addr: its address
--   size_bytes: its own size
--   retained_bytes: size of the structure under it
SELECT id, type, kind, addr, size_bytes, retained_bytes
FROM leak_root
ORDER BY retained_bytes DESC, id
LIMIT ?1
