/* The process that was forked, beside its frozen child.
 * SPDX-License-Identifier: MIT */
#include "coredump/parent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "util/file.h"

/* "PPid:\t1234" of /proc/PID/status, or 0. */
static pid_t parent_of(int proc_fd)
{
	HF_AUTO_FD int fd = openat(proc_fd, "status", O_RDONLY | O_CLOEXEC);
	HF_AUTO_FREE char *text = NULL;
	const char *line;
	struct hf_error *err;

	if (fd < 0)
		return 0;
	err = hf_read_fd(fd, "status", &text, NULL);
	if (err) {
		hf_error_ignore(err);
		return 0;
	}
	/* The name of the process comes first, and may not hold a newline:
	 * the kernel escapes it. */
	line = strstr(text, "\nPPid:\t");
	return line ? atoi(line + strlen("\nPPid:\t")) : 0;
}

static const struct hf_mapping *find_path(const struct hf_proc_maps *maps,
					  const char *path)
{
	for (size_t i = 0; i < maps->num; i++)
		if (maps->data[i].path && !strcmp(maps->data[i].path, path))
			return &maps->data[i];
	return NULL;
}

/* Is this the memory that was forked? A parent that ended leaves its child to
 * another process; one that called exec is another program. Either has its
 * stack and vdso elsewhere: the kernel chooses both at random for each exec.
 * (A stack grows, but its end stays.) */
static bool is_same_program(const struct hf_proc_maps *a,
			    const struct hf_proc_maps *b)
{
	static const char *const paths[] = { "[stack]", "[vdso]" };
	bool any = false;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		const struct hf_mapping *x = find_path(a, paths[i]);
		const struct hf_mapping *y = find_path(b, paths[i]);

		if (!x && !y)
			continue;
		if (!x || !y || x->end != y->end)
			return false;
		any = true;
	}
	return any;
}

static struct hf_error *open_files(struct hf_parent *parent, pid_t pid,
				   bool no_mem)
{
	HF_AUTO_FD int maps = -1;
	char path[64];
	struct hf_error *err;
	size_t len;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	parent->proc_fd = open(path, O_DIRECTORY | O_PATH | O_CLOEXEC);
	if (parent->proc_fd < 0)
		return hf_error_create(HF_ERROR_TARGET_GONE, "it ended");
	parent->pagemap_fd = openat(parent->proc_fd, "pagemap",
				    O_RDONLY | O_CLOEXEC);
	maps = openat(parent->proc_fd, "maps", O_RDONLY | O_CLOEXEC);
	if (parent->pagemap_fd < 0 || maps < 0)
		return hf_error_os(errno, "it ended, or process %d may not "
				   "be looked at", (int)pid);
	if (!no_mem)
		parent->memory.mem_fd = openat(parent->proc_fd, "mem",
					       O_RDONLY | O_CLOEXEC);
	parent->memory.pid = pid;
	err = hf_read_fd(maps, "maps", &parent->text, &len);
	return err ? err : hf_proc_maps_parse(parent->text, len,
					      &parent->maps);
}

static struct hf_error *open_parent(pid_t pid,
				    const struct hf_proc_maps *child_maps,
				    bool no_scan, bool no_mem,
				    struct hf_parent **ret)
{
	HF_AUTO(hf_parent) struct hf_parent *parent =
		calloc(1, sizeof(*parent));
	struct hf_error *err;

	if (!parent)
		return &hf_enomem;
	parent->proc_fd = parent->pagemap_fd = parent->memory.mem_fd = -1;
	if (pid <= 0)
		err = hf_error_create(HF_ERROR_TARGET_GONE, "it ended");
	else
		err = open_files(parent, pid, no_mem);
	if (!err && !is_same_program(child_maps, &parent->maps))
		err = hf_error_create(HF_ERROR_TARGET_GONE,
				      "it ended, or runs another program");
	if (!err)
		err = hf_resident_create(parent->pagemap_fd, no_scan,
					 &parent->resident);
	if (err && err->code == HF_ERROR_NO_MEMORY)
		return err;
	if (!err)
		parent->pid = pid;
	else
		snprintf(parent->why, sizeof(parent->why), "%s", err->message);
	hf_error_ignore(err);
	*ret = HF_TAKE(parent);
	return NULL;
}

struct hf_error *hf_parent_open(int child_fd,
				const struct hf_proc_maps *child_maps,
				bool no_scan, bool no_mem,
				struct hf_parent **ret)
{
	return open_parent(parent_of(child_fd), child_maps, no_scan, no_mem,
			   ret);
}

struct hf_error *hf_parent_open_self(pid_t pid,
				     const struct hf_proc_maps *maps,
				     bool no_scan, bool no_mem,
				     struct hf_parent **ret)
{
	return open_parent(pid, maps, no_scan, no_mem, ret);
}

void hf_parent_close(struct hf_parent *parent)
{
	if (!parent)
		return;
	hf_resident_destroy(parent->resident);
	hf_proc_maps_deinit(&parent->maps);
	free(parent->text);
	if (parent->memory.mem_fd >= 0)
		close(parent->memory.mem_fd);
	if (parent->pagemap_fd >= 0)
		close(parent->pagemap_fd);
	if (parent->proc_fd >= 0)
		close(parent->proc_fd);
	free(parent);
}

bool hf_parent_is_alive(const struct hf_parent *parent)
{
	HF_AUTO_FD int fd = openat(parent->proc_fd, "maps",
				   O_RDONLY | O_CLOEXEC);
	char byte;

	return fd >= 0 && read(fd, &byte, 1) == 1;
}
