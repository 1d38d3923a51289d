-- Show a shortest path from an object back to a root
-- SPDX-License-Identifier: MIT
-- parameters:
--   ?1 id: the object
-- columns:
--   step: 0 is the object itself
--   id: the object on this step
--   type: its type; the name, if it is a root holder
--   kind: kind of its type
--   addr: its address
--   size_bytes: its own size
--   slot: offset in it of the word that points to the step before
SELECT step, id, type, kind, addr, size_bytes, slot
FROM path_to_root
WHERE object_id = ?1
ORDER BY step
