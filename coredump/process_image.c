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
#include "coredump/late.h"
#include "coredump/left_out.h"
#include "coredump/process_image_internal.h"
#include "coredump/process_memory.h"
#include "coredump/proc_maps.h"
#include "coredump/resident.h"
#include "coredump/segment_kind.h"
#include "coredump/shared_pages.h"
#include "coredump/still_memory.h"
#include "util/file.h"

/* The process is the forked child, so the segments are those that the child
 * has, and one kind more: what its parent marked MADV_DONTFORK is not in it,
 * and what it marked MADV_WIPEONFORK is there, but empty. The bytes of these
 * are the parent's, as they are when the image is opened ("late"). So are those
 * that the two share, as they are when they are read.
 *
 * Or the process is no child but stands still itself (IMAGE_SELF). Then it is
 * its own "parent", which has nothing that it has not, and nothing is late. */

struct process {
	struct hf_process_memory memory;
	int proc_fd;                      /* /proc/PID; owned */
	int root_fd;                      /* its root folder, also when it is
					   * gone; or -1; owned */
	struct hf_parent *parent;         /* owned */
	struct hf_late late;              /* read from the parent */
	struct hf_still_memory *still;    /* of IMAGE_SELF; owned */
};

static size_t process_read(void *arg, const struct hf_range *ranges,
			   size_t num_ranges, void *buf)
{
	const struct process *process = arg;
	const struct hf_late *late = &process->late;
	size_t done = 0;

	if (process->still)
		return hf_still_memory_read(process->still, ranges, num_ranges,
					    buf);
	if (!late->ranges.num)
		return hf_process_memory_read(&process->memory, ranges,
					      num_ranges, buf);
	/* Each range is in one segment, and a segment is late or is not. */
	for (size_t i = 0, next; i < num_ranges; i = next) {
		uint64_t want = ranges[i].end - ranges[i].start;
		size_t got;

		next = i + 1;
		if (hf_late_has(late, ranges[i].start)) {
			got = hf_late_read(late, &process->parent->memory,
					   ranges[i], (char *)buf + done);
		} else {
			for (; next < num_ranges &&
			     !hf_late_has(late, ranges[next].start); next++)
				want += ranges[next].end - ranges[next].start;
			got = hf_process_memory_read(&process->memory,
						     ranges + i, next - i,
						     (char *)buf + done);
		}
		done += got;
		if (got < want)
			break;
	}
	return done;
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
	if (process->root_fd < 0)
		return -1;
	return syscall(SYS_openat2, process->root_fd, path, &how, sizeof(how));
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
	if (process->root_fd >= 0)
		close(process->root_fd);
	if (process->proc_fd >= 0)
		close(process->proc_fd);
	hf_parent_close(process->parent);
	hf_late_deinit(&process->late);
	hf_still_memory_destroy(process->still);
	free(process);
}

HF_DEFINE_AUTO(struct process *, process, process_destroy)

static const struct hf_image_ops process_ops = {
	.read = process_read,
	.open_file = process_open_file,
	.destroy = process_destroy,
};

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

/* What add_memory and its steps work with. */
struct job {
	struct hf_image *image;
	struct process *process;
	struct hf_resident *resident; /* of the child */
	struct hf_proc_maps maps;     /* of the child */
	bool is_self;                 /* no child: IMAGE_SELF */
	uint64_t num_lost, lost_bytes; /* mappings that were wiped, and are
					* gone in the parent */
};

static struct hf_error *add_resident(void *arg, struct hf_range range)
{
	return hf_image_add_resident(arg, range);
}

/* An image with a mapping that may still be empty. */
struct found {
	struct hf_image *image;
	struct hf_mapping *mapping;
};

static struct hf_error *add_found(void *arg, struct hf_range range)
{
	struct found *found = arg;

	found->mapping->is_empty = false;
	return hf_image_add_resident(found->image, range);
}

/* Pages that need not be kept: zero, or in a file. What a fork copies of the
 * latter is chance. */
static unsigned int not_saved(const struct hf_segment *segment)
{
	if (segment->absent == HF_ABSENT_ZERO)
		return HF_RESIDENT_SKIP_ZERO;
	return segment->kind == HF_SEGMENT_FILE ? HF_RESIDENT_SKIP_FILE : 0;
}

/* Also finds out which mappings are empty. */
static struct hf_error *add_residents(struct job *job)
{
	struct hf_error *err = NULL;

	for (size_t i = 0; i < job->maps.num && !err; i++) {
		struct hf_mapping *mapping = &job->maps.data[i];
		struct hf_segment segment = hf_segment_of_mapping(mapping);
		struct hf_range range = { mapping->start, mapping->end };
		struct found found = { job->image, mapping };

		if (mapping->end > HF_ADDRESS_END || mapping->is_empty ||
		    segment.kind == HF_SEGMENT_SPECIAL)
			continue;
		mapping->is_empty = true;
		err = hf_resident_find(job->resident, range, not_saved(&segment),
				       add_found, &found);
	}
	return err;
}

/* Nobody has the bytes of a segment any more. */
static void set_lost(struct job *job, struct hf_segment *segment)
{
	segment->absent = HF_ABSENT_MISSING;
	job->num_lost++;
	job->lost_bytes += segment->end - segment->start;
}

/* A segment with the bytes of the parent, if it still has them. */
static struct hf_error *add_late(struct job *job, struct hf_segment *segment,
				 bool is_empty)
{
	struct hf_range range = { segment->start, segment->end };
	const struct hf_parent *parent = job->process->parent;
	struct hf_error *err = NULL;

	if (!is_empty)
		err = hf_resident_find(parent->resident, range,
				       segment->absent == HF_ABSENT_ZERO ?
					       HF_RESIDENT_SKIP_ZERO : 0,
				       add_resident, job->image);
	if (err && err->code == HF_ERROR_NO_MEMORY)
		return err;
	/* The page map of a process that ended shows nothing. */
	segment->late = !err && hf_parent_is_alive(parent);
	hf_error_ignore(err);
	if (segment->late)
		return hf_late_add(&job->process->late, range);
	set_lost(job, segment);
	return NULL;
}

static struct hf_error *add_mapping(struct job *job,
				    const struct hf_mapping *mapping)
{
	struct hf_segment segment = hf_segment_of_mapping(mapping);
	const struct hf_parent *parent = job->process->parent;
	struct hf_error *err = NULL;

	if (mapping->end > HF_ADDRESS_END)
		return NULL; /* [vsyscall] */
	if (segment.kind == HF_SEGMENT_SHARED)
		segment.late = !job->is_self;
	if (mapping->is_wiped && mapping->is_empty && !job->is_self &&
	    segment.absent == HF_ABSENT_ZERO) {
		if (hf_left_out_is_mapped(parent, mapping))
			err = add_late(job, &segment, false);
		else
			set_lost(job, &segment);
	}
	if (!err)
		err = hf_image_add_segment(job->image, &segment);
	if (!err && segment.kind == HF_SEGMENT_SHARED)
		err = hf_shared_pages_find(job->process->proc_fd, parent,
					   mapping, add_resident, job->image);
	return err;
}

static struct hf_error *add_left_out(struct job *job)
{
	struct hf_left_out storage = { 0 };
	HF_AUTO(hf_left_out) struct hf_left_out *left_out = &storage;
	const struct hf_parent *parent = job->process->parent;
	struct hf_error *err;

	err = parent->pid ? hf_left_out_find(parent, &job->maps, left_out)
			  : hf_error_create(HF_ERROR_TARGET_GONE, "%s",
					    parent->why);
	if (err && err->code != HF_ERROR_NO_MEMORY) {
		struct hf_error *loss = hf_error_prefix(
			err, "memory that the process keeps out of its forks "
			"(MADV_DONTFORK) is not known");

		err = hf_image_add_loss(job->image, loss->message);
		hf_error_destroy(loss);
	}
	for (size_t i = 0; i < left_out->list.num && !err; i++) {
		const struct hf_mapping *mapping = &left_out->list.data[i];
		struct hf_segment segment = hf_segment_of_mapping(mapping);

		if (segment.kind != HF_SEGMENT_SPECIAL)
			err = add_late(job, &segment, mapping->is_empty);
		if (!err)
			err = hf_image_add_segment(job->image, &segment);
	}
	return err;
}

static struct hf_error *add_loss(const struct job *job)
{
	const struct hf_parent *parent = job->process->parent;
	char text[320];

	if (!job->num_lost)
		return NULL;
	snprintf(text, sizeof(text),
		 "%" PRIu64 " bytes in %" PRIu64 " mapping%s that the process "
		 "keeps out of its forks (MADV_DONTFORK, MADV_WIPEONFORK) "
		 "cannot be read from it: %s", job->lost_bytes, job->num_lost,
		 job->num_lost == 1 ? "" : "s",
		 parent->pid ? "it unmapped them, or ended" : parent->why);
	return hf_image_add_loss(job->image, text);
}

static struct hf_error *add_segments(struct job *job)
{
	struct hf_error *err = NULL;

	for (size_t i = 0; i < job->maps.num && !err; i++)
		err = add_mapping(job, &job->maps.data[i]);
	if (!err)
		err = add_left_out(job);
	if (!err)
		err = add_loss(job);
	return err;
}

static struct hf_error *add_memory(struct hf_image *image,
				   struct process *process,
				   unsigned int flags)
{
	HF_AUTO(hf_resident) struct hf_resident *resident = NULL;
	HF_AUTO(hf_proc_maps) struct hf_proc_maps maps = { 0 };
	HF_AUTO_FD int pagemap = openat(process->proc_fd, "pagemap",
					O_RDONLY | O_CLOEXEC);
	struct job job = {
		.image = image,
		.process = process,
		.is_self = flags & HF_PROCESS_IMAGE_SELF,
	};
	HF_AUTO_FREE char *text = NULL;
	struct hf_error *err;
	size_t len;

	if (pagemap < 0)
		return hf_error_os(errno, "cannot open '/proc/%d/pagemap'",
				   (int)process->memory.pid);
	err = hf_resident_create(pagemap, flags & HF_PROCESS_IMAGE_NO_SCAN,
				 &resident);
	/* Only smaps tells devices from files, what a fork wiped, what was
	 * marked DONTDUMP, and (programs reserve terabytes) which mappings are
	 * empty. It walks all page tables, of the child only: 10 to 20 ms a
	 * GiB of small pages. */
	if (!err)
		err = read_proc_file(process, "smaps", &text, &len);
	if (!err)
		err = hf_proc_maps_parse(text, len, &maps);
	if (!err && !maps.num)
		err = hf_error_create(HF_ERROR_TARGET_GONE,
				      "process %d has no memory: it is a "
				      "zombie, or a kernel thread",
				      (int)process->memory.pid);
	if (!err && job.is_self)
		err = hf_parent_open_self(process->memory.pid, &maps,
					  flags & HF_PROCESS_IMAGE_NO_SCAN,
					  flags & HF_PROCESS_IMAGE_NO_MEM,
					  &process->parent);
	else if (!err)
		err = hf_parent_open(process->proc_fd, &maps,
				     flags & HF_PROCESS_IMAGE_NO_SCAN,
				     flags & HF_PROCESS_IMAGE_NO_MEM,
				     &process->parent);
	if (err)
		return err;
	job.resident = resident;
	job.maps = maps; /* borrowed */
	err = add_residents(&job);
	return err ? err : add_segments(&job);
}

static struct hf_error *open_process(pid_t pid, unsigned int flags,
				     struct process **ret)
{
	HF_AUTO(process) struct process *process = calloc(1, sizeof(*process));
	char path[32];

	if (!process)
		return &hf_enomem;
	process->memory.pid = pid;
	process->memory.mem_fd = process->root_fd = -1;
	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	process->proc_fd = open(path, O_DIRECTORY | O_PATH | O_CLOEXEC);
	if (process->proc_fd < 0)
		return hf_error_os(errno == ENOENT ? ESRCH : errno,
				   "cannot open process %d", (int)pid);
	process->root_fd = openat(process->proc_fd, "root",
				  O_PATH | O_CLOEXEC);
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
		    segment->kind == HF_SEGMENT_SHARED || segment->late)
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
	if (flags & HF_PROCESS_IMAGE_SELF)
		err = hf_still_memory_create(image, &process->memory,
					     &process->still);
	if (!err)
		err = add_memory(image, process, flags);
	for (size_t i = 0; i < num_threads && !err; i++)
		err = hf_image_add_thread(image, &threads[i]);
	if (!err)
		err = hf_image_freeze(image);
	if (!err && process->parent)
		err = hf_late_copy(&process->late, &process->parent->memory,
				   image->resident.data, image->resident.num);
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

struct hf_error *hf_process_image_open_self(pid_t pid,
					    const struct hf_thread *threads,
					    size_t num_threads,
					    struct hf_image **ret)
{
	return hf_process_image_open_flags(pid, threads, num_threads,
					   HF_PROCESS_IMAGE_SELF, ret);
}
