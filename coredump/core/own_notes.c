/* Own notes: what a core of ours says that others do not.
 * SPDX-License-Identifier: MIT */
#include "coredump/core/own_notes.h"

#include <string.h>
#include <sys/mman.h>

#include "coredump/image_internal.h"

enum {
	SEGMENT_MIN_BYTES = 11 * 8, /* with an empty path */
	RANGE_BYTES = 2 * 8,
	THREAD_MIN_BYTES = 5 * 8,
};

/* Numbers and texts, one after the other; after the first that is not there,
 * `bad` stays set and every number is 0. */
struct cursor {
	const uint8_t *bytes;
	size_t len, at;
	bool bad;
};

static uint64_t next_u64(struct cursor *cursor)
{
	uint64_t value = 0;

	if (cursor->bad || cursor->len - cursor->at < sizeof(value)) {
		cursor->bad = true;
		return 0;
	}
	memcpy(&value, cursor->bytes + cursor->at, sizeof(value));
	cursor->at += sizeof(value);
	return value;
}

/* How many entries follow, each of at least `min_bytes`. */
static uint64_t next_count(struct cursor *cursor, size_t min_bytes)
{
	uint64_t count = next_u64(cursor);

	if (count > (cursor->len - cursor->at) / min_bytes)
		cursor->bad = true;
	return cursor->bad ? 0 : count;
}

/* @param ret NULL for an empty text. */
static struct hf_error *next_text(struct cursor *cursor,
				  struct hf_core_notes *notes,
				  const char **ret)
{
	uint64_t len = next_u64(cursor);
	struct hf_error *err;
	char *text;

	*ret = NULL;
	if (len > cursor->len - cursor->at)
		cursor->bad = true;
	if (cursor->bad || !len)
		return NULL;
	err = hf_array_reserve(&notes->texts, 1);
	if (err)
		return err;
	text = strndup((const char *)cursor->bytes + cursor->at, len);
	if (!text)
		return &hf_enomem;
	notes->texts.data[notes->texts.num++] = text;
	cursor->at += len;
	*ret = text;
	return NULL;
}

static bool is_page_range(uint64_t start, uint64_t end)
{
	return start < end && end <= HF_ADDRESS_END &&
	       !((start | end) % HF_PAGE_BYTES);
}

static struct hf_error *next_segment(struct cursor *cursor,
				     struct hf_core_notes *notes)
{
	struct hf_segment segment = { .module_id = HF_NO_MODULE };
	uint64_t kind, absent, last_end = 0;
	struct hf_error *err;

	segment.start = next_u64(cursor);
	segment.end = next_u64(cursor);
	segment.prot = (uint32_t)next_u64(cursor) &
		       (PROT_READ | PROT_WRITE | PROT_EXEC);
	kind = next_u64(cursor);
	absent = next_u64(cursor);
	segment.late = next_u64(cursor) != 0;
	segment.advice = (uint32_t)next_u64(cursor);
	segment.file_offset = next_u64(cursor);
	segment.device = next_u64(cursor);
	segment.inode = next_u64(cursor);
	err = next_text(cursor, notes, &segment.path);
	if (err)
		return err;
	if (notes->segments.num)
		last_end = notes->segments.data[notes->segments.num - 1].end;
	if (!is_page_range(segment.start, segment.end) ||
	    segment.start < last_end || kind > HF_SEGMENT_SPECIAL ||
	    absent > HF_ABSENT_FILE ||
	    segment.file_offset > INT64_MAX - HF_ADDRESS_END)
		cursor->bad = true;
	segment.kind = (enum hf_segment_kind)kind;
	segment.absent = (enum hf_absent)absent;
	return cursor->bad ? NULL : hf_array_append(&notes->segments, segment);
}

static struct hf_error *next_resident(struct cursor *cursor,
				      struct hf_core_notes *notes)
{
	struct hf_range range;

	range.start = next_u64(cursor);
	range.end = next_u64(cursor);
	if (!is_page_range(range.start, range.end) ||
	    (notes->resident.num &&
	     range.start <
		     notes->resident.data[notes->resident.num - 1].end))
		cursor->bad = true;
	return cursor->bad ? NULL : hf_array_append(&notes->resident, range);
}

static struct hf_error *next_loss(struct cursor *cursor,
				  struct hf_core_notes *notes)
{
	const char *text;
	struct hf_error *err = next_text(cursor, notes, &text);

	return err || !text ? err : hf_array_append(&notes->losses, text);
}

/* As many entries as the count before them says. */
static struct hf_error *
next_list(struct cursor *cursor, struct hf_core_notes *notes, size_t min_bytes,
	  struct hf_error *(*next)(struct cursor *, struct hf_core_notes *))
{
	uint64_t count = next_count(cursor, min_bytes);
	struct hf_error *err = NULL;

	for (uint64_t i = 0; i < count && !cursor->bad && !err; i++)
		err = next(cursor, notes);
	return err;
}

static struct hf_error *next_missing(struct cursor *cursor,
				     struct hf_core_notes *notes)
{
	struct hf_range range;

	range.start = next_u64(cursor);
	range.end = next_u64(cursor);
	if (!is_page_range(range.start, range.end) ||
	    (notes->missing.num &&
	     range.start < notes->missing.data[notes->missing.num - 1].end))
		cursor->bad = true;
	return cursor->bad ? NULL : hf_array_append(&notes->missing, range);
}

static struct hf_error *take_missing(struct hf_core_notes *notes,
				     const uint8_t *desc, size_t len)
{
	struct cursor cursor = { .bytes = desc, .len = len };
	struct hf_error *err;

	if (notes->missing.num)
		return NULL;
	/* Each range of memory is compared with all of these: a writer never
	 * makes more. */
	if (next_u64(&cursor) != HF_NOTE_VERSION || len > HF_MISSING_BYTES)
		cursor.bad = true;
	err = next_list(&cursor, notes, RANGE_BYTES, next_missing);
	notes->num_damaged += cursor.bad;
	return err;
}

static struct hf_error *take_image(struct hf_core_notes *notes,
				   const uint8_t *desc, size_t len)
{
	struct cursor cursor = { .bytes = desc, .len = len };
	struct hf_error *err;

	if (notes->has_image)
		return NULL;
	if (next_u64(&cursor) != HF_NOTE_VERSION)
		cursor.bad = true;
	err = next_list(&cursor, notes, SEGMENT_MIN_BYTES, next_segment);
	if (!err)
		err = next_list(&cursor, notes, RANGE_BYTES, next_resident);
	if (!err)
		err = next_list(&cursor, notes, sizeof(uint64_t), next_loss);
	if (cursor.bad || err) {
		notes->num_damaged++;
		notes->segments.num = notes->resident.num = 0;
		notes->losses.num = 0;
		return err;
	}
	notes->has_image = true;
	return NULL;
}

struct hf_error *hf_own_note_take(struct hf_core_notes *notes, uint32_t type,
				  const uint8_t *desc, size_t len)
{
	if (type == HF_NOTE_IMAGE)
		return take_image(notes, desc, len);
	if (type == HF_NOTE_MISSING)
		return take_missing(notes, desc, len);
	if (type == HF_NOTE_STRIPPED)
		notes->is_stripped = true;
	if (type == HF_NOTE_CAPTURE && !notes->capture) {
		notes->capture = strndup((const char *)desc, len);
		return notes->capture ? NULL : &hf_enomem;
	}
	return NULL;
}

void hf_own_threads_take(struct hf_core_notes *notes,
			 const struct hf_own_threads *own)
{
	struct cursor cursor = { .bytes = own->desc, .len = own->len };
	uint64_t count;

	if (!own->len)
		return;
	if (next_u64(&cursor) != HF_NOTE_VERSION)
		cursor.bad = true;
	count = next_count(&cursor, THREAD_MIN_BYTES);
	for (uint64_t i = 0; i < count && i < notes->threads.num; i++) {
		struct hf_thread *thread = &notes->threads.data[i];
		uint64_t tid = next_u64(&cursor), how = next_u64(&cursor);
		uint64_t state = next_u64(&cursor), mask = next_u64(&cursor);
		uint64_t len = next_u64(&cursor);

		if (len > cursor.len - cursor.at)
			cursor.bad = true;
		if (cursor.bad || (pid_t)tid != thread->tid)
			break;
		if (how <= HF_STOP_PARTIAL)
			thread->stop_how = (enum hf_stop_how)how;
		thread->state = (char)state;
		thread->sigmask = mask;
		memset(thread->name, 0, sizeof(thread->name));
		memcpy(thread->name, cursor.bytes + cursor.at,
		       hf_min_u64(len, sizeof(thread->name) - 1));
		cursor.at += len;
	}
	notes->num_damaged += cursor.bad;
}
