/* Snapshot files for tests, written by hand in SQL.
 * SPDX-License-Identifier: MIT */
#include "tests/support/heap_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sql/sql.h"

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "heap_file: %s: %s\n", what, why);
	abort();
}

void hf_heap_file_reopen(struct hf_heap_file *file)
{
	if (sqlite3_open_v2(file->path, &file->db,
			    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL))
		fail(file->path, "cannot be opened");
	hf_heap_file_exec(file, "PRAGMA journal_mode=OFF;"
				"PRAGMA synchronous=OFF");
}

void hf_heap_file_create(struct hf_heap_file *file)
{
	*file = (struct hf_heap_file){ .dir = "/tmp/hf-query-XXXXXX" };
	if (!mkdtemp(file->dir))
		fail(file->dir, "cannot be made");
	snprintf(file->path, sizeof(file->path), "%s/t.heap", file->dir);
	hf_heap_file_reopen(file);
	hf_heap_file_exec(file, "BEGIN");
	hf_heap_file_exec(file, hf_sql_schema());
}

void hf_heap_file_exec(struct hf_heap_file *file, const char *sql)
{
	if (sqlite3_exec(file->db, sql, NULL, NULL, NULL))
		fail(sql, sqlite3_errmsg(file->db));
}

void hf_heap_file_finish(struct hf_heap_file *file)
{
	hf_heap_file_exec(file, hf_sql_indices());
	hf_heap_file_exec(file, hf_sql_views());
	hf_heap_file_exec(file, "COMMIT");
	sqlite3_close(file->db);
	file->db = NULL;
}

void hf_heap_file_finish_bare(struct hf_heap_file *file)
{
	hf_heap_file_exec(file, "COMMIT");
	sqlite3_close(file->db);
	file->db = NULL;
}

void hf_heap_file_remove(struct hf_heap_file *file)
{
	sqlite3_close(file->db);
	unlink(file->path);
	rmdir(file->dir);
}

/*   server (1) -> Session (3) -> Node (4) -> Node (5) -> Node (6)
 *   stack (2) -> evil (8)
 *   (unreachable) (9) -> 48 bytes (7)
 */
void hf_heap_file_fill(struct hf_heap_file *file)
{
	hf_heap_file_exec(
		file,
		"INSERT INTO meta VALUES('cached_blocks', '3'),"
		" ('free_blocks', '2');"
		"INSERT INTO snapshot(id, taken_ns, pid, command, tool, source,"
		" consistency, partial, pause_ns, stop_ns, regs_ns, fork_ns,"
		" resume_ns, threads, objects, refs, live_bytes,"
		" private_anon_bytes, unknown_bytes)"
		" VALUES(1, 1764590000000000000, 4711,"
		" 'server' || char(27) || '[31m', 'heapfork', 'live', 'exact',"
		" 0, 3100000, 400000, 100000, 2500000, 100000, 2, 6, 7, 6432,"
		" 100000, 5000);"
		"INSERT INTO reader VALUES(1, 'glibc-malloc', '2.36', 'high',"
		" 'symbols');"
		"INSERT INTO heap_area VALUES(1, 1, 'arena', 4096, 12288, 6432,"
		" 1024, 96, 512, 0, 0);"
		"INSERT INTO type(id, name, full_name, kind, size_bytes) VALUES"
		" (1, 'server', NULL, 'root_holder', NULL),"
		" (2, 'stack of main', NULL, 'root_holder', NULL),"
		" (3, 'Session', 'app::Session<int>', 'class', 64),"
		" (4, 'Node', NULL, 'class', 32),"
		" (5, '48 bytes', NULL, 'size_class', 48),"
		" (6, '(unreachable)', NULL, 'pseudo', NULL),"
		" (7, '(several roots)', NULL, 'pseudo', NULL),"
		" (8, 'evil' || char(27) || ']0;x' || char(7) || ',\"q\"',"
		"  NULL, 'class', 6224);"
		"INSERT INTO object(id, addr, size_bytes, extent_bytes,"
		" type_id, flags, idom, retained_bytes, root_distance,"
		" bfs_parent) VALUES"
		" (1, 8192, 0, 8, 1, 33, 0, 160, 0, NULL),"
		" (2, NULL, 0, NULL, 2, 33, 0, 6224, 0, NULL),"
		" (3, 4112, 64, NULL, 3, 1, 1, 160, 1, 1),"
		" (4, 4192, 32, NULL, 4, 1, 3, 96, 2, 3),"
		" (5, 4240, 32, NULL, 4, 1, 4, 64, 3, 4),"
		" (6, 4288, 32, NULL, 4, 1, 5, 32, 4, 5),"
		" (7, 4336, 48, NULL, 5, 0, 9, 48, NULL, NULL),"
		" (8, 4400, 6224, NULL, 8, 1, 2, 6224, 1, 2),"
		" (9, NULL, 0, NULL, 6, 4, 0, 48, NULL, NULL),"
		" (10, NULL, 0, NULL, 7, 4, 0, 0, NULL, NULL);"
		"INSERT INTO ref(src, slot, dst, flags) VALUES"
		" (1, 0, 3, 0), (2, 8, 8, 0), (3, 16, 4, 2), (4, 0, 5, 2),"
		" (5, 0, 6, 3), (6, 0, 3, 2), (4, 8, 3, 2);"
		"INSERT INTO root(id, holder_id, kind, name) VALUES"
		" (1, 1, 'global', 'server'), (2, 2, 'stack', 'main');"
		"INSERT INTO type_stat VALUES(3, 1, 64, 0, 0, 160),"
		" (4, 3, 96, 0, 0, 96), (5, 1, 48, 1, 48, 48),"
		" (8, 1, 6224, 0, 0, 6224);"
		"INSERT INTO anomaly VALUES('chunk size', 4096, 1, 2, 'odd');"
		"INSERT INTO phase VALUES('scan', 1000, 10, 100);");
}
