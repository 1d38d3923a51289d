-- List damage and doubt met on the way
-- SPDX-License-Identifier: MIT
-- parameters: none
-- columns:
--   kind: what was wrong
--   reader: heap reader that saw it; NULL: none
--   count: how often
--   addr: where it was seen first
--   detail: of the first one
SELECT kind, reader, count, addr, detail
FROM anomaly_summary
ORDER BY count DESC, kind
