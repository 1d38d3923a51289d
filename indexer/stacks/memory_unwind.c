/* Memory unwind: one frame outwards, by what is in memory alone.
 * SPDX-License-Identifier: MIT */
#include "indexer/stacks/memory_unwind.h"

#include <libunwind-x86_64.h>
#include <string.h>

#include "coredump/elf_head.h"
#include "coredump/window.h"

/* .eh_frame_hdr (LSB 5.0, 10.6.2), as linkers make it:
 *
 *	0   version 1
 *	1   encoding of eh_frame_ptr
 *	2   encoding of fde_count     0x03: 4 bytes
 *	3   encoding of the table     0x3b: signed 4 bytes, relative to 0
 *	4   eh_frame_ptr, then fde_count, then the table, sorted:
 *	    start of the function, address of its FDE
 */

enum {
	HEADER_BYTES = 12,
	TABLE_ENCODING = 0x3b,
	COUNT_ENCODING = 0x03,
	POINTER_ENCODING = 0x1b,  /* 4 bytes, relative to its own address */
	TABLE_ENTRY_BYTES = 8,
	MAX_FUNCTIONS = 1 << 24,
	WINDOW_SLOTS = 16,
	NOT_LOOKED_FOR = 1,
};

/* Exported by libunwind, and in none of its headers. */
int _Ux86_64_dwarf_search_unwind_table(unw_addr_space_t space, unw_word_t ip,
				       unw_dyn_info_t *table,
				       unw_proc_info_t *ret, int need_info,
				       void *arg);

struct hf_memory_unwinder {
	const struct hf_image *image;
	struct hf_window *window;
	unw_addr_space_t space;
	struct hf_frame_state state; /* of the frame to be left */
	bool by_cfi;
	uint64_t *headers;           /* where each module has its
				      * .eh_frame_hdr; 0: none, 1: not looked
				      * for */
};

struct module_reader {
	const struct hf_image *image;
	const struct hf_module *module;
};

static bool read_module(void *arg, uint64_t offset, void *buf, size_t len)
{
	const struct module_reader *reader = arg;

	return offset <= reader->module->end - reader->module->start &&
	       hf_image_read_some(reader->image, reader->module->start +
				  offset, buf, len) == len;
}

/* Where the module has its .eh_frame_hdr. @return 0: it has none. */
static uint64_t find_header(const struct hf_image *image,
			    const struct hf_module *module)
{
	struct module_reader reader = { image, module };
	HF_AUTO_FREE struct hf_elf_head *head = malloc(sizeof(*head));

	if (!head || !hf_elf_head_read(read_module, &reader, head))
		return 0;
	for (size_t i = 0; i < head->num_phdrs; i++)
		if (head->phdrs[i].p_type == PT_GNU_EH_FRAME)
			return module->bias + head->phdrs[i].p_vaddr;
	return 0;
}

static uint64_t header_of(struct hf_memory_unwinder *unwinder,
			  const struct hf_module *module)
{
	size_t num;
	uint64_t *header = &unwinder->headers[
		module - hf_image_modules(unwinder->image, &num)];

	if (*header == NOT_LOOKED_FOR)
		*header = find_header(unwinder->image, module);
	return *header;
}

static int find_proc_info(unw_addr_space_t space, unw_word_t ip,
			  unw_proc_info_t *ret, int need_info, void *arg)
{
	struct hf_memory_unwinder *unwinder = arg;
	const struct hf_module *module =
		hf_image_find_module(unwinder->image, ip);
	unw_dyn_info_t table = { .format = UNW_INFO_FORMAT_REMOTE_TABLE };
	uint8_t head[HEADER_BYTES];
	uint64_t addr;
	uint32_t count;
	int rc;

	addr = module ? header_of(unwinder, module) : 0;
	if (!addr || !hf_window_peek(unwinder->window, addr, head,
				     sizeof(head)) ||
	    head[0] != 1 || head[1] != POINTER_ENCODING ||
	    head[2] != COUNT_ENCODING || head[3] != TABLE_ENCODING)
		return -UNW_ENOINFO;
	memcpy(&count, head + 8, sizeof(count));
	if (!count || count > MAX_FUNCTIONS)
		return -UNW_ENOINFO;
	table.start_ip = module->start;
	table.end_ip = module->end;
	table.u.rti.segbase = addr;
	table.u.rti.table_data = addr + HEADER_BYTES;
	table.u.rti.table_len = (uint64_t)count * TABLE_ENTRY_BYTES /
				sizeof(unw_word_t);
	rc = _Ux86_64_dwarf_search_unwind_table(space, ip, &table, ret,
						need_info, arg);
	if (rc == 0)
		unwinder->by_cfi = true;
	return rc;
}

static void put_unwind_info(unw_addr_space_t space, unw_proc_info_t *info,
			    void *arg)
{
	(void)space;
	(void)info;
	(void)arg;
}

static int no_dynamic_info(unw_addr_space_t space, unw_word_t *ret, void *arg)
{
	(void)space;
	(void)ret;
	(void)arg;
	return -UNW_ENOINFO;
}

static int access_mem(unw_addr_space_t space, unw_word_t addr,
		      unw_word_t *value, int write, void *arg)
{
	struct hf_memory_unwinder *unwinder = arg;
	uint64_t word;

	(void)space;
	if (write || !hf_window_peek_u64(unwinder->window, addr, &word))
		return -UNW_EINVAL;
	*value = word;
	return 0;
}

static int access_reg(unw_addr_space_t space, unw_regnum_t reg,
		      unw_word_t *value, int write, void *arg)
{
	struct hf_memory_unwinder *unwinder = arg;

	(void)space;
	/* libunwind counts as DWARF does. */
	_Static_assert((int)UNW_X86_64_RSP == HF_DWARF_RSP &&
		       (int)UNW_X86_64_RBP == HF_DWARF_RBP &&
		       (int)UNW_X86_64_RIP == HF_DWARF_RIP, "numbers of registers");
	if (write || reg < 0 || reg >= HF_DWARF_NUM_REGS)
		return -UNW_EBADREG;
	*value = unwinder->state.regs[reg];
	return 0;
}

static int no_fpreg(unw_addr_space_t space, unw_regnum_t reg,
		    unw_fpreg_t *value, int write, void *arg)
{
	(void)space;
	(void)reg;
	(void)value;
	(void)write;
	(void)arg;
	return -UNW_EBADREG;
}

static int no_resume(unw_addr_space_t space, unw_cursor_t *cursor, void *arg)
{
	(void)space;
	(void)cursor;
	(void)arg;
	return -UNW_EINVAL;
}

static int no_name(unw_addr_space_t space, unw_word_t addr, char *name,
		   size_t size, unw_word_t *offset, void *arg)
{
	(void)space;
	(void)addr;
	(void)name;
	(void)size;
	(void)offset;
	(void)arg;
	return -UNW_ENOINFO;
}

struct hf_error *hf_memory_unwinder_create(const struct hf_image *image,
					   struct hf_memory_unwinder **ret)
{
	unw_accessors_t accessors = {
		.find_proc_info = find_proc_info,
		.put_unwind_info = put_unwind_info,
		.get_dyn_info_list_addr = no_dynamic_info,
		.access_mem = access_mem,
		.access_reg = access_reg,
		.access_fpreg = no_fpreg,
		.resume = no_resume,
		.get_proc_name = no_name,
	};
	HF_AUTO(hf_memory_unwinder) struct hf_memory_unwinder *unwinder =
		calloc(1, sizeof(*unwinder));
	struct hf_error *err;
	size_t num_modules;

	if (!unwinder)
		return &hf_enomem;
	unwinder->image = image;
	hf_image_modules(image, &num_modules);
	unwinder->headers = calloc(num_modules + 1,
				   sizeof(*unwinder->headers));
	if (!unwinder->headers)
		return &hf_enomem;
	for (size_t i = 0; i < num_modules; i++)
		unwinder->headers[i] = NOT_LOOKED_FOR;
	err = hf_window_create(image, WINDOW_SLOTS, &unwinder->window);
	if (err)
		return err;
	unwinder->space = unw_create_addr_space(&accessors, 0);
	if (!unwinder->space)
		return &hf_enomem;
	unw_set_caching_policy(unwinder->space, UNW_CACHE_NONE);
	*ret = HF_TAKE(unwinder);
	return NULL;
}

void hf_memory_unwinder_destroy(struct hf_memory_unwinder *unwinder)
{
	if (!unwinder)
		return;
	if (unwinder->space)
		unw_destroy_addr_space(unwinder->space);
	hf_window_destroy(unwinder->window);
	free(unwinder->headers);
	free(unwinder);
}

bool hf_memory_unwinder_step(struct hf_memory_unwinder *unwinder,
			     struct hf_frame_state *state, bool is_caller,
			     bool *by_cfi_ret)
{
	struct hf_frame_state caller = { 0 };
	unw_cursor_t cursor;

	unwinder->state = *state;
	unwinder->state.regs[HF_DWARF_RIP] -= is_caller;
	unwinder->by_cfi = false;
	if (unw_init_remote(&cursor, unwinder->space, unwinder) < 0 ||
	    unw_step(&cursor) <= 0)
		return false;
	for (int i = 0; i < HF_DWARF_NUM_REGS; i++) {
		unw_word_t value = 0;

		/* One that was not kept is not known. */
		if (unw_get_reg(&cursor, i, &value) == 0)
			caller.regs[i] = value;
	}
	*by_cfi_ret = unwinder->by_cfi;
	*state = caller;
	return caller.regs[HF_DWARF_RIP] != 0;
}
