/* The text of /proc/PID/maps and smaps, as a table of mappings.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_PROC_MAPS_H
#define HF_COREDUMP_PROC_MAPS_H

#include "util/error.h"

struct hf_mapping {
	uint64_t start, end;  /* [start, end) */
	uint32_t prot;        /* PROT_* */
	bool is_shared;       /* MAP_SHARED */
	bool is_deleted;      /* the path ends in " (deleted)" */
	bool is_io;           /* VmFlags io or pf: reading it may do things to
			       * a device. Only smaps says so */
	bool is_dontfork;     /* VmFlags dc: a fork leaves it out. Only smaps
			       * says so */
	bool is_wiped;        /* VmFlags wf, and not dp: a fork leaves its
			       * bytes out. (What may be dropped at any time
			       * may as well be found dropped.) Only smaps
			       * says so */
	bool has_wipe_flag;   /* VmFlags wf. Only smaps says so */
	bool is_dontdump;     /* VmFlags dd: not for core files. Only smaps
			       * says so */
	bool is_empty;        /* nothing of it is in memory or swap, but for
			       * pages that are zero. Only smaps says so */
	bool is_no_huge;      /* VmFlags nh: no huge pages, the program says */
	bool is_watched;      /* VmFlags um, uw or ui: userfaultfd(2) */
	bool is_hugetlb;      /* VmFlags ht: pages of hugetlbfs */
	uint64_t anon_bytes;  /* in memory, not of a file. Only smaps says so,
			       * as of the next and the flags above */
	uint64_t huge_bytes;  /* of anon_bytes: in huge pages */
	uint64_t file_offset; /* bytes */
	uint64_t device;      /* as st_dev; 0 for anonymous memory */
	uint64_t inode;       /* 0 for anonymous memory */
	const char *path;     /* NULL if the line has none; borrowed */
};

struct hf_proc_maps {
	struct hf_mapping *data;
	size_t num;
};

/**
 * Parse the text of maps or smaps in place: paths of the result point into
 * `text`, which must outlive it. `text[len]` must be writable.
 *
 * The kernel writes a newline in a path as \012 and nothing else escaped, so
 * a path with these four characters in it is read as one with a newline.
 *
 * @return NULL, NO_MEMORY, or BAD_DATA if a line is neither a mapping nor a
 * field of smaps, or mappings do not ascend.
 */
struct hf_error *hf_proc_maps_parse(char *text, size_t len,
				    struct hf_proc_maps *ret) HF_MUST_CHECK;
void hf_proc_maps_deinit(struct hf_proc_maps *maps);

/** HF_AUTO(hf_proc_maps) for a struct hf_proc_maps on the stack. */
static inline void hf_auto_hf_proc_maps(void *maps)
{
	hf_proc_maps_deinit(maps);
}

#endif
