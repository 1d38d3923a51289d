/* An image's modules for libdwfl.
 * SPDX-License-Identifier: MIT */
#include "indexer/stacks/dwfl_image.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "coredump/debug_file.h"

enum { VDSO_MAX_BYTES = 1024 * 1024 };

/* What find_debuginfo needs, hung on the module. */
struct hf_dwfl_link {
	const struct hf_image *image;
	const struct hf_module *module;
};

/* All modules are reported with their file. */
static int find_elf(Dwfl_Module *module, void **userdata, const char *name,
		    Dwarf_Addr base, char **file_name, Elf **elf)
{
	(void)module;
	(void)userdata;
	(void)name;
	(void)base;
	(void)file_name;
	(void)elf;
	return -1;
}

static int find_debuginfo(Dwfl_Module *module, void **userdata,
			  const char *name, Dwarf_Addr base,
			  const char *file_name, const char *debuglink_file,
			  GElf_Word debuglink_crc, char **debug_file_name)
{
	const struct hf_dwfl_link *link = *userdata;
	int fd;

	if (!link)
		return -1;
	fd = hf_debug_file_open(link->image, link->module);
	if (fd >= 0)
		return fd;
	/* By .gnu_debuglink, in the places of this machine: libdwfl compares
	 * checksums. */
	return dwfl_standard_find_debuginfo(module, userdata, name, base,
					    file_name, debuglink_file,
					    debuglink_crc, debug_file_name);
}

static const Dwfl_Callbacks callbacks = {
	.find_elf = find_elf,
	.find_debuginfo = find_debuginfo,
};

/* A copy of the vdso as a file. @return -1: it cannot be read. */
static int open_vdso(const struct hf_image *image,
		     const struct hf_module *module)
{
	size_t len = (size_t)(module->end - module->start);
	HF_AUTO_FREE char *bytes = NULL;
	HF_AUTO_FD int fd = -1;

	if (len > VDSO_MAX_BYTES)
		return -1;
	bytes = malloc(len);
	if (!bytes)
		return -1;
	len = hf_image_read_some(image, module->start, bytes, len);
	fd = memfd_create("vdso", MFD_CLOEXEC);
	if (fd < 0 || !len || write(fd, bytes, len) != (ssize_t)len)
		return -1;
	return HF_TAKE_FD(fd);
}

static void report(Dwfl *dwfl, struct hf_dwfl_link *link)
{
	const struct hf_module *module = link->module;
	Dwfl_Module *reported;
	struct hf_error *err;
	void **userdata;
	int fd = -1;

	err = hf_image_open_module(link->image, module, &fd);
	hf_error_ignore(err);
	if (fd < 0 && !strcmp(module->path, "[vdso]"))
		fd = open_vdso(link->image, module);
	if (fd < 0)
		return;
	reported = dwfl_report_elf(dwfl, module->path, module->path, fd,
				   module->bias, true);
	if (!reported) {
		close(fd);
		return;
	}
	dwfl_module_info(reported, &userdata, NULL, NULL, NULL, NULL, NULL,
			 NULL);
	*userdata = link;
}

struct hf_error *hf_dwfl_image_init(const struct hf_image *image,
				    struct hf_dwfl_image *ret)
{
	size_t num;
	const struct hf_module *modules = hf_image_modules(image, &num);
	struct hf_dwfl_image dwfl_image = {
		.dwfl = dwfl_begin(&callbacks),
		.links = calloc(num + 1, sizeof(*dwfl_image.links)),
	};

	if (!dwfl_image.dwfl || !dwfl_image.links) {
		hf_dwfl_image_deinit(&dwfl_image);
		return &hf_enomem;
	}
	dwfl_report_begin(dwfl_image.dwfl);
	for (size_t i = 0; i < num; i++) {
		dwfl_image.links[i] = (struct hf_dwfl_link){ image,
							     &modules[i] };
		report(dwfl_image.dwfl, &dwfl_image.links[i]);
	}
	dwfl_report_end(dwfl_image.dwfl, NULL, NULL);
	*ret = dwfl_image;
	return NULL;
}

void hf_dwfl_image_deinit(struct hf_dwfl_image *dwfl_image)
{
	if (dwfl_image->dwfl)
		dwfl_end(dwfl_image->dwfl);
	free(dwfl_image->links);
	memset(dwfl_image, 0, sizeof(*dwfl_image));
}
