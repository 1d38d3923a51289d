-- Tell how far this snapshot can be believed
-- SPDX-License-Identifier: MIT
-- parameters: none
-- columns:
--   item: what was looked at
--   value: what was found
--   ok: 1: as it should be; 0: read results with this in mind
--   part: group of items
--   unit: of the number: ns, bytes, regions, percent; NULL: a count
--   key: name of the item that stays
--   number: the value as a number; NULL: it is none, or unknown
SELECT item, value, ok, part, unit, key, number
FROM certificate
