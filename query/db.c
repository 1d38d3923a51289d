/* Snapshot database, opened for reading: checked, guarded, limited.
 * SPDX-License-Identifier: MIT */
#include "query/db.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "sql/sql.h"

/* The header of an SQLite file (sqlite.org/fileformat2.html, section 1.3), as
 * far as it is looked at here; all numbers big-endian:
 *
 *   0  16  "SQLite format 3\0"
 *  16   2  page size, 1 meaning 65536
 *  24   4  file change counter
 *  28   4  size of the database in pages; valid if 92 equals 24
 *  60   4  user_version
 *  68   4  application_id
 *  92   4  change counter for which the size is valid
 */
enum {
	HEADER_BYTES = 100,
	OFF_PAGE_SIZE = 16,
	OFF_CHANGES = 24,
	OFF_PAGES = 28,
	OFF_USER_VERSION = 60,
	OFF_APPLICATION_ID = 68,
	OFF_PAGES_VALID_FOR = 92,
};

/* How many virtual machine steps of SQLite between two looks at the clock and
 * the user's wish to stop: some hundred microseconds. */
enum { STEPS_PER_POLL = 20000 };

struct hf_db {
	sqlite3 *handle;
	int format_version;
	const volatile sig_atomic_t *cancelled; /* borrowed, or NULL */
	uint64_t deadline_ns;                   /* 0: none */
	bool timed_out;
};

/* The tables our own statements and views read. */
static const char *const base_tables[] = {
	"meta",	 "snapshot",  "module", "segment",   "thread",
	"reader", "heap_area", "type",	 "object",    "ref",
	"root",	 "type_stat", "phase",	"anomaly",
};

static const struct {
	int limit, value;
} limits[] = {
	{ SQLITE_LIMIT_LENGTH, 512 << 20 }, /* chains as JSON (views.sql) */
	{ SQLITE_LIMIT_SQL_LENGTH, 1 << 20 },
	{ SQLITE_LIMIT_COLUMN, 200 },
	{ SQLITE_LIMIT_EXPR_DEPTH, 200 },
	{ SQLITE_LIMIT_COMPOUND_SELECT, 50 },
	{ SQLITE_LIMIT_VDBE_OP, 250000 },
	{ SQLITE_LIMIT_FUNCTION_ARG, 100 },
	{ SQLITE_LIMIT_ATTACHED, 0 },
	{ SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000 },
	{ SQLITE_LIMIT_VARIABLE_NUMBER, 100 },
	{ SQLITE_LIMIT_TRIGGER_DEPTH, 10 },
	{ SQLITE_LIMIT_WORKER_THREADS, 0 },
};

static uint32_t big_endian(const unsigned char *p, size_t len)
{
	uint32_t value = 0;

	for (size_t i = 0; i < len; i++)
		value = value << 8 | p[i];
	return value;
}

static struct hf_error *not_a_snapshot(const char *cause)
{
	struct hf_error *err = hf_bad_data("not a heapfork snapshot");

	err = hf_error_cause(err, "%s", cause);
	return hf_error_fix(err, "give a file made by heapfork snapshot");
}

/* What kind of file is it? Answered from its first bytes, before SQLite reads
 * any of it, so that the answer can be a clear one. */
static struct hf_error *check_header(const unsigned char *header, size_t len,
				     uint64_t file_bytes, int *version_ret)
{
	uint64_t page_bytes, pages;
	uint32_t version;

	if (!file_bytes)
		return not_a_snapshot("the file is empty");
	if (len >= 4 && !memcmp(header, "\177ELF", 4))
		return not_a_snapshot("it is an ELF file");
	if (len < 16 || memcmp(header, "SQLite format 3", 16))
		return not_a_snapshot("it is not an SQLite database");
	if (len < HEADER_BYTES)
		return hf_error_cause(hf_bad_data("the snapshot is damaged"),
				      "the file ends within its header");
	if (big_endian(header + OFF_APPLICATION_ID, 4) != HF_SQL_APPLICATION_ID)
		return not_a_snapshot(
			"it is an SQLite database of another program");
	version = big_endian(header + OFF_USER_VERSION, 4);
	if (version > HF_SQL_FORMAT_VERSION) {
		struct hf_error *err = hf_error_create(
			HF_ERROR_UNSUPPORTED,
			"the snapshot has format version %u", version);

		err = hf_error_cause(
			err, "this heapfork reads versions up to %d",
			HF_SQL_FORMAT_VERSION);
		return hf_error_fix(
			err, "use the heapfork that made it, or a newer one");
	}
	if (!version)
		return not_a_snapshot("it has no format version");
	page_bytes = big_endian(header + OFF_PAGE_SIZE, 2);
	if (page_bytes == 1)
		page_bytes = 65536;
	pages = big_endian(header + OFF_PAGES, 4);
	if (big_endian(header + OFF_CHANGES, 4) ==
		    big_endian(header + OFF_PAGES_VALID_FOR, 4) &&
	    pages * page_bytes > file_bytes)
		return hf_error_cause(
			hf_bad_data("the snapshot is truncated"),
			"%llu bytes are there, %llu should be",
			(unsigned long long)file_bytes,
			(unsigned long long)(pages * page_bytes));
	*version_ret = (int)version;
	return NULL;
}

static struct hf_error *check_file(const char *path, int *version_ret)
{
	unsigned char header[HEADER_BYTES];
	struct stat st;
	ssize_t len;
	/* O_NONBLOCK: the open of a FIFO must not wait for its writer. */
	HF_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return hf_error_fix(
			hf_error_cause(hf_bad_data("cannot open the snapshot"),
				       "%s",
				       errno == ENOENT ?
					       "no such file" :
					       "a part of its path is not a "
					       "folder"),
			"heapfork snapshot -p PID -o FILE makes one");
	if (fd < 0)
		return hf_error_os(errno, "cannot open the file");
	if (fstat(fd, &st))
		return hf_error_os(errno, "cannot stat the file");
	if (S_ISDIR(st.st_mode))
		return not_a_snapshot("it is a directory");
	if (!S_ISREG(st.st_mode))
		return not_a_snapshot("it is not a regular file");
	len = pread(fd, header, sizeof(header), 0);
	if (len < 0)
		return hf_error_os(errno, "cannot read the file");
	return check_header(header, (size_t)len, (uint64_t)st.st_size,
			    version_ret);
}

static int poll_stop(void *arg)
{
	struct hf_db *db = arg;

	if (db->cancelled && *db->cancelled)
		return 1;
	if (db->deadline_ns && hf_now_ns() > db->deadline_ns) {
		db->timed_out = true;
		return 1;
	}
	return 0;
}

struct hf_error *hf_db_error(struct hf_db *db, int rc,
			     enum hf_error_code otherwise)
{
	const char *text = sqlite3_errmsg(db->handle);

	switch (rc & 0xff) {
	case SQLITE_NOMEM:
		return &hf_enomem;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
	case SQLITE_FORMAT:
		return hf_error_cause(hf_bad_data("the snapshot is damaged"),
				      "%s", text);
	case SQLITE_INTERRUPT:
		if (db->timed_out)
			return hf_error_create(HF_ERROR_TIMEOUT,
					       "the time limit ran out");
		return hf_error_create(HF_ERROR_INTERRUPTED,
				       "stopped by the user");
	case SQLITE_FULL:
		return hf_error_cause(
			hf_error_create(HF_ERROR_NO_SPACE,
					"no space for a temporary file"),
			"%s", text);
	case SQLITE_IOERR:
	case SQLITE_CANTOPEN:
	case SQLITE_READONLY:
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
	case SQLITE_PERM:
		return hf_error_create(HF_ERROR_OS, "cannot read: %s", text);
	default:
		return hf_error_create(otherwise, "%s", text);
	}
}

static struct hf_error *run(struct hf_db *db, const char *sql)
{
	int rc = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);

	return rc ? hf_db_error(db, rc, HF_ERROR_BAD_DATA) : NULL;
}

static struct hf_error *harden(struct hf_db *db)
{
	static const struct {
		int option, value;
	} config[] = {
		{ SQLITE_DBCONFIG_DEFENSIVE, 1 },
		{ SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0 },
		{ SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0 },
		{ SQLITE_DBCONFIG_ENABLE_TRIGGER, 0 },
		{ SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, 0 },
		{ SQLITE_DBCONFIG_DQS_DML, 0 },
		{ SQLITE_DBCONFIG_DQS_DDL, 0 },
	};

	for (size_t i = 0; i < sizeof(config) / sizeof(config[0]); i++) {
		int now = -1;

		if (sqlite3_db_config(db->handle, config[i].option,
				      config[i].value, &now) ||
		    now != config[i].value)
			return hf_error_create(
				HF_ERROR_UNSUPPORTED,
				"this SQLite (%s) cannot be hardened",
				sqlite3_libversion());
	}
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		sqlite3_limit(db->handle, limits[i].limit, limits[i].value);
	/* mmap_size 0: a file cut short under us is an error, not SIGBUS. */
	return run(db, "PRAGMA cell_size_check=ON; PRAGMA mmap_size=0;"
		       "PRAGMA temp_store=MEMORY; PRAGMA query_only=OFF;"
		       "PRAGMA cache_size=-65536; BEGIN;");
}

bool hf_db_has_table(struct hf_db *db, const char *name)
{
	sqlite3_stmt *stmt;
	bool found = false;

	if (sqlite3_prepare_v2(db->handle,
			       "SELECT 1 FROM main.sqlite_schema WHERE name = ?"
			       " AND type = 'table' AND rootpage > 0",
			       -1, &stmt, NULL))
		return false;
	if (!sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC))
		found = sqlite3_step(stmt) == SQLITE_ROW;
	sqlite3_finalize(stmt);
	return found;
}

/* Virtual tables have no root page, so they do not pass for tables. */
static struct hf_error *check_tables(struct hf_db *db)
{
	struct hf_error *err = run(db, "SELECT 1 FROM main.sqlite_schema");

	for (size_t i = 0;
	     !err && i < sizeof(base_tables) / sizeof(base_tables[0]); i++)
		if (!hf_db_has_table(db, base_tables[i]))
			err = hf_error_cause(
				hf_bad_data("the snapshot is damaged"),
				"table '%s' is missing", base_tables[i]);
	return err;
}

static struct hf_error *set_up(struct hf_db *db)
{
	struct hf_error *err;

	sqlite3_extended_result_codes(db->handle, 1);
	sqlite3_busy_timeout(db->handle, 2000);
	sqlite3_progress_handler(db->handle, STEPS_PER_POLL, poll_stop, db);
	err = harden(db);
	if (!err)
		err = check_tables(db);
	if (!err)
		err = run(db, hf_sql_temp_views());
	return err;
}

/* SQLite must not take a name for a URI ("file:...", which Debian's library
 * does by default) or for ":memory:". */
static struct hf_error *plain_name(const char *path, char **ret)
{
	if (asprintf(ret, "%s%s", path[0] == '/' ? "" : "./", path) < 0)
		return &hf_enomem;
	return NULL;
}

struct hf_error *hf_db_open(const char *path, struct hf_db **ret)
{
	HF_AUTO(hf_db) struct hf_db *db = calloc(1, sizeof(*db));
	HF_AUTO_FREE char *name = NULL;
	struct hf_error *err;

	if (!db)
		return &hf_enomem;
	err = check_file(path, &db->format_version);
	if (!err)
		err = plain_name(path, &name);
	if (!err) {
		int rc = sqlite3_open_v2(name, &db->handle,
					 SQLITE_OPEN_READONLY |
						 SQLITE_OPEN_NOMUTEX |
						 SQLITE_OPEN_PRIVATECACHE,
					 NULL);

		if (!db->handle)
			return &hf_enomem;
		err = rc ? hf_db_error(db, rc, HF_ERROR_OS) : set_up(db);
	}
	if (err)
		return hf_error_prefix(err, "'%s'", path);
	*ret = HF_TAKE(db);
	return NULL;
}

struct hf_error *hf_db_open_bytes(const void *bytes, size_t len,
				  struct hf_db **ret)
{
	HF_AUTO(hf_db) struct hf_db *db = calloc(1, sizeof(*db));
	unsigned char *copy;
	struct hf_error *err;
	int rc;

	if (!db)
		return &hf_enomem;
	err = check_header(bytes, len < HEADER_BYTES ? len : HEADER_BYTES, len,
			   &db->format_version);
	if (err)
		return err;
	rc = sqlite3_open_v2(":memory:", &db->handle, SQLITE_OPEN_READWRITE,
			     NULL);
	if (!db->handle)
		return &hf_enomem;
	if (rc)
		return hf_db_error(db, rc, HF_ERROR_OS);
	copy = sqlite3_malloc64(len);
	if (!copy)
		return &hf_enomem;
	memcpy(copy, bytes, len);
	rc = sqlite3_deserialize(db->handle, "main", copy, (sqlite3_int64)len,
				 (sqlite3_int64)len,
				 SQLITE_DESERIALIZE_FREEONCLOSE |
					 SQLITE_DESERIALIZE_READONLY);
	err = rc ? hf_db_error(db, rc, HF_ERROR_BAD_DATA) : set_up(db);
	if (err)
		return err;
	*ret = HF_TAKE(db);
	return NULL;
}

void hf_db_close(struct hf_db *db)
{
	if (!db)
		return;
	sqlite3_close_v2(db->handle);
	free(db);
}

sqlite3 *hf_db_handle(struct hf_db *db)
{
	return db->handle;
}

int hf_db_format_version(const struct hf_db *db)
{
	return db->format_version;
}

void hf_db_set_stop(struct hf_db *db, const volatile sig_atomic_t *cancelled,
		    uint64_t deadline_ns)
{
	db->cancelled = cancelled;
	db->deadline_ns = deadline_ns;
	db->timed_out = false;
}
