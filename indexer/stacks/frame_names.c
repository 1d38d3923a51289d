/* Frame names: function, source line and inlined functions of an address.
 * SPDX-License-Identifier: MIT */
#include "indexer/stacks/frame_names.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <string.h>

#include "indexer/demangle.h"

/* The scopes at an address, innermost first:
 *
 *	lexical_block            of c
 *	inlined_subroutine c     call_file, call_line: where b calls c
 *	inlined_subroutine b     where a calls b
 *	subprogram a
 *	compile_unit
 *
 * become the names c (at the line of the address), b (at the line where it
 * calls c), a (where it calls b). */

static char *copy(const char *text)
{
	return text ? strdup(text) : NULL;
}

static const char *linkage_name(Dwarf_Die *die)
{
	static const unsigned attributes[] = { DW_AT_linkage_name,
					       DW_AT_MIPS_linkage_name };

	for (size_t i = 0; i < 2; i++) {
		Dwarf_Attribute storage;
		Dwarf_Attribute *attribute = dwarf_attr_integrate(
			die, attributes[i], &storage);
		const char *name = attribute ? dwarf_formstring(attribute) :
					       NULL;

		if (name)
			return name;
	}
	return NULL;
}

/* A C++ name says more with its namespace, class and arguments. */
static char *name_of(Dwarf_Die *die)
{
	const char *linkage = linkage_name(die);
	Dwarf_Attribute storage, *attribute;
	char *name = linkage ? hf_demangle(linkage) : NULL;

	if (name)
		return name;
	attribute = dwarf_attr_integrate(die, DW_AT_name, &storage);
	return copy(attribute ? dwarf_formstring(attribute) : linkage);
}

static uint32_t number_of(Dwarf_Die *die, unsigned attribute_name)
{
	Dwarf_Attribute storage, *attribute = dwarf_attr(die, attribute_name,
							 &storage);
	Dwarf_Word value;

	if (!attribute || dwarf_formudata(attribute, &value) != 0 ||
	    value > UINT32_MAX)
		return 0;
	return (uint32_t)value;
}

static char *call_file(Dwarf_Die *unit, Dwarf_Die *inlined)
{
	uint32_t id = number_of(inlined, DW_AT_call_file);
	Dwarf_Files *files;
	size_t num;

	if (dwarf_getsrcfiles(unit, &files, &num) != 0 || id >= num)
		return NULL;
	return copy(dwarf_filesrc(files, id, NULL, NULL));
}

static void add_line(Dwfl_Module *module, uint64_t pc,
		     struct hf_frame_name *name)
{
	Dwfl_Line *line = dwfl_module_getsrc(module, pc);
	const char *file;
	int number = 0;

	if (!line)
		return;
	file = dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL);
	name->file = copy(file);
	name->line = number > 0 ? (uint32_t)number : 0;
}

/* The function by its symbol, when there is no better source. */
static void add_symbol(Dwfl_Module *module, uint64_t pc,
		       struct hf_frame_name *name)
{
	GElf_Off offset;
	GElf_Sym symbol;
	const char *found = dwfl_module_addrinfo(module, pc, &offset, &symbol,
						 NULL, NULL, NULL);

	if (!found || !found[0])
		return;
	/* One that ends before is a neighbour, and says nothing. */
	if (symbol.st_size && offset >= symbol.st_size)
		return;
	name->function = hf_demangle_or_copy(found);
}

/* Names of the scopes: see above. */
static void add_scopes(Dwarf_Die *unit, Dwarf_Die *scopes, int num,
		       struct hf_frame_names *ret)
{
	for (int i = 0; i < num && ret->num <= HF_MAX_INLINED; i++) {
		struct hf_frame_name *name = &ret->names[ret->num - 1];
		int tag = dwarf_tag(&scopes[i]);

		if (tag == DW_TAG_subprogram) {
			name->function = name_of(&scopes[i]);
			return;
		}
		if (tag != DW_TAG_inlined_subroutine ||
		    ret->num == HF_MAX_INLINED)
			continue;
		name->function = name_of(&scopes[i]);
		name->is_inlined = true;
		ret->names[ret->num++] = (struct hf_frame_name){
			.file = call_file(unit, &scopes[i]),
			.line = number_of(&scopes[i], DW_AT_call_line),
		};
	}
}

struct hf_error *hf_frame_names_find(Dwfl *dwfl, uint64_t pc,
				     struct hf_frame_names *ret)
{
	Dwfl_Module *module = dwfl_addrmodule(dwfl, pc);
	struct hf_frame_name *last;
	Dwarf_Die *unit, *innermost = NULL, *scopes = NULL;
	Dwarf_Addr bias;
	int num = 0;

	memset(ret, 0, sizeof(*ret));
	ret->num = 1;
	if (!module)
		return NULL;
	add_line(module, pc, &ret->names[0]);
	unit = dwfl_module_addrdie(module, pc, &bias);
	/* Of an inlined function the first call gives the scopes around its
	 * definition; the second those around the place it is inlined at. */
	if (unit && dwarf_getscopes(unit, pc - bias, &innermost) > 0)
		num = dwarf_getscopes_die(&innermost[0], &scopes);
	if (num > 0)
		add_scopes(unit, scopes, num, ret);
	free(scopes);
	free(innermost);
	last = &ret->names[ret->num - 1];
	if (!last->function)
		add_symbol(module, pc, last);
	return NULL;
}

void hf_frame_names_deinit(struct hf_frame_names *names)
{
	for (size_t i = 0; i < names->num; i++) {
		free(names->names[i].function);
		free(names->names[i].file);
	}
	names->num = 0;
}
