/* Index rows: the small tables, and the texts that rows need.
 * SPDX-License-Identifier: MIT */
#include "indexer/index_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define NONE HF_UNKNOWN_U64

static uint64_t id_of_module(uint32_t module_id)
{
	return module_id == HF_NO_MODULE ? NONE : (uint64_t)module_id + 1;
}

const char *hf_index_root_name(const struct hf_holder *holder, uint32_t slot)
{
	/* The order of struct user_regs_struct (<sys/user.h>). */
	static const char *const registers[] = {
		"r15", "r14", "r13", "r12", "rbp",	"rbx", "r11",
		"r10", "r9",  "r8",  "rax", "rcx",	"rdx", "rsi",
		"rdi", "orig_rax",   "rip", "cs",	"eflags",
		"rsp", "ss",  "fs_base",    "gs_base",	"ds",  "es",
		"fs",  "gs",
	};

	if (holder->kind == HF_HOLDER_REGISTERS)
		return slot < sizeof(registers) / sizeof(*registers)
			       ? registers[slot]
			       : "xstate";
	return holder->kind == HF_HOLDER_GLOBAL ? holder->name : NULL;
}

static struct hf_error *write_modules(const struct hf_index_model *model,
				      struct hf_db_writer *db)
{
	size_t num;
	const struct hf_module *modules = hf_image_modules(model->image, &num);

	for (size_t i = 0; i < num; i++) {
		const struct hf_module *module = &modules[i];
		char build_id[2 * sizeof(module->build_id) + 1] = "";
		struct hf_db_module row = {
			.id = i + 1,
			.path = module->path,
			.build_id = module->build_id_bytes ? build_id : NULL,
			.base = module->start,
			.bias = module->bias,
		};
		struct hf_error *err;

		for (uint32_t b = 0; b < module->build_id_bytes; b++)
			snprintf(build_id + 2 * b, 3, "%02x",
				 module->build_id[b]);
		err = hf_db_put_module(db, &row);
		if (err)
			return err;
	}
	return NULL;
}

static const char *segment_kind(enum hf_segment_kind kind)
{
	static const char *const names[] = {
		[HF_SEGMENT_ANON] = "anon",	 [HF_SEGMENT_BRK] = "brk",
		[HF_SEGMENT_STACK] = "stack",	 [HF_SEGMENT_FILE] = "file",
		[HF_SEGMENT_SHARED] = "shared",	 [HF_SEGMENT_VDSO] = "vdso",
		[HF_SEGMENT_SPECIAL] = "special",
	};

	return names[kind];
}

static const char *captured(const struct hf_segment *segment)
{
	if (segment->late)
		return "late";
	if (segment->resident_bytes)
		return "saved";
	return segment->absent == HF_ABSENT_ZERO   ? "zero"
	       : segment->absent == HF_ABSENT_FILE ? "file"
						   : "missing";
}

/* Why a segment is not there as it was at the instant; NULL: it is. */
static const char *reason(const struct hf_segment *segment)
{
	bool missing = segment->absent == HF_ABSENT_MISSING &&
		       !segment->resident_bytes;

	if (segment->kind == HF_SEGMENT_SPECIAL)
		return segment->path && segment->path[0] == '[' ? "kernel" :
								  "device";
	/* From a driver's mapping, too, that it keeps out of forks. */
	if (segment->advice & HF_ADVICE_DONTFORK &&
	    (segment->late || missing))
		return "dontfork";
	if (segment->kind == HF_SEGMENT_SHARED)
		return "shared";
	if (segment->late || (segment->advice & HF_ADVICE_WIPEONFORK &&
			      missing))
		return "wipeonfork";
	return missing && !segment->prot ? "no_access" : NULL;
}

/* "dontfork,dontdump"; NULL: none. */
static const char *advice(const struct hf_segment *segment, char *buf,
			  size_t size)
{
	static const struct {
		enum hf_advice bit;
		const char *name;
	} names[] = {
		{ HF_ADVICE_DONTFORK, "dontfork" },
		{ HF_ADVICE_WIPEONFORK, "wipeonfork" },
		{ HF_ADVICE_DONTDUMP, "dontdump" },
		{ HF_ADVICE_IO, "io" },
	};
	size_t len = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (segment->advice & names[i].bit && len < size)
			len += (size_t)snprintf(buf + len, size - len, "%s%s",
						len ? "," : "", names[i].name);
	return len ? buf : NULL;
}

static struct hf_error *write_segments(const struct hf_index_model *model,
				       struct hf_db_writer *db)
{
	size_t num;
	const struct hf_segment *segments =
		hf_image_segments(model->image, &num);

	for (size_t i = 0; i < num; i++) {
		const struct hf_segment *segment = &segments[i];
		const char prot[] = {
			segment->prot & PROT_READ ? 'r' : '-',
			segment->prot & PROT_WRITE ? 'w' : '-',
			segment->prot & PROT_EXEC ? 'x' : '-',
			segment->kind == HF_SEGMENT_SHARED ? 's' : 'p',
			'\0',
		};
		char advice_text[64];
		struct hf_db_segment row = {
			.id = i + 1,
			.start = segment->start,
			.end = segment->end,
			.prot = prot,
			.kind = segment_kind(segment->kind),
			.module_id = id_of_module(segment->module_id),
			.resident_bytes = segment->resident_bytes,
			.captured = captured(segment),
			.reason = reason(segment),
			.advice = advice(segment, advice_text,
					 sizeof(advice_text)),
		};
		struct hf_error *err = hf_db_put_segment(db, &row);

		if (err)
			return err;
	}
	return NULL;
}

static struct hf_error *write_readers(const struct hf_index_model *model,
				      struct hf_db_writer *db)
{
	static const char *const confidence[] = { "low", "medium", "high" };

	for (uint32_t i = 0; i < model->num_readers; i++) {
		const struct hf_reader_info *info = &model->readers[i];
		struct hf_db_reader row = {
			.id = (uint64_t)i + 1,
			.name = info->name,
			.version = info->version,
			.confidence = confidence[info->confidence],
			.how = info->how,
		};
		struct hf_error *err = hf_db_put_reader(db, &row);

		if (err)
			return err;
	}
	return NULL;
}

static struct hf_error *write_areas(const struct hf_index_model *model,
				    struct hf_db_writer *db)
{
	static const char *const kinds[] = {
		[HF_AREA_ARENA] = "arena",
		[HF_AREA_HEAP] = "heap",
		[HF_AREA_MMAP] = "mmap",
		[HF_AREA_BLOCK] = "block",
	};

	for (uint32_t i = 0; i < model->blocks.num_areas; i++) {
		const struct hf_block_area *entry = &model->blocks.areas[i];
		struct hf_db_area row = {
			.id = (uint64_t)i + 1,
			.reader_id = (uint64_t)entry->reader_id + 1,
			.kind = kinds[entry->area.kind],
			.start = entry->area.start,
			.end = entry->area.end,
			.used_bytes = entry->area.used_bytes,
			.free_bytes = entry->area.free_bytes,
			.cached_bytes = entry->area.cached_bytes,
			.trim_bytes = entry->area.trim_bytes,
			.arena = entry->area.arena,
			.suspect = entry->area.suspect,
		};
		struct hf_error *err = hf_db_put_area(db, &row);

		if (err)
			return err;
	}
	return NULL;
}

static uint64_t id_of_reader(const struct hf_index_model *model,
			     const char *name)
{
	for (uint32_t i = 0; name && i < model->num_readers; i++)
		if (!strcmp(model->readers[i].name, name))
			return (uint64_t)i + 1;
	return NONE;
}

static struct hf_error *write_anomalies(const struct hf_index_model *model,
					struct hf_db_writer *db)
{
	size_t num;
	const struct hf_anomaly *all = hf_anomalies_all(model->anomalies, &num);

	for (size_t i = 0; i < num; i++) {
		struct hf_db_anomaly row = {
			.kind = all[i].kind,
			.addr = all[i].addr ? all[i].addr : NONE,
			.reader_id = id_of_reader(model, all[i].reader),
			.count = all[i].count,
			.detail = all[i].detail[0] ? all[i].detail : NULL,
		};
		struct hf_error *err = hf_db_put_anomaly(db, &row);

		if (err)
			return err;
	}
	return NULL;
}

static struct hf_error *write_numbers(const struct hf_index_model *model,
				      struct hf_db_writer *db)
{
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {
		{ "cached_blocks", model->blocks.num_cached },
		{ "cached_bytes", model->blocks.cached_bytes },
		{ "free_blocks", model->blocks.num_free },
		{ "free_bytes", model->blocks.free_bytes },
		{ "scanned_bytes", model->edges.scanned_bytes },
		{ "missing_bytes", model->edges.missing_bytes },
		{ "root_holders", model->holders.num },
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		char value[24];
		struct hf_error *err;

		snprintf(value, sizeof(value), "%" PRIu64, numbers[i].value);
		err = hf_db_put_meta(db, numbers[i].key, value);
		if (err)
			return err;
	}
	return NULL;
}

/* "memory,unsupported": why the snapshot is partial. */
static struct hf_error *write_partial(const struct hf_index_model *model,
				      struct hf_db_writer *db)
{
	static const struct {
		enum hf_partial bit;
		const char *name;
	} names[] = {
		{ HF_PARTIAL_MEMORY, "memory" },
		{ HF_PARTIAL_THREADS, "threads" },
		{ HF_PARTIAL_UNSUPPORTED, "unsupported" },
		{ HF_PARTIAL_NO_ALLOCATOR, "no_allocator" },
	};
	unsigned partial = hf_index_partial(model);
	struct hf_error *err = NULL;
	char text[64] = "";

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		size_t len = strlen(text);

		if (partial & names[i].bit)
			snprintf(text + len, sizeof(text) - len, "%s%s",
				 len ? "," : "", names[i].name);
	}
	if (text[0])
		err = hf_db_put_meta(db, "partial", text);
	if (!err && model->unsupported)
		err = hf_db_put_meta(db, "unsupported",
				     model->unsupported->message);
	if (!err && model->lost && model->lost->cause)
		err = hf_db_put_meta(db, "not_captured", model->lost->cause);
	return err;
}

static struct hf_error *write_facts(const struct hf_index_model *model,
				    struct hf_db_writer *db)
{
	struct hf_error *err = write_partial(model, db);

	for (size_t i = 0; !err && i < model->num_facts; i++)
		err = hf_db_put_meta(db, model->facts[i].key,
				     model->facts[i].value);
	return err;
}

struct hf_error *hf_index_write_image(const struct hf_index_model *model,
				      struct hf_db_writer *db,
				      const struct hf_snapshot_row *snapshot)
{
	struct hf_error *err = write_numbers(model, db);

	if (!err)
		err = write_facts(model, db);
	if (!err)
		err = hf_db_put_snapshot(db, snapshot);
	if (!err)
		err = write_modules(model, db);
	if (!err)
		err = write_segments(model, db);
	if (!err)
		err = hf_index_write_threads(model, db);
	if (!err)
		err = write_readers(model, db);
	if (!err)
		err = write_areas(model, db);
	return err ? err : write_anomalies(model, db);
}
