-- Count objects and bytes by type
-- SPDX-License-Identifier: MIT
-- parameters:
--   ?1 limit: rows at most; -1: all
-- columns:
--   type: name of the type
--   kind: what kind of type it is; size_class: only the size is known
--   count: live objects
--   bytes: their sizes together
--   retained_bytes: what would become free with all of them (lower bound)
--   unreachable_count: of count, objects nothing points to from the roots
--   unreachable_bytes: of bytes, the same
SELECT type, kind, count, bytes, retained_bytes, unreachable_count,
  unreachable_bytes
FROM census
ORDER BY bytes DESC, type
LIMIT ?1
