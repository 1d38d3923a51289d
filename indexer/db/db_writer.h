/* Database writer: the only code that knows the schema from the writing side.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_DB_DB_WRITER_H
#define HF_INDEXER_DB_DB_WRITER_H

#include "indexer/db/snapshot_row.h"
#include "util/error.h"
#include "util/progress.h"

/* create, put rows table by table, commit; destroy without commit leaves a
 * file nobody should use (the caller removes it: util/output.h). Rows of one
 * table come in key order. Ids are those of the schema: dense, from 1.
 * HF_UNKNOWN_U64, and NULL texts, become NULL. Texts are borrowed for the
 * call; bytes in them that are not UTF-8 are stored as \xNN, so that every
 * client can read them. Values of batches (object, ref) meet SQLite later: an
 * error of one row may be returned by another put, or by the commit. */

struct hf_db_writer;

struct hf_db_module {
	uint64_t id;
	const char *path;
	const char *build_id; /* hex */
	uint64_t base;        /* lowest address */
	uint64_t bias;
};

struct hf_db_segment {
	uint64_t id;
	uint64_t start, end;
	const char *prot;     /* "rwx-" letters as in maps: "rw-p" */
	const char *kind;
	uint64_t module_id;
	uint64_t resident_bytes;
	const char *captured; /* saved | zero | file | missing | late */
	const char *reason;   /* dontfork | wipeonfork | shared | no_access |
			       * device | kernel */
	const char *advice;   /* dontfork,wipeonfork,dontdump,io */
};

struct hf_db_thread {
	uint64_t id, tid;
	const char *name;
	const char *state;
	const char *stop_how; /* syscall | user | signal | partial */
	uint64_t pc, sp;
	uint64_t bp;           /* any number, if not `partial` */
	uint64_t syscall;      /* number, or unknown: none */
	const char *syscall_name;
	const char *stack_end; /* whole | lost | too_deep | none */
	uint64_t in_allocator; /* 0, 1 or unknown */
};

struct hf_db_frame {
	uint64_t id, thread_id, level;
	uint64_t pc, sp, cfa;
	uint64_t module_id;
	const char *function, *file;
	uint64_t line;
	uint64_t inlined;   /* 0, 1 */
	uint64_t is_signal; /* 0, 1 */
	const char *how;
};

struct hf_db_thread_register {
	uint64_t thread_id, number;
	const char *name;
	uint64_t value; /* all 64 bits: none of them means unknown */
};

struct hf_db_reader {
	uint64_t id;
	const char *name, *version;
	const char *confidence; /* low | medium | high */
	const char *how;
};

struct hf_db_area {
	uint64_t id, reader_id;
	const char *kind; /* arena | heap | mmap | block */
	uint64_t start, end;
	uint64_t used_bytes, free_bytes, cached_bytes, trim_bytes;
	uint64_t arena, suspect;
};

struct hf_db_type {
	uint64_t id;
	const char *name, *full_name, *kind;
	uint64_t size_bytes, module_id;
	const char *package;
};

struct hf_db_object {
	uint64_t id, addr, size_bytes, extent_bytes;
	uint64_t type_id, reader_id, area_id, container_id;
	uint64_t flags;
	uint64_t idom;           /* 0: the virtual root */
	uint64_t retained_bytes;
	uint64_t root_distance;  /* unknown: unreachable */
	uint64_t bfs_parent;     /* unknown: none */
};

struct hf_db_object_type {
	uint64_t object_id;
	const char *rule;
	double confidence;
	uint64_t votes, conflicts;
};

struct hf_db_root {
	uint64_t id, holder_id, object_id;
	const char *kind, *name;
	uint64_t addr, thread_id, frame_id, module_id, type_id;
	double confidence;
};

struct hf_db_type_stat {
	uint64_t type_id, count, bytes;
	uint64_t unreachable_count, unreachable_bytes, retained_bytes;
};

struct hf_db_anomaly {
	const char *kind;
	uint64_t addr, reader_id, count;
	const char *detail;
};

/** @param path a file that does not exist; created with mode 0600. */
struct hf_error *hf_db_writer_create(const char *path,
				     struct hf_db_writer **ret) HF_MUST_CHECK;
void hf_db_writer_destroy(struct hf_db_writer *writer);

/** Of several values for a key, the last counts. `tool` is there already. */
struct hf_error *hf_db_put_meta(struct hf_db_writer *writer, const char *key,
				const char *value) HF_MUST_CHECK;
struct hf_error *hf_db_put_snapshot(struct hf_db_writer *writer,
				    const struct hf_snapshot_row *row)
	HF_MUST_CHECK;
struct hf_error *hf_db_put_module(struct hf_db_writer *writer,
				  const struct hf_db_module *row) HF_MUST_CHECK;
struct hf_error *hf_db_put_segment(struct hf_db_writer *writer,
				   const struct hf_db_segment *row)
	HF_MUST_CHECK;
struct hf_error *hf_db_put_thread(struct hf_db_writer *writer,
				  const struct hf_db_thread *row) HF_MUST_CHECK;
struct hf_error *hf_db_put_frame(struct hf_db_writer *writer,
				 const struct hf_db_frame *row) HF_MUST_CHECK;
struct hf_error *
hf_db_put_thread_register(struct hf_db_writer *writer,
			  const struct hf_db_thread_register *row)
	HF_MUST_CHECK;
struct hf_error *hf_db_put_reader(struct hf_db_writer *writer,
				  const struct hf_db_reader *row) HF_MUST_CHECK;
struct hf_error *hf_db_put_area(struct hf_db_writer *writer,
				const struct hf_db_area *row) HF_MUST_CHECK;
struct hf_error *hf_db_put_type(struct hf_db_writer *writer,
				const struct hf_db_type *row) HF_MUST_CHECK;
struct hf_error *hf_db_put_object(struct hf_db_writer *writer,
				  const struct hf_db_object *row) HF_MUST_CHECK;
struct hf_error *hf_db_put_object_type(struct hf_db_writer *writer,
				       const struct hf_db_object_type *row)
	HF_MUST_CHECK;
struct hf_error *hf_db_put_ref(struct hf_db_writer *writer, uint64_t src,
			       int64_t slot, uint64_t dst, uint64_t flags)
	HF_MUST_CHECK;
struct hf_error *hf_db_put_root(struct hf_db_writer *writer,
				const struct hf_db_root *row) HF_MUST_CHECK;
struct hf_error *hf_db_put_type_stat(struct hf_db_writer *writer,
				     const struct hf_db_type_stat *row)
	HF_MUST_CHECK;
struct hf_error *hf_db_put_anomaly(struct hf_db_writer *writer,
				   const struct hf_db_anomaly *row)
	HF_MUST_CHECK;
struct hf_error *hf_db_put_phase(struct hf_db_writer *writer, const char *name,
				 uint64_t elapsed_ns, uint64_t items,
				 uint64_t peak_bytes) HF_MUST_CHECK;

/** The most memory SQLite has held in this process, in bytes. */
uint64_t hf_db_writer_peak_bytes(void);

/**
 * Indices, statistics, views, row `index` of table phase, commit, close. The
 * file is complete after it;
 * it has not been synced. Nothing can be put after it.
 *
 * @return NULL; NO_SPACE, NO_MEMORY, INTERRUPTED, OS or SQL.
 */
struct hf_error *hf_db_writer_commit(struct hf_db_writer *writer,
				     const struct hf_progress *progress)
	HF_MUST_CHECK;

/** Bits of object.flags and ref.flags; documented in sql/schema.sql. */
enum hf_object_flag {
	HF_OBJECT_REACHABLE = 1,
	HF_OBJECT_STATIC = 2,
	HF_OBJECT_PSEUDO = 4,
	HF_OBJECT_SUB = 8,
	HF_OBJECT_SUSPECT = 16,
	HF_OBJECT_ROOT_HOLDER = 32,
};
enum hf_ref_flag {
	HF_REF_INTERIOR = 1,
	HF_REF_CONSERVATIVE = 2,
	HF_REF_WEAK = 4,
	HF_REF_EPHEMERON = 8,
	HF_REF_TAGGED = 16,
	HF_REF_CROSS_HEAP = 32,
	HF_REF_BY_ROOT = 64,
};

HF_DEFINE_AUTO(struct hf_db_writer *, hf_db_writer, hf_db_writer_destroy)

#endif
