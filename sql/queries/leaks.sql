-- Group unreachable blocks by type and size
-- SPDX-License-Identifier: MIT
-- parameters:
--   ?1 limit: rows at most; -1: all
-- columns:
--   type: name of the type
--   kind: kind of the type
--   size_bytes: size of each block
--   count: blocks of this type and size
--   bytes: their sizes together
SELECT t.name AS type, t.kind AS kind, g.size_bytes AS size_bytes,
  g.count AS count, g.bytes AS bytes
FROM (
  SELECT type_id, size_bytes, count(*) AS count, sum(size_bytes) AS bytes
  FROM object
  WHERE root_distance IS NULL AND size_bytes > 0
  GROUP BY type_id, size_bytes) g
JOIN type t ON t.id = g.type_id
ORDER BY g.bytes DESC, t.name, g.size_bytes
LIMIT ?1
