/* What a mapping is to an image: heap, stack, file, shared, special.
 * SPDX-License-Identifier: MIT */
#include "coredump/segment_kind.h"

#include <string.h>

static bool starts_with(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

bool hf_path_is_plain_shared(const char *path)
{
	static const char *const prefixes[] = {
		"/dev/zero", "/dev/shm/", "/memfd:", "/SYSV",
		"/anon_hugepage", "[anon_shmem:",
	};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (starts_with(path, prefixes[i]))
			return true;
	return false;
}

static void classify(const struct hf_mapping *mapping,
		     struct hf_segment *segment)
{
	const char *path = mapping->path;

	segment->absent = HF_ABSENT_FILE;
	if (mapping->is_io) {
		segment->kind = HF_SEGMENT_SPECIAL;
	} else if (mapping->is_shared) {
		/* A fork does not copy the page tables of these: what is not
		 * resident here may well exist. */
		segment->kind = HF_SEGMENT_SHARED;
		if (path && (starts_with(path, "anon_inode:") ||
			     (starts_with(path, "/dev/") &&
			      !hf_path_is_plain_shared(path))))
			segment->kind = HF_SEGMENT_SPECIAL;
	} else if (!path || starts_with(path, "[anon:") ||
		   starts_with(path, "[stack:") ||
		   starts_with(path, "/dev/zero") ||
		   starts_with(path, "/anon_hugepage")) {
		segment->kind = HF_SEGMENT_ANON;
		segment->absent = HF_ABSENT_ZERO;
	} else if (!strcmp(path, "[heap]")) {
		segment->kind = HF_SEGMENT_BRK;
		segment->absent = HF_ABSENT_ZERO;
	} else if (!strcmp(path, "[stack]")) {
		segment->kind = HF_SEGMENT_STACK;
		segment->absent = HF_ABSENT_ZERO;
	} else if (!strcmp(path, "[vdso]")) {
		segment->kind = HF_SEGMENT_VDSO;
	} else if (path[0] == '[') {
		segment->kind = HF_SEGMENT_SPECIAL;
	} else {
		segment->kind = HF_SEGMENT_FILE;
	}
	/* What the program itself may not touch has no bytes, unless some
	 * were written before it was forbidden. */
	if (!mapping->prot && segment->absent == HF_ABSENT_ZERO)
		segment->absent = HF_ABSENT_MISSING;
	if (segment->kind == HF_SEGMENT_SPECIAL)
		segment->absent = HF_ABSENT_MISSING;
}

static uint32_t advice_of(const struct hf_mapping *mapping)
{
	return (mapping->is_dontfork ? HF_ADVICE_DONTFORK : 0) |
	       (mapping->has_wipe_flag ? HF_ADVICE_WIPEONFORK : 0) |
	       (mapping->is_dontdump ? HF_ADVICE_DONTDUMP : 0) |
	       (mapping->is_io ? HF_ADVICE_IO : 0);
}

struct hf_segment hf_segment_of_mapping(const struct hf_mapping *mapping)
{
	struct hf_segment segment = {
		.start = mapping->start,
		.end = mapping->end,
		.prot = mapping->prot,
		.file_offset = mapping->file_offset,
		.device = mapping->device,
		.inode = mapping->inode,
		.path = mapping->path,
		.advice = advice_of(mapping),
	};

	classify(mapping, &segment);
	return segment;
}
