-- Indices, made after the load.
-- SPDX-License-Identifier: MIT

-- Both directions of a reference are one seek: (src, slot) is the key of ref.
CREATE INDEX ref_dst ON ref(dst, src, slot);

-- The object at, or around, an address: addr <= ? ORDER BY addr DESC LIMIT 1.
-- A plain index, not a sparse table of pages: it costs 12 bytes an object, but
-- `WHERE addr = ?`, joins of two snapshots by address, and objects inside
-- others (whose ids are not in address order) need no special query.
CREATE INDEX object_addr ON object(addr);

-- Children in the dominator tree, the largest first; root holders are the
-- children of 0, leaks those of the pseudo object `(unreachable)`.
CREATE INDEX object_idom ON object(idom, retained_bytes DESC);

-- The objects that retain most. Not partial (`WHERE retained_bytes >= 4096`):
-- a query that does not repeat the condition could not use it, and one that
-- does would be empty for a small heap.
CREATE INDEX object_retained ON object(retained_bytes DESC);

-- Unreachable blocks by type and size; empty in a program without leaks.
CREATE INDEX object_unreachable ON object(type_id, size_bytes)
  WHERE root_distance IS NULL AND size_bytes > 0;

-- The pseudo objects, found by their type.
CREATE INDEX object_pseudo ON object(type_id) WHERE flags & 4 <> 0;

-- What a root holder holds, and by what an object is held.
CREATE INDEX root_of_holder ON root(holder_id);
CREATE INDEX root_of_object ON root(object_id);

CREATE INDEX member_of_type ON member(type_id, offset);
CREATE INDEX frame_of_thread ON frame(thread_id, level);
CREATE INDEX retainer_path_child ON retainer_path(parent_id);
