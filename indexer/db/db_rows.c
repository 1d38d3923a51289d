/* Rows: one put function for each table.
 * SPDX-License-Identifier: MIT */
#include <inttypes.h>

#include "indexer/db/db_internal.h"
#include "indexer/db/db_text.h"

static const struct {
	const char *name;    /* of the table */
	const char *columns; /* in the order in which they are added below */
} tables[] = {
	[HF_DB_META] = { "meta", "key,value" },
	[HF_DB_SNAPSHOT] = { "snapshot",
			     "id,taken_ns,pid,start_time,boot_id,command,tool,"
			     "source,safe_point,consistency,partial,pause_ns,"
			     "stop_ns,regs_ns,fork_ns,resume_ns,reap_ns,"
			     "child_life_ns,cow_pages,parent_faults,"
			     "dropped_bytes,peak_private_bytes,attempts,"
			     "missed_pause_ns,safe_point_tries,pause_calls,"
			     "max_thread_calls,partial_threads,threads,"
			     "objects,refs,"
			     "live_bytes,private_anon_bytes,unknown_bytes" },
	[HF_DB_MODULE] = { "module", "id,path,build_id,base,bias" },
	[HF_DB_SEGMENT] = { "segment", "id,start,\"end\",prot,kind,module_id,"
				       "resident_bytes,captured,reason,"
				       "advice" },
	[HF_DB_THREAD] = { "thread", "id,tid,name,state,stop_how,pc,sp,"
				     "bp,syscall,syscall_name,stack_end,"
				     "in_allocator" },
	[HF_DB_THREAD_REGISTER] = { "thread_register",
				    "thread_id,number,name,value" },
	[HF_DB_FRAME] = { "frame", "id,thread_id,level,pc,sp,cfa,module_id,"
				   "function,file,line,inlined,is_signal,"
				   "how" },
	[HF_DB_READER] = { "reader", "id,name,version,confidence,how" },
	[HF_DB_AREA] = { "heap_area", "id,reader_id,kind,start,\"end\","
				      "used_bytes,free_bytes,cached_bytes,"
				      "trim_bytes,arena,suspect" },
	[HF_DB_TYPE] = { "type", "id,name,full_name,kind,size_bytes,module_id,"
				 "package" },
	[HF_DB_OBJECT_TYPE] = { "object_type", "object_id,rule,confidence,"
					       "votes,conflicts" },
	[HF_DB_ROOT] = { "root", "id,holder_id,object_id,kind,name,addr,"
				 "thread_id,frame_id,module_id,type_id,"
				 "confidence" },
	[HF_DB_TYPE_STAT] = { "type_stat", "type_id,count,bytes,"
					   "unreachable_count,"
					   "unreachable_bytes,"
					   "retained_bytes" },
	[HF_DB_ANOMALY] = { "anomaly", "kind,addr,reader_id,count,detail" },
	[HF_DB_PHASE] = { "phase", "name,ns,items,peak_bytes" },
};

/* A row being bound, column by column. The first failure stays in rc and is
 * reported by put(). */
struct row {
	sqlite3_stmt *stmt;
	int column; /* bound so far */
	int rc;
	uint64_t too_large; /* the value, if rc is SQLITE_TOOBIG */
};

static struct hf_error *begin(struct hf_db_writer *writer,
			      enum hf_db_table table, struct row *ret)
{
	sqlite3_stmt **stmt = &writer->insert[table];

	if (!*stmt) {
		sqlite3_str *sql = sqlite3_str_new(writer->db);
		char *text;
		int rc, num_columns = 1;

		for (const char *c = tables[table].columns; *c; c++)
			num_columns += *c == ',';
		/* Of meta, the last value of a key counts. */
		sqlite3_str_appendf(sql, "INSERT %sINTO %s(%s) VALUES(?",
				    table == HF_DB_META ? "OR REPLACE " : "",
				    tables[table].name, tables[table].columns);
		for (int i = 1; i < num_columns; i++)
			sqlite3_str_appendall(sql, ",?");
		sqlite3_str_appendchar(sql, 1, ')');
		text = sqlite3_str_finish(sql);
		if (!text)
			return &hf_enomem;
		rc = sqlite3_prepare_v3(writer->db, text, -1,
					SQLITE_PREPARE_PERSISTENT, stmt, NULL);
		sqlite3_free(text);
		if (rc)
			return hf_db_writer_error(writer, rc, "write");
	}
	*ret = (struct row){ .stmt = *stmt };
	return NULL;
}

static void add_u64(struct row *row, uint64_t value)
{
	row->column++;
	if (row->rc)
		return;
	if (value == HF_UNKNOWN_U64) {
		row->rc = sqlite3_bind_null(row->stmt, row->column);
	} else if (value > INT64_MAX) {
		row->rc = SQLITE_TOOBIG;
		row->too_large = value;
	} else {
		row->rc = sqlite3_bind_int64(row->stmt, row->column,
					     (int64_t)value);
	}
}

/* All 64 bits of a register, as a signed number: SQLite has no other. */
static void add_bits(struct row *row, uint64_t bits)
{
	row->column++;
	if (!row->rc)
		row->rc = sqlite3_bind_int64(row->stmt, row->column,
					     (int64_t)bits);
}

/* A register that may be unknown, too. */
static void add_bits_or_null(struct row *row, uint64_t bits)
{
	if (bits == HF_UNKNOWN_U64)
		add_u64(row, bits);
	else
		add_bits(row, bits);
}

static void add_text(struct row *row, const char *text)
{
	HF_AUTO_FREE char *repaired = NULL;

	row->column++;
	if (row->rc)
		return;
	if (text && !hf_db_text_is_utf8(text)) {
		repaired = hf_db_text_repair(text);
		row->rc = repaired ? sqlite3_bind_text(row->stmt, row->column,
						       repaired, -1,
						       SQLITE_TRANSIENT)
				   : SQLITE_NOMEM;
		return;
	}
	/* NULL is bound as NULL. */
	row->rc = sqlite3_bind_text(row->stmt, row->column, text, -1,
				    SQLITE_STATIC);
}

static void add_real(struct row *row, double value)
{
	row->column++;
	if (!row->rc) /* not a number is bound as NULL */
		row->rc = sqlite3_bind_double(row->stmt, row->column, value);
}

static struct hf_error *put(struct hf_db_writer *writer, struct row *row)
{
	if (row->rc == SQLITE_TOOBIG && row->too_large)
		return hf_bad_data("value 0x%" PRIx64
				   " is too large for the database",
				   row->too_large);
	if (!row->rc && sqlite3_step(row->stmt) == SQLITE_DONE)
		row->rc = sqlite3_reset(row->stmt);
	else if (!row->rc)
		row->rc = sqlite3_reset(row->stmt) ?: SQLITE_ERROR;
	return row->rc ? hf_db_writer_error(writer, row->rc, "write") : NULL;
}

struct hf_error *hf_db_put_meta(struct hf_db_writer *writer, const char *key,
				const char *value)
{
	struct row row;
	struct hf_error *err = begin(writer, HF_DB_META, &row);

	if (err)
		return err;
	add_text(&row, key);
	add_text(&row, value);
	return put(writer, &row);
}

struct hf_error *hf_db_put_snapshot(struct hf_db_writer *writer,
				    const struct hf_snapshot_row *in)
{
	struct row row;
	struct hf_error *err = begin(writer, HF_DB_SNAPSHOT, &row);

	if (err)
		return err;
	add_u64(&row, 1);
	add_u64(&row, in->taken_ns);
	add_u64(&row, in->pid);
	add_u64(&row, in->start_time);
	add_text(&row, in->boot_id);
	add_text(&row, in->command);
	add_text(&row, "heapfork " HF_VERSION);
	add_text(&row, in->source);
	add_text(&row, in->safe_point);
	add_text(&row, in->consistency);
	add_u64(&row, in->partial);
	add_u64(&row, in->pause_ns);
	add_u64(&row, in->stop_ns);
	add_u64(&row, in->regs_ns);
	add_u64(&row, in->fork_ns);
	add_u64(&row, in->resume_ns);
	add_u64(&row, in->reap_ns);
	add_u64(&row, in->child_life_ns);
	add_u64(&row, in->cow_pages);
	add_u64(&row, in->parent_faults);
	add_u64(&row, in->dropped_bytes);
	add_u64(&row, in->peak_private_bytes);
	add_u64(&row, in->attempts);
	add_u64(&row, in->missed_pause_ns);
	add_u64(&row, in->safe_point_tries);
	add_u64(&row, in->pause_calls);
	add_u64(&row, in->max_thread_calls);
	add_u64(&row, in->partial_threads);
	add_u64(&row, in->threads);
	add_u64(&row, in->objects);
	add_u64(&row, in->refs);
	add_u64(&row, in->live_bytes);
	add_u64(&row, in->private_anon_bytes);
	add_u64(&row, in->unknown_bytes);
	return put(writer, &row);
}

struct hf_error *hf_db_put_module(struct hf_db_writer *writer,
				  const struct hf_db_module *in)
{
	struct row row;
	struct hf_error *err = begin(writer, HF_DB_MODULE, &row);

	if (err)
		return err;
	add_u64(&row, in->id);
	add_text(&row, in->path);
	add_text(&row, in->build_id);
	add_u64(&row, in->base);
	add_u64(&row, in->bias);
	return put(writer, &row);
}

struct hf_error *hf_db_put_segment(struct hf_db_writer *writer,
				   const struct hf_db_segment *in)
{
	struct row row;
	struct hf_error *err = begin(writer, HF_DB_SEGMENT, &row);

	if (err)
		return err;
	add_u64(&row, in->id);
	add_u64(&row, in->start);
	add_u64(&row, in->end);
	add_text(&row, in->prot);
	add_text(&row, in->kind);
	add_u64(&row, in->module_id);
	add_u64(&row, in->resident_bytes);
	add_text(&row, in->captured);
	add_text(&row, in->reason);
	add_text(&row, in->advice);
	return put(writer, &row);
}

struct hf_error *hf_db_put_thread(struct hf_db_writer *writer,
				  const struct hf_db_thread *in)
{
	struct row row;
	struct hf_error *err = begin(writer, HF_DB_THREAD, &row);

	if (err)
		return err;
	add_u64(&row, in->id);
	add_u64(&row, in->tid);
	add_text(&row, in->name);
	add_text(&row, in->state);
	add_text(&row, in->stop_how);
	add_bits_or_null(&row, in->pc);
	add_bits_or_null(&row, in->sp);
	add_bits_or_null(&row, in->bp);
	add_u64(&row, in->syscall);
	add_text(&row, in->syscall_name);
	add_text(&row, in->stack_end);
	add_u64(&row, in->in_allocator);
	return put(writer, &row);
}

struct hf_error *
hf_db_put_thread_register(struct hf_db_writer *writer,
			  const struct hf_db_thread_register *in)
{
	struct row row;
	struct hf_error *err = begin(writer, HF_DB_THREAD_REGISTER, &row);

	if (err)
		return err;
	add_u64(&row, in->thread_id);
	add_u64(&row, in->number);
	add_text(&row, in->name);
	add_bits(&row, in->value);
	return put(writer, &row);
}

struct hf_error *hf_db_put_frame(struct hf_db_writer *writer,
				 const struct hf_db_frame *in)
{
	struct row row;
	struct hf_error *err = begin(writer, HF_DB_FRAME, &row);

	if (err)
		return err;
	add_u64(&row, in->id);
	add_u64(&row, in->thread_id);
	add_u64(&row, in->level);
	add_bits_or_null(&row, in->pc);
	add_bits_or_null(&row, in->sp);
	add_bits_or_null(&row, in->cfa);
	add_u64(&row, in->module_id);
	add_text(&row, in->function);
	add_text(&row, in->file);
	add_u64(&row, in->line);
	add_u64(&row, in->inlined);
	add_u64(&row, in->is_signal);
	add_text(&row, in->how);
	return put(writer, &row);
}

struct hf_error *hf_db_put_reader(struct hf_db_writer *writer,
				  const struct hf_db_reader *in)
{
	struct row row;
	struct hf_error *err = begin(writer, HF_DB_READER, &row);

	if (err)
		return err;
	add_u64(&row, in->id);
	add_text(&row, in->name);
	add_text(&row, in->version);
	add_text(&row, in->confidence);
	add_text(&row, in->how);
	return put(writer, &row);
}

struct hf_error *hf_db_put_area(struct hf_db_writer *writer,
				const struct hf_db_area *in)
{
	struct row row;
	struct hf_error *err = begin(writer, HF_DB_AREA, &row);

	if (err)
		return err;
	add_u64(&row, in->id);
	add_u64(&row, in->reader_id);
	add_text(&row, in->kind);
	add_u64(&row, in->start);
	add_u64(&row, in->end);
	add_u64(&row, in->used_bytes);
	add_u64(&row, in->free_bytes);
	add_u64(&row, in->cached_bytes);
	add_u64(&row, in->trim_bytes);
	add_u64(&row, in->arena);
	add_u64(&row, in->suspect);
	return put(writer, &row);
}

struct hf_error *hf_db_put_type(struct hf_db_writer *writer,
				const struct hf_db_type *in)
{
	struct row row;
	struct hf_error *err = begin(writer, HF_DB_TYPE, &row);

	if (err)
		return err;
	add_u64(&row, in->id);
	add_text(&row, in->name);
	add_text(&row, in->full_name);
	add_text(&row, in->kind);
	add_u64(&row, in->size_bytes);
	add_u64(&row, in->module_id);
	add_text(&row, in->package);
	return put(writer, &row);
}

struct hf_error *hf_db_put_object_type(struct hf_db_writer *writer,
				       const struct hf_db_object_type *in)
{
	struct row row;
	struct hf_error *err = begin(writer, HF_DB_OBJECT_TYPE, &row);

	if (err)
		return err;
	add_u64(&row, in->object_id);
	add_text(&row, in->rule);
	add_real(&row, in->confidence);
	add_u64(&row, in->votes);
	add_u64(&row, in->conflicts);
	return put(writer, &row);
}

struct hf_error *hf_db_put_root(struct hf_db_writer *writer,
				const struct hf_db_root *in)
{
	struct row row;
	struct hf_error *err = begin(writer, HF_DB_ROOT, &row);

	if (err)
		return err;
	add_u64(&row, in->id);
	add_u64(&row, in->holder_id);
	add_u64(&row, in->object_id);
	add_text(&row, in->kind);
	add_text(&row, in->name);
	add_u64(&row, in->addr);
	add_u64(&row, in->thread_id);
	add_u64(&row, in->frame_id);
	add_u64(&row, in->module_id);
	add_u64(&row, in->type_id);
	add_real(&row, in->confidence);
	return put(writer, &row);
}

struct hf_error *hf_db_put_type_stat(struct hf_db_writer *writer,
				     const struct hf_db_type_stat *in)
{
	struct row row;
	struct hf_error *err = begin(writer, HF_DB_TYPE_STAT, &row);

	if (err)
		return err;
	add_u64(&row, in->type_id);
	add_u64(&row, in->count);
	add_u64(&row, in->bytes);
	add_u64(&row, in->unreachable_count);
	add_u64(&row, in->unreachable_bytes);
	add_u64(&row, in->retained_bytes);
	return put(writer, &row);
}

struct hf_error *hf_db_put_anomaly(struct hf_db_writer *writer,
				   const struct hf_db_anomaly *in)
{
	struct row row;
	struct hf_error *err = begin(writer, HF_DB_ANOMALY, &row);

	if (err)
		return err;
	add_text(&row, in->kind);
	add_u64(&row, in->addr);
	add_u64(&row, in->reader_id);
	add_u64(&row, in->count);
	add_text(&row, in->detail);
	return put(writer, &row);
}

struct hf_error *hf_db_put_phase(struct hf_db_writer *writer, const char *name,
				 uint64_t elapsed_ns, uint64_t items,
				 uint64_t peak_bytes)
{
	struct row row;
	struct hf_error *err = begin(writer, HF_DB_PHASE, &row);

	if (err)
		return err;
	add_text(&row, name);
	add_u64(&row, elapsed_ns);
	add_u64(&row, items);
	add_u64(&row, peak_bytes);
	return put(writer, &row);
}

struct hf_error *hf_db_put_object(struct hf_db_writer *writer,
				  const struct hf_db_object *in)
{
	int64_t *value = hf_db_batch_row(&writer->objects);

	if (in->root_distance == HF_UNKNOWN_U64 && in->size_bytes)
		writer->num_unreachable++;
	value[0] = (int64_t)in->id;
	value[1] = (int64_t)in->addr;
	value[2] = (int64_t)in->size_bytes;
	value[3] = (int64_t)in->extent_bytes;
	value[4] = (int64_t)in->type_id;
	value[5] = (int64_t)in->reader_id;
	value[6] = (int64_t)in->area_id;
	value[7] = (int64_t)in->container_id;
	value[8] = (int64_t)in->flags;
	value[9] = (int64_t)in->idom;
	value[10] = (int64_t)in->retained_bytes;
	value[11] = (int64_t)in->root_distance;
	value[12] = (int64_t)in->bfs_parent;
	return hf_db_batch_add(writer, &writer->objects);
}

struct hf_error *hf_db_put_ref(struct hf_db_writer *writer, uint64_t src,
			       int64_t slot, uint64_t dst, uint64_t flags)
{
	int64_t *value = hf_db_batch_row(&writer->refs);

	value[0] = (int64_t)src;
	value[1] = slot;
	value[2] = (int64_t)dst;
	value[3] = (int64_t)flags;
	return hf_db_batch_add(writer, &writer->refs);
}
