-- Tell how far this snapshot can be believed
-- SPDX-License-Identifier: MIT
-- parameters: none
-- columns:
--   item: what was looked at
--   value: what was found
--   ok: 1: as it should be; 0: read results with this in mind
--   part: group of items
--   unit: of a value that is a number: ns, bytes, regions
SELECT item, value, ok, part, unit
FROM certificate
