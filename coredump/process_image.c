/* The image of a stopped process, read through /proc.
 * SPDX-License-Identifier: MIT */
#include "coredump/process_image.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "coredump/image_internal.h"
#include "coredump/process_image_internal.h"
#include "coredump/process_memory.h"
#include "coredump/proc_maps.h"
#include "coredump/resident.h"
#include "coredump/shared_pages.h"
#include "util/file.h"

/* The process is the forked child, so the segments are those that the child
 * has: what its parent marked MADV_DONTFORK is not in it, and what it marked
 * MADV_WIPEONFORK is there, but empty. */

struct process {
	struct hf_process_memory memory;
	int proc_fd; /* /proc/PID; owned */
};

static size_t process_read(void *arg, const struct hf_range *ranges,
			   size_t num_ranges, void *buf)
{
	struct process *process = arg;

	return hf_process_memory_read(&process->memory, ranges, num_ranges,
				      buf);
}

/* Find a file without opening it: it may be anything.
 * @return an O_PATH descriptor, or -1. */
static int find_file(const struct process *process, const char *path,
		     const struct hf_range *mapping)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		/* Links in the target's root are the target's own, and may
		 * not lead out of it. */
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	HF_AUTO_FD int root = -1;

	if (mapping) {
		char name[64];
		int fd;

		/* The very file, whatever its name is now; needs
		 * CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN. */
		snprintf(name, sizeof(name),
			 "map_files/%" PRIx64 "-%" PRIx64,
			 mapping->start, mapping->end);
		fd = openat(process->proc_fd, name, O_PATH | O_CLOEXEC);
		if (fd >= 0)
			return fd;
	}
	root = openat(process->proc_fd, "root", O_PATH | O_CLOEXEC);
	if (root < 0)
		return -1;
	return syscall(SYS_openat2, root, path, &how, sizeof(how));
}

static int process_open_file(void *arg, const char *path,
			     const struct hf_range *mapping)
{
	HF_AUTO_FD int found = find_file(arg, path, mapping);
	struct stat st;
	char name[64];

	/* Opening a device or a fifo may block, or act. */
	if (found < 0 || fstat(found, &st) || !S_ISREG(st.st_mode))
		return -1;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", found);
	return open(name, O_RDONLY | O_CLOEXEC);
}

static void process_destroy(void *arg)
{
	struct process *process = arg;

	if (!process)
		return;
	if (process->memory.mem_fd >= 0)
		close(process->memory.mem_fd);
	if (process->proc_fd >= 0)
		close(process->proc_fd);
	free(process);
}

HF_DEFINE_AUTO(struct process *, process, process_destroy)

static const struct hf_image_ops process_ops = {
	.read = process_read,
	.open_file = process_open_file,
	.destroy = process_destroy,
};

static bool starts_with(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

/* Shared memory that has no file, or one in memory, as maps names it. */
static bool is_plain_shared(const struct hf_mapping *mapping)
{
	static const char *const prefixes[] = {
		"/dev/zero", "/dev/shm/", "/memfd:", "/SYSV",
		"/anon_hugepage", "[anon_shmem:",
	};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (starts_with(mapping->path, prefixes[i]))
			return true;
	return false;
}

/* Could this be the memory of a device? Then smaps has to tell. */
static bool may_be_device(const struct process *process,
			  const struct hf_mapping *mapping)
{
	struct hf_range range = { mapping->start, mapping->end };
	HF_AUTO_FD int fd = -1;
	struct stat st;

	if (!mapping->path || !mapping->inode || mapping->path[0] == '[' ||
	    is_plain_shared(mapping))
		return false;
	fd = find_file(process, mapping->path, &range);
	return fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) ||
	       st.st_ino != mapping->inode;
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
			      !is_plain_shared(mapping))))
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

static struct hf_error *add_resident(void *arg, struct hf_range range)
{
	return hf_image_add_resident(arg, range);
}

static struct hf_error *add_mapping(struct hf_image *image,
				    struct hf_resident *resident,
				    struct hf_shared_pages *shared,
				    const struct hf_mapping *mapping)
{
	struct hf_segment segment = {
		.start = mapping->start,
		.end = mapping->end,
		.prot = mapping->prot,
		.file_offset = mapping->file_offset,
		.device = mapping->device,
		.inode = mapping->inode,
		.path = mapping->path,
	};
	struct hf_range range = { mapping->start, mapping->end };
	struct hf_error *err;

	if (mapping->end > HF_ADDRESS_END)
		return NULL; /* [vsyscall] */
	classify(mapping, &segment);
	err = hf_image_add_segment(image, &segment);
	if (err || segment.kind == HF_SEGMENT_SPECIAL)
		return err;
	if (!mapping->is_empty)
		err = hf_resident_find(resident, range,
				       segment.absent == HF_ABSENT_ZERO,
				       add_resident, image);
	if (!err && segment.kind == HF_SEGMENT_SHARED)
		err = hf_shared_pages_find(shared, mapping, add_resident,
					   image);
	return err;
}

static struct hf_error *read_proc_file(const struct process *process,
				       const char *name, char **ret,
				       size_t *len_ret)
{
	HF_AUTO_FD int fd = openat(process->proc_fd, name,
				   O_RDONLY | O_CLOEXEC);
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)process->memory.pid,
		 name);
	if (fd < 0)
		return hf_error_os(errno, "cannot open '%s'", path);
	return hf_read_fd(fd, path, ret, len_ret);
}

/* Devices must be told from other files, since reading one may do
 * things to it. Only smaps tells, and that walks all page tables: so it is
 * asked only if there is a mapping to be told. */
static struct hf_error *mark_devices(const struct process *process,
				     struct hf_proc_maps *maps)
{
	HF_AUTO_FREE char *text = NULL;
	HF_AUTO(hf_proc_maps) struct hf_proc_maps detailed = { 0 };
	struct hf_error *err;
	size_t len, j = 0;
	bool any = false;

	for (size_t i = 0; i < maps->num && !any; i++)
		/* One look for all the mappings of a module. */
		any = (!i || maps->data[i].inode != maps->data[i - 1].inode ||
		       maps->data[i].device != maps->data[i - 1].device) &&
		      may_be_device(process, &maps->data[i]);
	if (!any)
		return NULL;
	err = read_proc_file(process, "smaps", &text, &len);
	if (!err)
		err = hf_proc_maps_parse(text, len, &detailed);
	if (err)
		return err;
	for (size_t i = 0; i < maps->num; i++) {
		while (j < detailed.num &&
		       detailed.data[j].start < maps->data[i].start)
			j++;
		if (j < detailed.num &&
		    detailed.data[j].start == maps->data[i].start)
			maps->data[i].is_io = detailed.data[j].is_io;
	}
	return NULL;
}

static struct hf_error *add_memory(struct hf_image *image,
				   const struct process *process,
				   unsigned int flags)
{
	HF_AUTO(hf_resident) struct hf_resident *resident = NULL;
	HF_AUTO(hf_shared_pages) struct hf_shared_pages *shared = NULL;
	HF_AUTO(hf_proc_maps) struct hf_proc_maps maps = { 0 };
	HF_AUTO_FD int pagemap = openat(process->proc_fd, "pagemap",
					O_RDONLY | O_CLOEXEC);
	HF_AUTO_FREE char *text = NULL;
	struct hf_error *err;
	size_t len;

	if (pagemap < 0)
		return hf_error_os(errno, "cannot open '/proc/%d/pagemap'",
				   (int)process->memory.pid);
	err = hf_resident_create(pagemap, flags & HF_PROCESS_IMAGE_NO_SCAN,
				 &resident);
	if (!err)
		err = hf_shared_pages_create(process->proc_fd,
					     flags & HF_PROCESS_IMAGE_NO_SCAN,
					     &shared);
	/* Programs reserve terabytes; without the scan it must be known
	 * beforehand which mappings are empty. */
	if (!err)
		err = read_proc_file(process, hf_resident_has_scan(resident) ?
				     "maps" : "smaps", &text, &len);
	if (!err)
		err = hf_proc_maps_parse(text, len, &maps);
	if (!err && !maps.num)
		err = hf_error_create(HF_ERROR_TARGET_GONE,
				      "process %d has no memory: it is a "
				      "zombie, or a kernel thread",
				      (int)process->memory.pid);
	if (!err && hf_resident_has_scan(resident))
		err = mark_devices(process, &maps);
	for (size_t i = 0; i < maps.num && !err; i++)
		err = add_mapping(image, resident, shared, &maps.data[i]);
	return err;
}

static struct hf_error *open_process(pid_t pid, unsigned int flags,
				     struct process **ret)
{
	HF_AUTO(process) struct process *process = calloc(1, sizeof(*process));
	char path[32];

	if (!process)
		return &hf_enomem;
	process->memory.pid = pid;
	process->memory.mem_fd = -1;
	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	process->proc_fd = open(path, O_DIRECTORY | O_PATH | O_CLOEXEC);
	if (process->proc_fd < 0)
		return hf_error_os(errno == ENOENT ? ESRCH : errno,
				   "cannot open process %d", (int)pid);
	if (!(flags & HF_PROCESS_IMAGE_NO_MEM))
		process->memory.mem_fd = openat(process->proc_fd, "mem",
						O_RDONLY | O_CLOEXEC);
	*ret = HF_TAKE(process);
	return NULL;
}

/* Is there a way to read at all? Better told now than found as an image with
 * everything missing. */
static struct hf_error *check_rights(const struct hf_image *image,
				     struct process *process)
{
	for (size_t i = 0; i < image->resident.num; i++) {
		struct hf_range range = {
			image->resident.data[i].start,
			image->resident.data[i].start + 1,
		};
		const struct hf_segment *segment =
			hf_image_find_segment(image, range.start);
		char byte;

		if (!segment || !(segment->prot & PROT_READ) ||
		    segment->kind == HF_SEGMENT_SHARED)
			continue;
		if (hf_process_memory_read(&process->memory, &range, 1, &byte))
			return NULL;
		return hf_error_fix(hf_error_create(
			HF_ERROR_PERMISSION,
			"cannot read the memory of process %d",
			(int)process->memory.pid),
			"this needs the rights of a tracer: run as the same "
			"user or as root");
	}
	return NULL;
}

struct hf_error *hf_process_image_open_flags(pid_t pid,
					     const struct hf_thread *threads,
					     size_t num_threads,
					     unsigned int flags,
					     struct hf_image **ret)
{
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	struct process *process = NULL;
	struct hf_error *err = open_process(pid, flags, &process);

	if (err)
		return err;
	err = hf_image_create(&process_ops, process, &image);
	if (err)
		return err;
	err = add_memory(image, process, flags);
	for (size_t i = 0; i < num_threads && !err; i++)
		err = hf_image_add_thread(image, &threads[i]);
	if (!err)
		err = hf_image_freeze(image);
	if (!err)
		err = check_rights(image, process);
	if (err)
		return hf_error_prefix(err, "memory of process %d", (int)pid);
	*ret = HF_TAKE(image);
	return NULL;
}

struct hf_error *hf_process_image_open(pid_t pid,
				       const struct hf_thread *threads,
				       size_t num_threads,
				       struct hf_image **ret)
{
	return hf_process_image_open_flags(pid, threads, num_threads, 0, ret);
}
