/* Malloc layout from libc's own debug information.
 * SPDX-License-Identifier: MIT */
#include "indexer/glibc/malloc_layout.h"

#include <elfutils/libdw.h>
#include <dwarf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

HF_DEFINE_AUTO(Dwarf *, dwarf, dwarf_end)

/* Where to put one member's offset, and its size. */
struct member {
	const char *name;
	uint32_t *offset_ret; /* may be NULL */
	uint32_t *bytes_ret;  /* size of the whole member; may be NULL */
	bool optional;        /* some versions do not have it */
};

struct structure {
	const char *name;
	uint32_t *bytes_ret;
	struct member members[10];
	bool optional;
};

enum { MAX_IMPORTS = 64 };

static bool find_structure(Dwarf_Die *unit, const char *name, Dwarf_Die *ret,
			   int *imports_left)
{
	Dwarf_Die die;

	if (dwarf_child(unit, &die) != 0)
		return false;
	do {
		Dwarf_Attribute attr;
		Dwarf_Die imported;
		const char *die_name;

		if (dwarf_tag(&die) == DW_TAG_structure_type) {
			die_name = dwarf_diename(&die);
			if (die_name && strcmp(die_name, name) == 0 &&
			    !dwarf_hasattr(&die, DW_AT_declaration)) {
				*ret = die;
				return true;
			}
		}
		/* dwz moves types that several units share. One level: it
		 * nests partial units, but not types within them. */
		if (dwarf_tag(&die) == DW_TAG_imported_unit &&
		    *imports_left > 0 &&
		    dwarf_attr(&die, DW_AT_import, &attr) &&
		    dwarf_formref_die(&attr, &imported)) {
			Dwarf_Die child;

			(*imports_left)--;
			if (dwarf_child(&imported, &child) != 0)
				continue;
			do {
				die_name = dwarf_diename(&child);
				if (dwarf_tag(&child) ==
					    DW_TAG_structure_type &&
				    die_name && strcmp(die_name, name) == 0 &&
				    !dwarf_hasattr(&child,
						   DW_AT_declaration)) {
					*ret = child;
					return true;
				}
			} while (dwarf_siblingof(&child, &child) == 0);
		}
	} while (dwarf_siblingof(&die, &die) == 0);
	return false;
}

static bool read_member(Dwarf_Die *structure, const struct member *member)
{
	Dwarf_Die die;

	if (dwarf_child(structure, &die) != 0)
		return false;
	do {
		const char *name = dwarf_diename(&die);
		Dwarf_Attribute attr;
		Dwarf_Word offset = 0, bytes = 0;
		Dwarf_Die type;

		if (dwarf_tag(&die) != DW_TAG_member || !name ||
		    strcmp(name, member->name) != 0)
			continue;
		/* No location at all: offset 0. */
		if (dwarf_attr(&die, DW_AT_data_member_location, &attr) &&
		    dwarf_formudata(&attr, &offset) != 0)
			return false;
		if (!dwarf_attr(&die, DW_AT_type, &attr) ||
		    !dwarf_formref_die(&attr, &type) ||
		    dwarf_aggregate_size(&type, &bytes) != 0)
			return false;
		if (offset > UINT16_MAX || bytes > UINT16_MAX)
			return false;
		if (member->offset_ret)
			*member->offset_ret = offset;
		if (member->bytes_ret)
			*member->bytes_ret = bytes;
		return true;
	} while (dwarf_siblingof(&die, &die) == 0);
	return false;
}

static struct hf_error *read_structure(Dwarf_Die *unit,
				       const struct structure *structure,
				       bool *found_ret)
{
	int imports_left = MAX_IMPORTS, bytes;
	Dwarf_Die die;

	*found_ret = find_structure(unit, structure->name, &die,
				    &imports_left);
	if (!*found_ret) {
		if (structure->optional)
			return NULL;
		return hf_bad_data("debug information of malloc.c has no "
				   "'struct %s'", structure->name);
	}
	bytes = dwarf_bytesize(&die);
	if (bytes <= 0 || bytes > UINT16_MAX)
		return hf_bad_data("'struct %s' has %d bytes", structure->name,
				   bytes);
	*structure->bytes_ret = bytes;
	for (size_t i = 0; structure->members[i].name; i++) {
		const struct member *member = &structure->members[i];

		if (member->offset_ret && member->optional)
			*member->offset_ret = HF_NO_OFFSET;
		if (!read_member(&die, member) && !member->optional)
			return hf_bad_data("'struct %s' has no '%s'",
					   structure->name, member->name);
	}
	return NULL;
}

/* The unit compiled from malloc/malloc.c. */
static bool find_unit(Dwarf *dwarf, Dwarf_Die *ret)
{
	static const char suffix[] = "malloc.c";
	Dwarf_CU *unit = NULL;
	Dwarf_Die die;
	uint8_t unit_type;

	while (dwarf_get_units(dwarf, unit, &unit, NULL, &unit_type, &die,
			       NULL) == 0) {
		const char *name = dwarf_diename(&die);
		size_t len = name ? strlen(name) : 0;
		int imports_left = 0;
		Dwarf_Die state;

		if (len < sizeof(suffix) - 1 ||
		    strcmp(name + len - (sizeof(suffix) - 1), suffix) != 0 ||
		    (len > sizeof(suffix) - 1 &&
		     name[len - sizeof(suffix)] != '/'))
			continue;
		imports_left = MAX_IMPORTS;
		if (find_structure(&die, "malloc_state", &state,
				   &imports_left)) {
			*ret = die;
			return true;
		}
	}
	return false;
}

struct hf_error *hf_malloc_layout_from_file(int fd,
					    struct hf_malloc_layout *layout)
{
	struct hf_malloc_layout l = *layout;
	HF_AUTO(dwarf) Dwarf *dwarf = dwarf_begin(fd, DWARF_C_READ);
	uint32_t fastbins_bytes = 0, counts_bytes = 0, slots_bytes = 0;
	uint32_t bins_bytes = 0, entries_bytes = 0, counts = 0, slots = 0;
	const char *fault;
	struct hf_error *err;
	Dwarf_Die unit;
	bool found;

	if (!dwarf || !find_unit(dwarf, &unit))
		return &hf_not_found;

	const struct structure structures[] = {
		{ "malloc_state", &l.state_bytes, {
			{ "flags", &l.flags, NULL, false },
			{ "fastbinsY", &l.fastbins, &fastbins_bytes, true },
			{ "top", &l.top, NULL, false },
			{ "bins", &l.bins, &bins_bytes, false },
			{ "next", &l.next, NULL, false },
			{ "system_mem", &l.system_mem, NULL, false },
		}, false },
		{ "malloc_par", &l.par_bytes, {
			{ "hp_pagesize", &l.hp_pagesize, NULL, true },
			{ "n_mmaps", &l.n_mmaps, NULL, false },
			{ "mmapped_mem", &l.mmapped_mem, NULL, false },
			{ "sbrk_base", &l.sbrk_base, NULL, false },
			{ "tcache_bins", &l.tcache_bins, NULL, true },
			{ "tcache_count", &l.tcache_count, NULL, true },
		}, false },
		{ "_heap_info", &l.heap_info_bytes, { { 0 } }, false },
		{ "tcache_perthread_struct", &l.tcache_bytes, {
			{ "counts", &counts, &counts_bytes, true },
			{ "num_slots", &slots, &slots_bytes, true },
			{ "entries", &l.tcache_entries, &entries_bytes,
			  false },
		}, true },
	};
	for (size_t i = 0; i < sizeof(structures) / sizeof(structures[0]);
	     i++) {
		err = read_structure(&unit, &structures[i], &found);
		if (err)
			return err;
	}
	if (l.tcache_bins == HF_NO_OFFSET) { /* renamed in 2.42 */
		const struct structure renamed = {
			"malloc_par", &l.par_bytes, {
				{ "tcache_small_bins", &l.tcache_bins, NULL,
				  true },
			}, false
		};

		err = read_structure(&unit, &renamed, &found);
		if (err)
			return err;
	}

	l.num_fastbins = fastbins_bytes / 8;
	if (bins_bytes != 2 * HF_MALLOC_NUM_BINS * 8 ||
	    fastbins_bytes % 8 != 0 || entries_bytes % 8 != 0)
		return hf_bad_data("malloc_state has %" PRIu32 " bytes of bins "
				   "and %" PRIu32 " of fastbins", bins_bytes,
				   fastbins_bytes);
	l.tcache = HF_TCACHE_NONE;
	l.tcache_num = entries_bytes / 8;
	if (l.tcache_num) {
		l.tcache = slots_bytes ? HF_TCACHE_SLOTS : HF_TCACHE_COUNTS;
		if (slots_bytes)
			counts_bytes = slots_bytes;
		l.tcache_count_bytes = counts_bytes / l.tcache_num;
		if ((counts != 0 && counts != HF_NO_OFFSET) ||
		    (slots != 0 && slots != HF_NO_OFFSET))
			return hf_bad_data("tcache_perthread_struct is not as "
					   "known");
	} else {
		l.tcache_bytes = l.tcache_entries = 0;
		l.tcache_count_bytes = 0;
	}
	fault = hf_malloc_layout_fault(&l);
	if (fault)
		return hf_bad_data("debug information of malloc.c: %s", fault);
	*layout = l;
	return NULL;
}

struct hf_error *hf_malloc_layout_from_dwarf(const struct hf_image *image,
					     const struct hf_module *module,
					     struct hf_malloc_layout *layout)
{
	char path[128];
	size_t len;
	HF_AUTO_FD int fd = -1;
	HF_AUTO_FD int debug_fd = -1;
	struct hf_error *err;

	err = hf_image_open_module(image, module, &fd);
	if (err) {
		hf_error_ignore(err);
	} else {
		err = hf_malloc_layout_from_file(fd, layout);
		if (!err || err->code != HF_ERROR_NOT_FOUND)
			return err;
		hf_error_ignore(err);
	}
	if (module->build_id_bytes < 2 ||
	    module->build_id_bytes > sizeof(module->build_id))
		return &hf_not_found;
	len = snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%02x/",
		       module->build_id[0]);
	for (uint32_t i = 1; i < module->build_id_bytes; i++)
		len += snprintf(path + len, sizeof(path) - len, "%02x",
				module->build_id[i]);
	snprintf(path + len, sizeof(path) - len, ".debug");
	debug_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (debug_fd < 0)
		return &hf_not_found;
	return hf_malloc_layout_from_file(debug_fd, layout);
}
