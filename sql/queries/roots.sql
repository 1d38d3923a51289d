-- List the root holders, those that retain most first
-- SPDX-License-Identifier: MIT
-- parameters:
--   ?1 limit: rows at most; -1: all
-- columns:
--   id: the holder
--   kind: global, stack, ...; NULL: it holds nothing
--   name: variable, section or thread
--   addr: its address; NULL: registers
--   extent_bytes: its length
--   retained_bytes: what only this holder keeps
SELECT id, kind, name, addr, extent_bytes, retained_bytes
FROM root_holder
ORDER BY retained_bytes DESC, id
LIMIT ?1
