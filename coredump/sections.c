/* Sections of one module's file that are writable at start-up.
 * SPDX-License-Identifier: MIT */
#include "coredump/sections.h"

#include <stdio.h>
#include <string.h>

#include "coredump/elf_symbols.h"
#include "util/array.h"

static int compare_sections(const void *a, const void *b)
{
	const struct hf_section *x = a, *y = b;

	if (x->range.start != y->range.start)
		return x->range.start < y->range.start ? -1 : 1;
	return 0;
}

/* Hostile tables may let sections overlap: the later one gives way. */
static size_t make_disjoint(struct hf_section *sections, size_t num)
{
	uint64_t end = 0;
	size_t kept = 0;

	for (size_t i = 0; i < num; i++) {
		struct hf_section s = sections[i];

		if (s.range.start < end)
			s.range.start = end;
		if (s.range.start >= s.range.end)
			continue;
		end = s.range.end;
		sections[kept++] = s;
	}
	return kept;
}

struct hf_error *hf_sections_read(const struct hf_image *image,
				  const struct hf_module *module,
				  struct hf_section **ret, size_t *num_ret)
{
	HF_ARRAY(struct hf_section) sections = { 0 };
	HF_AUTO(elf) Elf *elf = NULL;
	HF_AUTO_FD int fd = -1;
	Elf_Scn *scn = NULL;
	size_t names;
	struct hf_error *err;

	*ret = NULL;
	*num_ret = 0;
	err = hf_image_open_module(image, module, &fd);
	if (err && err->code == HF_ERROR_NO_MEMORY)
		return err;
	if (err) {
		hf_error_ignore(err);
		return NULL;
	}
	elf = hf_elf_open(fd);
	if (!elf || elf_getshdrstrndx(elf, &names) != 0)
		return NULL;
	while ((scn = elf_nextscn(elf, scn))) {
		const uint64_t wanted = SHF_ALLOC | SHF_WRITE;
		struct hf_section section;
		const char *name;
		GElf_Shdr header;

		if (!gelf_getshdr(scn, &header) ||
		    (header.sh_flags & wanted) != wanted)
			continue;
		if ((header.sh_flags & SHF_TLS) &&
		    header.sh_type == SHT_NOBITS)
			continue;
		section.range.start = header.sh_addr + module->bias;
		if (__builtin_add_overflow(section.range.start, header.sh_size,
					   &section.range.end) ||
		    section.range.start < module->start ||
		    section.range.end > module->end)
			continue;
		name = elf_strptr(elf, names, header.sh_name);
		snprintf(section.name, sizeof(section.name), "%s",
			 name ? name : "?");
		err = hf_array_append(&sections, section);
		if (err) {
			hf_array_deinit(&sections);
			return err;
		}
	}
	if (sections.num)
		qsort(sections.data, sections.num, sizeof(*sections.data),
		      compare_sections);
	*num_ret = make_disjoint(sections.data, sections.num);
	*ret = sections.data;
	return NULL;
}
