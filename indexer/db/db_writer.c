/* Database writer: create, load, index, commit.
 * SPDX-License-Identifier: MIT */
#include "indexer/db/db_writer.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "indexer/db/db_internal.h"
#include "sql/sql.h"

/* The file is made from nothing and thrown away when anything fails: no
 * journal, no fsync (util/output.h stores it at the end), one transaction.
 * Rows come in key order, so that pages fill one after the other; indices
 * follow when all rows are there. */

enum {
	PAGE_BYTES = 16384,
	LOAD_CACHE_KIB = 16 * 1024,  /* pages in work while rows come */
	INDEX_CACHE_KIB = 16 * 1024, /* also the room for sorting: more
				      * is slower, it leaves the CPU caches */
	OPS_PER_POLL = 20000, /* SQLite's instructions: some 100 us */
};

static bool is_no_space(int rc, int os_error)
{
	return (rc & 0xff) == SQLITE_FULL ||
	       ((rc & 0xff) == SQLITE_IOERR &&
		(os_error == ENOSPC || os_error == EDQUOT ||
		 os_error == EFBIG));
}

/* SQLITE_FULL is said of the file and of the temporary file of a sort alike:
 * look which of them it can have been. */
static struct hf_error *no_space(const struct hf_db_writer *writer,
				 const char *doing, int os_error)
{
	struct statvfs fs;
	struct hf_error *err =
		hf_error_create(HF_ERROR_NO_SPACE, "cannot %s '%s'", doing,
				writer->path);

	if (os_error == EDQUOT)
		err = hf_error_cause(err, "the disk quota is used up");
	else if (os_error == EFBIG)
		return hf_error_fix(
			hf_error_cause(err, "the file would become larger "
					    "than the limit (ulimit -f)"),
			"raise the limit");
	else if (!statvfs(writer->path, &fs) &&
		 fs.f_bavail * fs.f_frsize > 64 * 1024 * 1024)
		err = hf_error_cause(err, "the disk of the temporary files "
					  "(/var/tmp) is full");
	else
		err = hf_error_cause(err, "the disk is full");
	return hf_error_fix(err, "write to a disk with more free space; "
				 "SQLITE_TMPDIR names the folder for "
				 "temporary files");
}

struct hf_error *hf_db_writer_error(struct hf_db_writer *writer, int rc,
				    const char *doing)
{
	/* SQLite keeps the errno of most failures, but not of a COMMIT's. */
	int os_error = sqlite3_system_errno(writer->db) ?: errno;

	if (is_no_space(rc, os_error))
		return no_space(writer, doing, os_error);
	switch (rc & 0xff) {
	case SQLITE_NOMEM:
		return &hf_enomem;
	case SQLITE_INTERRUPT:
		if (writer->stopped)
			return HF_TAKE(writer->stopped);
		return hf_error_create(HF_ERROR_INTERRUPTED, "interrupted");
	case SQLITE_IOERR:
	case SQLITE_CANTOPEN:
		if (os_error)
			return hf_error_os(os_error, "cannot %s '%s'", doing,
					   writer->path);
	}
	return hf_error_create(HF_ERROR_SQL, "cannot %s '%s': %s", doing,
			       writer->path, sqlite3_errmsg(writer->db));
}

/* Run statements one after the other, counting them as steps done. */
static struct hf_error *run(struct hf_db_writer *writer, const char *sql,
			    const char *doing)
{
	while (*sql) {
		sqlite3_stmt *stmt;
		int os_error;
		int rc = sqlite3_prepare_v2(writer->db, sql, -1, &stmt, &sql);

		if (rc)
			return hf_db_writer_error(writer, rc, doing);
		if (!stmt) /* a comment */
			continue;
		errno = 0;
		while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
			;
		os_error = errno;
		sqlite3_finalize(stmt);
		errno = os_error;
		if (rc != SQLITE_DONE)
			return hf_db_writer_error(writer, rc, doing);
		writer->steps_done++;
	}
	return NULL;
}

/* 0600 from the first moment, and nothing that was there before. */
static struct hf_error *create_file(const char *path)
{
	HF_AUTO_FD int fd = open(
		path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? hf_error_os(errno, "cannot create '%s'", path) : NULL;
}

static struct hf_error *set_up(struct hf_db_writer *writer)
{
	char pragmas[400];
	struct hf_error *err;

	sqlite3_extended_result_codes(writer->db, 1);
	snprintf(pragmas, sizeof(pragmas),
		 "PRAGMA page_size=%d; PRAGMA auto_vacuum=NONE;"
		 "PRAGMA encoding='UTF-8'; PRAGMA locking_mode=EXCLUSIVE;"
		 "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;"
		 "PRAGMA secure_delete=OFF; PRAGMA cache_size=-%d;"
		 "BEGIN EXCLUSIVE;",
		 PAGE_BYTES, LOAD_CACHE_KIB);
	err = run(writer, pragmas, "create");
	if (!err)
		err = run(writer, hf_sql_schema(), "create");
	if (!err)
		err = hf_db_put_meta(writer, "tool", "heapfork " HF_VERSION);
	return err;
}

struct hf_error *hf_db_writer_create(const char *path,
				     struct hf_db_writer **ret)
{
	HF_AUTO(hf_db_writer)
	struct hf_db_writer *writer = calloc(1, sizeof(*writer));
	struct hf_error *err;
	int rc;

	/* "./" so that SQLite takes no name for a URI. */
	if (!writer || asprintf(&writer->path, "%s%s",
				path[0] == '/' ? "" : "./", path) < 0) {
		if (writer)
			writer->path = NULL;
		return &hf_enomem;
	}
	writer->objects.insert =
		"INSERT INTO object(id,addr,size_bytes,extent_bytes,type_id,"
		"reader_id,area_id,container_id,flags,idom,retained_bytes,"
		"root_distance,bfs_parent)";
	writer->objects.num_columns = 13;
	writer->refs.insert = "INSERT INTO ref(src,slot,dst,flags)";
	writer->refs.num_columns = 4;
	writer->refs.signed_columns = 1 << 1;
	err = create_file(path);
	if (err)
		return err;
	rc = sqlite3_open_v2(writer->path, &writer->db,
			     SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
				     SQLITE_OPEN_PRIVATECACHE,
			     NULL);
	if (!writer->db)
		return &hf_enomem;
	err = rc ? hf_db_writer_error(writer, rc, "create") : set_up(writer);
	if (err)
		return err;
	*ret = HF_TAKE(writer);
	return NULL;
}

static void finalize_all(struct hf_db_writer *writer)
{
	for (int i = 0; i < HF_DB_NUM_TABLES; i++)
		sqlite3_finalize(HF_TAKE(writer->insert[i]));
	sqlite3_finalize(HF_TAKE(writer->objects.full));
	sqlite3_finalize(HF_TAKE(writer->refs.full));
}

void hf_db_writer_destroy(struct hf_db_writer *writer)
{
	if (!writer)
		return;
	finalize_all(writer);
	sqlite3_close(writer->db);
	hf_error_destroy(writer->stopped);
	free(writer->path);
	free(writer);
}

static int poll_progress(void *arg)
{
	struct hf_db_writer *writer = arg;

	if (!writer->stopped)
		writer->stopped = hf_progress_update(
			writer->progress, "indices", writer->steps_done,
			writer->steps);
	return writer->stopped != NULL;
}

/* What the planner should know of the large tables, written from what is known
 * instead of a pass over them: rows, then rows that share the first column of
 * an index, the first two, ... */
static struct hf_error *write_statistics(struct hf_db_writer *writer)
{
	uint64_t objects = writer->objects.num_rows;
	uint64_t refs = writer->refs.num_rows;
	uint64_t fan_out = objects ? refs / objects + 1 : 1;
	uint64_t unreachable = writer->num_unreachable + 1;
	char *sql;
	struct hf_error *err;

	sql = sqlite3_mprintf(
		"ANALYZE sqlite_schema;"
		"ANALYZE type; ANALYZE type_stat; ANALYZE root;"
		"ANALYZE heap_area; ANALYZE segment; ANALYZE module;"
		"ANALYZE thread; ANALYZE reader;"
		"INSERT INTO sqlite_stat1(tbl, idx, stat) VALUES"
		" ('object', 'object_addr', '%llu 1'),"
		" ('object', 'object_idom', '%llu 4 1'),"
		" ('object', 'object_retained', '%llu 8'),"
		" ('object', 'object_unreachable', '%llu %llu 1'),"
		" ('object', 'object_pseudo', '2 1'),"
		" ('ref', 'ref', '%llu %llu 1'),"
		" ('ref', 'ref_dst', '%llu %llu 1 1');",
		objects + 1, objects + 1, objects + 1, unreachable,
		unreachable / 16 + 1, refs + 1, fan_out, refs + 1, fan_out);
	if (!sql)
		return &hf_enomem;
	err = run(writer, sql, "write");
	sqlite3_free(sql);
	return err;
}

static uint64_t count_statements(const char *sql)
{
	uint64_t num = 0;

	for (; *sql; sql++)
		num += *sql == ';';
	return num;
}

uint64_t hf_db_writer_peak_bytes(void)
{
	return (uint64_t)sqlite3_memory_highwater(0);
}

/* The last phase can only be told by who ends it. */
static struct hf_error *write_index_phase(struct hf_db_writer *writer,
					  uint64_t start_ns)
{
	char *sql = sqlite3_mprintf(
		"INSERT INTO phase(name, ns, items, peak_bytes) "
		"VALUES ('index', %llu, %llu, %llu)",
		hf_now_ns() - start_ns,
		writer->objects.num_rows + writer->refs.num_rows,
		hf_db_writer_peak_bytes());
	struct hf_error *err;

	if (!sql)
		return &hf_enomem;
	err = run(writer, sql, "write");
	sqlite3_free(sql);
	return err;
}

static struct hf_error *finish(struct hf_db_writer *writer)
{
	uint64_t start_ns = hf_now_ns();
	char pragma[64];
	struct hf_error *err = hf_db_batch_flush(writer, &writer->objects);

	if (!err)
		err = hf_db_batch_flush(writer, &writer->refs);
	finalize_all(writer);
	snprintf(pragma, sizeof(pragma), "PRAGMA cache_size=-%d",
		 INDEX_CACHE_KIB);
	if (!err)
		err = run(writer, pragma, "write");
	if (!err)
		err = run(writer, hf_sql_indices(), "write");
	if (!err)
		err = write_statistics(writer);
	if (!err)
		err = run(writer, hf_sql_views(), "write");
	if (!err)
		err = write_index_phase(writer, start_ns);
	return err ? err : run(writer, "COMMIT", "write");
}

struct hf_error *hf_db_writer_commit(struct hf_db_writer *writer,
				     const struct hf_progress *progress)
{
	struct hf_error *err;
	int rc;

	writer->progress = progress;
	writer->steps_done = 0;
	writer->steps = count_statements(hf_sql_indices());
	sqlite3_progress_handler(writer->db, OPS_PER_POLL, poll_progress,
				 writer);
	err = finish(writer);
	sqlite3_progress_handler(writer->db, 0, NULL, NULL);
	if (err)
		return err;
	rc = sqlite3_close(writer->db);
	if (rc)
		return hf_db_writer_error(writer, rc, "close");
	writer->db = NULL;
	return NULL;
}
