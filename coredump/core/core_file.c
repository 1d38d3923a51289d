/* Core file: headers of an ELF core, and where its bytes are.
 * SPDX-License-Identifier: MIT */
#include "coredump/core/core_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "coredump/core/core_unpack.h"
#include "coredump/image_internal.h"

enum {
	/* A process can have 65,530 mappings unless its administrator raised
	 * the limit; each takes 56 bytes here. */
	MAX_LOADS = 16 * 1024 * 1024,
	MAX_NOTES = 64,
	PHDRS_AT_ONCE = 1024,
};

struct header_reader {
	bool (*read)(void *arg, uint64_t offset, void *buf, size_t len);
	void *arg;
	struct hf_core_file *file;
};

static struct hf_error *check_header(const Elf64_Ehdr *header)
{
	if (memcmp(header->e_ident, ELFMAG, SELFMAG))
		return hf_bad_data("it is no ELF file");
	if (header->e_ident[EI_CLASS] == ELFCLASS32)
		return hf_error_cause(
			hf_error_create(HF_ERROR_UNSUPPORTED,
					"it is the core of a 32-bit program"),
			"heapfork understands 64-bit x86 processes only");
	if (header->e_ident[EI_CLASS] != ELFCLASS64 ||
	    header->e_ident[EI_DATA] != ELFDATA2LSB ||
	    header->e_machine != EM_X86_64)
		return hf_error_cause(
			hf_error_create(HF_ERROR_UNSUPPORTED,
					"it is from another architecture "
					"(ELF machine %u)", header->e_machine),
			"heapfork understands x86-64 only");
	if (header->e_type != ET_CORE)
		return hf_error_fix(
			hf_bad_data("it is an ELF file, but no core (%s)",
				    header->e_type == ET_EXEC ||
						    header->e_type == ET_DYN ?
					    "a program or library" :
					    "another type"),
			"give the core as the argument, and the program by "
			"--exe if it is not where it was");
	if (header->e_phentsize != sizeof(Elf64_Phdr))
		return hf_bad_data("program headers of %u bytes",
				   header->e_phentsize);
	return NULL;
}

/* More than e_phnum can say: then the only section header has it. */
static struct hf_error *count_headers(const struct header_reader *reader,
				      const Elf64_Ehdr *header, uint64_t *ret)
{
	Elf64_Shdr section;

	*ret = header->e_phnum;
	if (header->e_phnum != PN_XNUM)
		return NULL;
	if (header->e_shentsize != sizeof(section) ||
	    !reader->read(reader->arg, header->e_shoff, &section,
			  sizeof(section)))
		return hf_bad_data("the section header that has the number of "
				   "program headers is not there: the core is "
				   "truncated");
	*ret = section.sh_info;
	return NULL;
}

static uint32_t load_prot(uint32_t flags)
{
	return (flags & PF_R ? PROT_READ : 0u) |
	       (flags & PF_W ? PROT_WRITE : 0u) |
	       (flags & PF_X ? PROT_EXEC : 0u);
}

static void need(struct hf_core_file *file, uint64_t end)
{
	file->needed_bytes = hf_max_u64(file->needed_bytes, end);
}

static struct hf_error *add_load(struct hf_core_file *file,
				 const Elf64_Phdr *phdr)
{
	struct hf_core_load load = { .prot = load_prot(phdr->p_flags) };
	uint64_t bytes = hf_min_u64(phdr->p_filesz, phdr->p_memsz), end;

	if (!phdr->p_memsz)
		return NULL;
	if (__builtin_add_overflow(phdr->p_vaddr, phdr->p_memsz, &end) ||
	    __builtin_add_overflow(phdr->p_offset, bytes, &end))
		return hf_bad_data("a PT_LOAD reaches beyond all memory");
	/* [vsyscall] is up there; nothing else is a program's. */
	end = phdr->p_vaddr + phdr->p_memsz;
	if (end > HF_ADDRESS_END)
		return NULL;
	load.range.start = hf_page_down(phdr->p_vaddr);
	load.range.end = hf_page_down(end + HF_PAGE_BYTES - 1);
	load.bytes.start = phdr->p_vaddr;
	load.bytes.end = phdr->p_vaddr + bytes;
	load.offset = phdr->p_offset;
	if (bytes)
		need(file, phdr->p_offset + bytes);
	return hf_array_append(&file->loads, load);
}

static struct hf_error *add_notes(struct hf_core_file *file,
				  const Elf64_Phdr *phdr)
{
	struct hf_range range = { .start = phdr->p_offset };

	if (!phdr->p_filesz)
		return NULL;
	if (__builtin_add_overflow(phdr->p_offset, phdr->p_filesz,
				   &range.end))
		return hf_bad_data("a PT_NOTE reaches beyond all files");
	if (file->notes.num == MAX_NOTES)
		return hf_bad_data("more than %d PT_NOTE headers", MAX_NOTES);
	need(file, range.end);
	return hf_array_append(&file->notes, range);
}

static struct hf_error *read_headers(const struct header_reader *reader,
				     const Elf64_Ehdr *header, uint64_t num)
{
	HF_AUTO_FREE Elf64_Phdr *phdrs = NULL;
	uint64_t done = 0, end;
	struct hf_error *err = NULL;

	if (num > MAX_LOADS ||
	    __builtin_add_overflow(header->e_phoff, num * sizeof(*phdrs),
				   &end))
		return hf_bad_data("%" PRIu64 " program headers", num);
	need(reader->file, end);
	phdrs = calloc(PHDRS_AT_ONCE, sizeof(*phdrs));
	if (!phdrs)
		return &hf_enomem;
	while (done < num && !err) {
		uint64_t n = hf_min_u64(num - done, PHDRS_AT_ONCE);

		if (!reader->read(reader->arg, header->e_phoff +
				  done * sizeof(*phdrs), phdrs,
				  n * sizeof(*phdrs)))
			return hf_bad_data("program headers are not there: "
					   "the core is truncated");
		for (uint64_t i = 0; i < n && !err; i++) {
			if (phdrs[i].p_type == PT_LOAD)
				err = add_load(reader->file, &phdrs[i]);
			else if (phdrs[i].p_type == PT_NOTE)
				err = add_notes(reader->file, &phdrs[i]);
		}
		done += n;
	}
	return err;
}

static int by_start(const void *a, const void *b)
{
	const struct hf_core_load *x = a, *y = b;

	return x->range.start < y->range.start ? -1 :
						 x->range.start > y->range.start;
}

static struct hf_error *sort_loads(struct hf_core_file *file)
{
	struct hf_core_load *loads = file->loads.data;

	if (!file->loads.num)
		return hf_bad_data("it has no memory (no PT_LOAD)");
	qsort(loads, file->loads.num, sizeof(*loads), by_start);
	for (size_t i = 1; i < file->loads.num; i++)
		if (loads[i].range.start < loads[i - 1].range.end)
			return hf_bad_data(
				"PT_LOADs at 0x%" PRIx64 " and 0x%" PRIx64
				" overlap", loads[i - 1].range.start,
				loads[i].range.start);
	for (size_t i = 0; i < file->loads.num; i++) {
		struct hf_error *err = NULL;

		if (loads[i].bytes.start < loads[i].bytes.end)
			err = hf_array_append(&file->filled, loads[i]);
		if (err)
			return err;
	}
	return NULL;
}

struct hf_error *
hf_core_file_parse(bool (*read)(void *arg, uint64_t offset, void *buf,
				size_t len),
		   void *arg, uint64_t size, struct hf_core_file *file)
{
	const struct header_reader reader = { read, arg, file };
	struct hf_error *err;
	Elf64_Ehdr header;
	uint64_t num = 0;

	file->size = size;
	if (size < EI_NIDENT || !read(arg, 0, &header, EI_NIDENT))
		return hf_bad_data("it is empty, or no ELF file");
	if (size < sizeof(header) || !read(arg, 0, &header, sizeof(header))) {
		/* A 32-bit header is shorter. */
		memset((char *)&header + EI_NIDENT, 0,
		       sizeof(header) - EI_NIDENT);
		err = check_header(&header);
		return err ? err : hf_bad_data("it ends within its header");
	}
	err = check_header(&header);
	if (err)
		return err;
	file->machine = header.e_machine;
	err = count_headers(&reader, &header, &num);
	if (!err)
		err = read_headers(&reader, &header, num);
	return err ? err : sort_loads(file);
}

static bool read_fd(void *arg, uint64_t offset, void *buf, size_t len)
{
	const struct hf_core_file *file = arg;
	size_t done = 0;

	if (offset > INT64_MAX - len)
		return false;
	while (done < len) {
		ssize_t n = pread(file->fd, (char *)buf + done, len - done,
				  (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

struct hf_error *hf_core_file_open(const char *path, const char *scratch_dir,
				   bool partial,
				   const struct hf_progress *progress,
				   struct hf_core_file *ret)
{
	__attribute__((cleanup(hf_auto_hf_core_file)))
	struct hf_core_file file = { .fd = -1 };
	struct hf_error *err;
	struct stat st;

	file.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (file.fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return hf_bad_data("no file '%s'", path);
	if (file.fd < 0)
		return hf_error_os(errno, "cannot open '%s'", path);
	if (fstat(file.fd, &st) < 0)
		return hf_error_os(errno, "cannot look at '%s'", path);
	if (!S_ISREG(st.st_mode))
		return hf_bad_data("'%s' is no regular file", path);
	if (hf_core_is_packed(file.fd)) {
		int unpacked;

		err = hf_core_unpack(file.fd, path, scratch_dir, partial,
				     progress, &unpacked);
		if (err)
			return err;
		close(file.fd);
		file.fd = unpacked;
		if (fstat(file.fd, &st) < 0)
			return hf_error_os(errno, "cannot look at '%s'", path);
	}
	err = hf_core_file_parse(read_fd, &file, (uint64_t)st.st_size, &file);
	if (err)
		return hf_error_prefix(err, "'%s'", path);
	*ret = file;
	memset(&file, 0, sizeof(file));
	file.fd = -1;
	return NULL;
}

void hf_core_file_close(struct hf_core_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
	hf_array_deinit(&file->loads);
	hf_array_deinit(&file->filled);
	hf_array_deinit(&file->notes);
}

/* Index of the first load with bytes above addr. */
static size_t filled_after(const struct hf_core_file *file, uint64_t addr)
{
	size_t low = 0, high = file->filled.num;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (file->filled.data[mid].bytes.end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

const struct hf_core_load *
hf_core_file_find(const struct hf_core_file *file, uint64_t addr)
{
	size_t i = filled_after(file, addr);

	if (i == file->filled.num || addr < file->filled.data[i].bytes.start)
		return NULL;
	return &file->filled.data[i];
}

uint64_t hf_core_file_next(const struct hf_core_file *file, uint64_t addr)
{
	size_t i = filled_after(file, addr);

	if (i < file->filled.num && file->filled.data[i].bytes.start <= addr)
		i++;
	return i < file->filled.num ? file->filled.data[i].bytes.start :
				      HF_ADDRESS_END;
}

size_t hf_core_file_read(const struct hf_core_file *file, uint64_t addr,
			 void *buf, size_t len)
{
	const struct hf_core_load *load = hf_core_file_find(file, addr);
	size_t done = 0;
	uint64_t offset;

	if (!load)
		return 0;
	len = (size_t)hf_min_u64(len, load->bytes.end - addr);
	offset = load->offset + (addr - load->bytes.start);
	while (done < len && offset + done < file->size) {
		ssize_t n = pread(file->fd, (char *)buf + done, len - done,
				  (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done;
}

struct hf_error *hf_core_file_missing(const struct hf_core_file *file,
				      struct hf_range **ret, size_t *num_ret)
{
	HF_ARRAY(struct hf_range) missing = { 0 };

	for (size_t i = 0; i < file->loads.num; i++) {
		const struct hf_core_load *load = &file->loads.data[i];
		uint64_t have = load->offset < file->size ?
					file->size - load->offset : 0;
		struct hf_range range = { load->bytes.start + have,
					  load->bytes.end };
		struct hf_error *err;

		if (load->bytes.end - load->bytes.start <= have)
			continue;
		err = hf_array_append(&missing, range);
		if (err) {
			hf_array_deinit(&missing);
			return err;
		}
	}
	*ret = missing.data;
	*num_ret = missing.num;
	return NULL;
}
