-- Sum up the heap: live, cached, free, and what nobody explains
-- SPDX-License-Identifier: MIT
-- parameters: none
-- columns:
--   item: what is counted
--   count: how many; NULL: not counted
--   bytes: how much; NULL: unknown
--   share: as a fraction of what it is part of; NULL: of nothing
SELECT item, count, bytes, share
FROM heap_summary
