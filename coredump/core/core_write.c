/* Write an image as an ELF core.
 * SPDX-License-Identifier: MIT */
#include "coredump/core/core_write.h"

#include <string.h>
#include <sys/mman.h>

#include "coredump/core/core_notes_write.h"
#include "coredump/core/core_plan.h"
#include "coredump/core/core_sink.h"
#include "coredump/image_internal.h"

enum {
	READ_BYTES = 4 * 1024 * 1024,
	NOTE_ALIGN = 4,
	/* Head, and name with its padding, of the note at the end. */
	MISSING_NOTE_BYTES = 12 + 12 + HF_MISSING_BYTES,
};

struct writer {
	const struct hf_image *image;
	const struct hf_core_write_options *options;
	struct hf_core_plan plan;
	struct hf_byte_buffer head;  /* all in front of the memory */
	struct hf_core_sink *sink;
	uint8_t *buf;
	struct hf_core_summary summary;
	uint64_t done;
	HF_ARRAY(struct hf_range) missing; /* ascending */
};

static void writer_deinit(struct writer *writer)
{
	hf_core_plan_deinit(&writer->plan);
	hf_byte_buffer_deinit(&writer->head);
	hf_core_sink_destroy(writer->sink);
	hf_array_deinit(&writer->missing);
	free(writer->buf);
}

static inline void hf_auto_writer(void *ptr)
{
	writer_deinit(*(struct writer **)ptr);
}

static uint32_t load_flags(uint32_t prot)
{
	return (prot & PROT_READ ? PF_R : 0u) |
	       (prot & PROT_WRITE ? PF_W : 0u) |
	       (prot & PROT_EXEC ? PF_X : 0u);
}

/* ELF header and program headers for the plan, which is placed. */
static void put_headers(struct writer *writer, uint64_t notes_offset,
			uint64_t notes_bytes, uint64_t memory_end)
{
	struct hf_byte_buffer *head = &writer->head;
	/* And a PT_NOTE in front of them, and one behind. */
	size_t num = writer->plan.pieces.num, segments_num;
	const struct hf_segment *segments =
		hf_image_segments(writer->image, &segments_num);
	bool many = num + 2 >= PN_XNUM;
	Elf64_Ehdr header = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
			     ELFDATA2LSB, EV_CURRENT, ELFOSABI_NONE },
		.e_type = ET_CORE,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(header),
		.e_ehsize = sizeof(header),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = many ? PN_XNUM : (Elf64_Half)(num + 2),
		.e_shoff = many ? memory_end + MISSING_NOTE_BYTES : 0,
		.e_shentsize = many ? sizeof(Elf64_Shdr) : 0,
		.e_shnum = many,
	};
	Elf64_Phdr notes = {
		.p_type = PT_NOTE,
		.p_offset = notes_offset,
		.p_filesz = notes_bytes,
		.p_align = NOTE_ALIGN,
	};
	const Elf64_Phdr missing = {
		.p_type = PT_NOTE,
		.p_offset = memory_end,
		.p_filesz = MISSING_NOTE_BYTES,
		.p_align = NOTE_ALIGN,
	};

	hf_byte_buffer_put(head, &header, sizeof(header));
	hf_byte_buffer_put(head, &notes, sizeof(notes));
	for (size_t i = 0; i < num; i++) {
		const struct hf_core_piece *piece =
			&writer->plan.pieces.data[i];
		Elf64_Phdr load = {
			.p_type = PT_LOAD,
			.p_flags = load_flags(segments[piece->segment_id].prot),
			.p_offset = piece->offset,
			.p_vaddr = piece->range.start,
			.p_filesz = piece->file_bytes,
			.p_memsz = piece->range.end - piece->range.start,
			.p_align = HF_PAGE_BYTES,
		};

		hf_byte_buffer_put(head, &load, sizeof(load));
	}
	hf_byte_buffer_put(head, &missing, sizeof(missing));
}

/* Everything but the memory itself. */
static struct hf_error *prepare(struct writer *writer)
{
	const struct hf_core_write_options *options = writer->options;
	__attribute__((cleanup(hf_auto_hf_byte_buffer)))
	struct hf_byte_buffer notes = { 0 };
	uint64_t notes_offset, memory_start, memory_end;
	struct hf_error *err;

	err = hf_core_plan_make(writer->image, options->filter,
				options->with_dontdump, options->only,
				options->num_only, &writer->plan);
	if (err)
		return err;
	hf_core_notes_write(&notes, writer->image, options->process,
			    options->capture, options->only != NULL);
	notes_offset = sizeof(Elf64_Ehdr) + (writer->plan.pieces.num + 2) *
						    sizeof(Elf64_Phdr);
	memory_start = hf_page_down(notes_offset + notes.num +
				    HF_PAGE_BYTES - 1);
	memory_end = hf_core_plan_place(&writer->plan, memory_start);
	put_headers(writer, notes_offset, notes.num, memory_end);
	hf_byte_buffer_put(&writer->head, notes.data, notes.num);
	writer->head.failed |= notes.failed;
	hf_byte_buffer_align(&writer->head, HF_PAGE_BYTES);
	writer->summary = (struct hf_core_summary){
		.num_segments = writer->plan.pieces.num,
		.memory_bytes = writer->plan.memory_bytes,
		.file_bytes = memory_end + MISSING_NOTE_BYTES,
		.disk_bytes = writer->head.num + writer->plan.memory_bytes +
			      MISSING_NOTE_BYTES,
	};
	return hf_byte_buffer_error(&writer->head);
}

static bool is_zero_page(const uint8_t *page)
{
	const uint64_t *words = (const uint64_t *)(const void *)page;
	uint64_t any;

	for (size_t i = 0; i < HF_PAGE_BYTES / sizeof(*words); i += 8) {
		any = words[i] | words[i + 1] | words[i + 2] | words[i + 3] |
		      words[i + 4] | words[i + 5] | words[i + 6] |
		      words[i + 7];
		if (any)
			return false;
	}
	return true;
}

/* Whole pages, those of zeros as holes. */
static struct hf_error *put_pages(struct writer *writer, const uint8_t *bytes,
				  size_t len)
{
	struct hf_error *err = NULL;

	for (size_t i = 0; i < len && !err;) {
		bool zero = is_zero_page(bytes + i);
		size_t end = i + HF_PAGE_BYTES;

		while (end < len && is_zero_page(bytes + end) == zero)
			end += HF_PAGE_BYTES;
		if (zero) {
			writer->summary.zero_bytes += end - i;
			err = hf_core_sink_skip(writer->sink, end - i);
		} else {
			err = hf_core_sink_put(writer->sink, bytes + i,
					       end - i);
		}
		i = end;
	}
	return err;
}

/* If the list is full the last range grows: rather too much than too little
 * is said to be missing. */
static struct hf_error *note_missing(struct writer *writer, uint64_t start,
				     uint64_t end)
{
	struct hf_range *last = writer->missing.num ?
		&writer->missing.data[writer->missing.num - 1] : NULL;

	writer->summary.missing_bytes += end - start;
	if (last && (last->end == start ||
		     writer->missing.num == HF_MISSING_MAX)) {
		last->end = end;
		return NULL;
	}
	return hf_array_append(&writer->missing,
			       ((struct hf_range){ start, end }));
}

/* Of a stripped core only the bytes that were asked for; the pages around
 * them are others'. */
static void keep_only(const struct writer *writer,
		      const struct hf_segment *segment, uint64_t addr,
		      size_t len)
{
	const struct hf_core_write_options *options = writer->options;
	uint64_t done = addr, end = addr + len;

	if (!options->only || !(segment->prot & PROT_WRITE))
		return;
	for (size_t i = 0; i < options->num_only && done < end; i++) {
		const struct hf_range *only = &options->only[i];

		if (only->end <= done)
			continue;
		if (only->start > done)
			memset(writer->buf + (done - addr), 0,
			       hf_min_u64(only->start, end) - done);
		done = hf_max_u64(done, only->end);
	}
	if (done < end)
		memset(writer->buf + (done - addr), 0, end - done);
}

/* What cannot be read is zeros in the core, and noted. Pages of a file behind
 * its end are no loss: nobody could ever read them. */
static struct hf_error *read_pages(struct writer *writer,
		       const struct hf_core_piece *piece, uint64_t addr,
		       size_t len)
{
	size_t got = 0, num;
	const struct hf_segment *segment =
		&hf_image_segments(writer->image, &num)[piece->segment_id];

	while (got < len) {
		size_t n = hf_image_read_some(writer->image, addr + got,
					      writer->buf + got, len - got);
		size_t next;

		got += n;
		if (got == len)
			break;
		next = (got / HF_PAGE_BYTES + 1) * HF_PAGE_BYTES;
		memset(writer->buf + got, 0, next - got);
		if (segment->absent != HF_ABSENT_FILE) {
			struct hf_error *err = note_missing(
				writer, hf_page_down(addr + got), addr + next);

			if (err)
				return err;
		}
		got = next;
	}
	keep_only(writer, segment, addr, len);
	return NULL;
}

/* The note at the end of the file: its length is known before its content. */
static struct hf_error *put_missing(struct writer *writer)
{
	__attribute__((cleanup(hf_auto_hf_byte_buffer)))
	struct hf_byte_buffer note = { 0 };
	uint8_t desc[HF_MISSING_BYTES] = { 0 };
	uint64_t words[2] = { HF_NOTE_VERSION, writer->missing.num };

	memcpy(desc, words, sizeof(words));
	if (writer->missing.num)
		memcpy(desc + sizeof(words), writer->missing.data,
		       writer->missing.num * sizeof(struct hf_range));
	hf_core_note_write(&note, HF_NOTE_NAME, HF_NOTE_MISSING, desc,
			   sizeof(desc));
	if (note.failed)
		return &hf_enomem;
	return hf_core_sink_put(writer->sink, note.data, note.num);
}

static struct hf_error *put_piece(struct writer *writer,
				  const struct hf_core_piece *piece)
{
	struct hf_error *err = NULL;
	uint64_t end = piece->range.start + piece->file_bytes;

	for (uint64_t addr = piece->range.start; addr < end && !err;) {
		size_t len = (size_t)hf_min_u64(end - addr, READ_BYTES);

		err = read_pages(writer, piece, addr, len);
		if (!err)
			err = put_pages(writer, writer->buf, len);
		addr += len;
		writer->done += len;
		if (!err)
			err = hf_progress_update(writer->options->progress,
						 "core", writer->done,
						 writer->plan.memory_bytes);
	}
	return err;
}

static struct hf_error *put_section_header(struct writer *writer)
{
	const Elf64_Shdr count = {
		.sh_type = SHT_NULL,
		.sh_info = (Elf64_Word)(writer->plan.pieces.num + 2),
	};

	if (writer->plan.pieces.num + 2 < PN_XNUM)
		return NULL;
	return hf_core_sink_put(writer->sink, &count, sizeof(count));
}

struct hf_error *
hf_core_write_estimate(const struct hf_image *image,
		       const struct hf_core_write_options *options,
		       struct hf_core_summary *ret)
{
	struct writer storage = { .image = image, .options = options };
	HF_AUTO(writer) struct writer *writer = &storage;
	struct hf_error *err = prepare(writer);

	*ret = writer->summary;
	return err;
}

struct hf_error *hf_core_write(const struct hf_image *image, int fd,
			       const char *name,
			       const struct hf_core_write_options *options,
			       struct hf_core_summary *ret)
{
	const struct hf_core_sink_options sink_options = {
		.zstd_level = options->zstd_level,
		.num_workers = options->num_workers,
		.max_bytes = options->max_bytes,
		.keep_free_bytes = options->keep_free_bytes,
	};
	struct writer storage = { .image = image, .options = options };
	HF_AUTO(writer) struct writer *writer = &storage;
	uint64_t start_ns = hf_now_ns();
	struct hf_error *err = prepare(writer);

	if (!err)
		err = hf_core_sink_create(fd, name, &sink_options,
					  &writer->sink);
	if (err)
		return err;
	if (posix_memalign((void **)&writer->buf, HF_PAGE_BYTES, READ_BYTES))
		return &hf_enomem;
	err = hf_core_sink_put(writer->sink, writer->head.data,
			       writer->head.num);
	for (size_t i = 0; i < writer->plan.pieces.num && !err; i++)
		err = put_piece(writer, &writer->plan.pieces.data[i]);
	if (!err)
		err = put_missing(writer);
	if (!err)
		err = put_section_header(writer);
	if (!err)
		err = hf_core_sink_finish(writer->sink,
					  &writer->summary.file_bytes,
					  &writer->summary.disk_bytes);
	if (err)
		return err;
	hf_progress_phase_done(options->progress, "core",
			       writer->plan.memory_bytes, start_ns,
			       READ_BYTES + writer->head.num);
	*ret = writer->summary;
	return NULL;
}
