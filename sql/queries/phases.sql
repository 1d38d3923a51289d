-- Tell how long the phases of the work took
-- SPDX-License-Identifier: MIT
-- parameters: none
-- columns:
--   name: the phase
--   ns: elapsed time
--   items: what it handled; NULL: not counted
--   peak_bytes: memory of its own arrays; NULL: not counted
SELECT name, ns, items, peak_bytes
FROM phase
ORDER BY rowid
