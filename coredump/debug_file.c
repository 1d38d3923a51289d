/* The separate debug file of a module, found by build id.
 * SPDX-License-Identifier: MIT */
#include "coredump/debug_file.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "coredump/elf_symbols.h"
#include "coredump/image_internal.h"

static bool has_build_id(int fd, const struct hf_module *module)
{
	HF_AUTO(elf) Elf *elf = hf_elf_open(fd);
	const void *id;
	ssize_t len = elf ? dwelf_elf_gnu_build_id(elf, &id) : -1;

	return len > 0 && (size_t)len == module->build_id_bytes &&
	       !memcmp(id, module->build_id, len);
}

int hf_debug_file_open(const struct hf_image *image,
		       const struct hf_module *module)
{
	static const char prefix[] = "/usr/lib/debug/.build-id/";
	char path[sizeof(prefix) + 2 * sizeof(module->build_id) +
		  sizeof("/.debug")];
	HF_AUTO_FD int fd = -1;
	struct stat st;
	size_t len = sizeof(prefix) - 1;

	if (module->build_id_bytes < 2)
		return -1;
	memcpy(path, prefix, len);
	for (size_t i = 0; i < module->build_id_bytes; i++) {
		len += snprintf(path + len, sizeof(path) - len, "%s%02x",
				i == 1 ? "/" : "", module->build_id[i]);
	}
	snprintf(path + len, sizeof(path) - len, ".debug");
	if (image->ops->open_file)
		fd = image->ops->open_file(image->arg, path, NULL);
	if (fd >= 0 && has_build_id(fd, module))
		return HF_TAKE_FD(fd);
	if (fd >= 0)
		close(fd);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) &&
	    has_build_id(fd, module))
		return HF_TAKE_FD(fd);
	return -1;
}
