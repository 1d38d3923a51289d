-- Tell how far this snapshot can be believed
-- SPDX-License-Identifier: MIT
-- parameters: none
-- columns:
--   item: what was looked at
--   value: what was found
--   ok: 1: as it should be; 0: read results with this in mind
SELECT item, value, ok
FROM certificate
