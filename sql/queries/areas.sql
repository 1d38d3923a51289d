-- List the areas of memory that heap readers explain
-- SPDX-License-Identifier: MIT
-- parameters: none
-- columns:
--   id: the area
--   reader: heap reader
--   kind: arena, heap, mmap or block
--   addr: first address
--   bytes: length
--   used_bytes: usable bytes of live blocks
--   free_bytes: free blocks and the unused rest
--   cached_bytes: freed blocks kept in caches
--   trim_bytes: of free_bytes, the unused rest at the end
SELECT a.id AS id, r.name AS reader, a.kind AS kind, a.start AS addr,
  a."end" - a.start AS bytes, a.used_bytes AS used_bytes,
  a.free_bytes AS free_bytes, a.cached_bytes AS cached_bytes,
  a.trim_bytes AS trim_bytes
FROM heap_area a LEFT JOIN reader r ON r.id = a.reader_id
ORDER BY a.id
