-- List what retains most, root holders included
-- SPDX-License-Identifier: MIT
-- parameters:
--   ?1 limit: rows at most; -1: all
-- columns:
--   id: the object
--   type: its type; the name, if it is a root holder
--   kind: kind of its type
--   addr: its address; NULL: it has none
--   size_bytes: its own size
--   retained_bytes: what would become free with it
--   dominator_id: the object that keeps it; 0: none does alone
SELECT id, type, kind, addr, size_bytes, retained_bytes, dominator_id
FROM retained_top
ORDER BY retained_bytes DESC, id
LIMIT ?1
