-- List what an object dominates immediately, the largest first
-- SPDX-License-Identifier: MIT
-- parameters:
--   ?1 id: the object; 0: the virtual root above all root holders
--   ?2 limit: rows at most; -1: all
-- columns:
--   id: the dominated object
--   type: its type
--   kind: kind of its type
--   addr: its address
--   size_bytes: its own size
--   retained_bytes: what would become free with it
SELECT id, type, kind, addr, size_bytes, retained_bytes
FROM dominator_child
WHERE parent_id = ?1
ORDER BY retained_bytes DESC, id
LIMIT ?2
