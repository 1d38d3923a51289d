-- List who points to an object
-- SPDX-License-Identifier: MIT
-- parameters:
--   ?1 id: the object
--   ?2 limit: rows at most; -1: all
-- columns:
--   id: the object that points
--   type: its type; the name, if it is a root holder
--   kind: kind of its type
--   addr: its address
--   slot: offset in it of the word
--   interior: 1: the word points behind the object's first byte
--   conservative: 1: the word may be a number that looks like a pointer
--   by_root: 1: the word is a root
SELECT id, type, kind, addr, slot, interior, conservative, by_root
FROM referrer
WHERE object_id = ?1
ORDER BY id, slot
LIMIT ?2
