SELECT type, kind, retained_bytes FROM dominator_child WHERE parent_id = 0
ORDER BY retained_bytes DESC, id
