-- Show who keeps an object: its chain of dominators
-- SPDX-License-Identifier: MIT
-- parameters:
--   ?1 id: the object
-- columns:
--   step: 1 is its immediate dominator
--   id: the dominator
--   type: its type; the name, if it is a root holder
--   kind: kind of its type
--   addr: its address
--   size_bytes: its own size
--   retained_bytes: what would become free with it
SELECT step, id, type, kind, addr, size_bytes, retained_bytes
FROM retainer
WHERE object_id = ?1
ORDER BY step
