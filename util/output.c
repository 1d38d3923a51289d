/* Output files that appear whole or not at all.
 * SPDX-License-Identifier: MIT */
#include "util/output.h"

#include <dirent.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

/* The folder of a run that was killed stays. Each run holds a lock on its own
 * as long as it lives, so the next one can tell, and removes what nobody holds:
 * the folder by its name and owner, files in it, never more. The lock is taken
 * after the folder was made; whoever finds it removed in between makes another.
 */

static const char folder_prefix[] = ".heapfork-";
enum {
	FOLDER_RANDOM = 6,          /* characters that mkdtemp chooses */
	MIN_FREE_BYTES = 256 << 10, /* less than any file of ours takes */
};

struct hf_output {
	char *final_path; /* name after the commit */
	char *dir;        /* our own directory, 0700, beside it */
	char *path;       /* the file being written, inside dir */
	int lock_fd;      /* dir, locked; or -1: this file system has no locks */
	bool force;       /* an existing file may be replaced */
};

static struct hf_error *refuse_existing(const char *path)
{
	struct hf_error *err =
		hf_error_create(HF_ERROR_USAGE, "'%s' exists already", path);

	return hf_error_fix(err, "choose another name, or replace it with "
				 "--force");
}

/* `dir` is where the file shall be. */
static struct hf_error *cannot_write(const char *path, const char *dir,
				     int os_error)
{
	struct hf_error *err =
		hf_error_os(os_error, "cannot write beside '%s'", path);

	switch (os_error) {
	case ENOENT:
		if (access(dir, F_OK) == 0)
			return hf_error_fix(
				hf_error_cause(err, "'%s' is no folder where "
					       "files can be made", dir),
				"choose another folder");
		return hf_error_fix(
			hf_error_cause(err, "there is no folder '%s'", dir),
			"make it (mkdir -p), or choose another name");
	case ENOTDIR:
		return hf_error_fix(
			hf_error_cause(err, "'%s' is not a folder", dir),
			"choose another name");
	case EACCES:
	case EPERM:
	case EROFS:
		return hf_error_fix(
			hf_error_cause(err, "this user may not make files in "
				       "'%s'", dir),
			"choose a folder of your own");
	case ENOSPC:
	case EDQUOT:
		return hf_error_fix(
			hf_error_cause(err, "the disk of '%s' is full", dir),
			"write to a disk with more free space");
	default:
		return hf_error_fix(err, "choose another folder");
	}
}

/* A lock of another machine may not be seen through these. */
static bool is_shared_between_machines(int fd)
{
	static const uint32_t types[] = {
		0x6969,     /* NFS */
		0xff534d42, /* CIFS */
		0xfe534d42, /* SMB2 */
		0x65735546, /* FUSE */
		0x01021997, /* 9P */
		0x00c36400, /* Ceph */
		0x5346414f, /* AFS */
		0x0bd00bd0, /* Lustre */
		0x01161970, /* GFS2 */
		0x7461636f, /* OCFS2 */
	};
	struct statfs fs;

	if (fstatfs(fd, &fs))
		return true;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if ((uint32_t)fs.f_type == types[i])
			return true;
	return false;
}

static bool is_folder_name(const char *name)
{
	size_t len = sizeof(folder_prefix) - 1;

	return !strncmp(name, folder_prefix, len) &&
	       strlen(name) == len + FOLDER_RANDOM;
}

/* The files in it; a folder in a folder is none of ours. */
static void empty_folder(int fd)
{
	DIR *dir = fdopendir(dup(fd));
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		unlinkat(fd, entry->d_name, 0);
	if (dir)
		closedir(dir);
}

/* Remove a folder if it is one of ours, and nobody holds it. */
static void remove_left(int parent, const char *name)
{
	HF_AUTO_FD int fd = openat(parent, name, O_RDONLY | O_DIRECTORY |
				   O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) || st.st_uid != geteuid() ||
	    (st.st_mode & 07777) != 0700 || flock(fd, LOCK_EX | LOCK_NB))
		return;
	empty_folder(fd);
	unlinkat(parent, name, AT_REMOVEDIR);
}

static void remove_left_folders(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	if (!dir)
		return;
	while (!is_shared_between_machines(dirfd(dir)) &&
	       (entry = readdir(dir)))
		if (is_folder_name(entry->d_name))
			remove_left(dirfd(dir), entry->d_name);
	closedir(dir);
}

/* Make a folder beside `path`, and lock it. */
static struct hf_error *make_folder(struct hf_output *output, const char *path,
				    const char *dir)
{
	struct stat ours, named;

	for (;;) {
		HF_AUTO_FREE char *template = NULL;
		HF_AUTO_FD int fd = -1;

		if (asprintf(&template, "%s/%sXXXXXX", dir, folder_prefix) <
		    0) {
			template = NULL;
			return &hf_enomem;
		}
		if (!mkdtemp(template))
			return cannot_write(path, dir, errno);
		fd = open(template, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0 && errno == ENOENT)
			continue;
		if (fd >= 0 && !flock(fd, LOCK_EX)) {
			/* Another run may have had it before us, and taken it
			 * for left. */
			if (fstat(fd, &ours) || stat(template, &named) ||
			    ours.st_ino != named.st_ino)
				continue;
			output->lock_fd = HF_TAKE_FD(fd);
		}
		output->dir = HF_TAKE(template);
		return NULL;
	}
}

/* Where not even the least file finds room, it is better to say so before
 * anything is done for it. */
static struct hf_error *check_free(const char *path, const char *dir)
{
	struct statvfs fs;

	if (statvfs(dir, &fs) < 0 || !fs.f_blocks ||
	    fs.f_bavail > MIN_FREE_BYTES / (fs.f_frsize ? fs.f_frsize : 1))
		return NULL;
	return hf_error_fix(
		hf_error_cause(hf_error_create(HF_ERROR_NO_SPACE,
					       "no room for '%s'", path),
			       "the disk of '%s' is full", dir),
		"write to a disk with more free space");
}

static struct hf_error *refuse_folder(const char *path)
{
	return hf_error_fix(
		hf_error_cause(hf_error_create(HF_ERROR_USAGE,
					       "'%s' cannot be a file", path),
			       "a name that ends in '/' is that of a folder"),
		"name the file, too: '%sNAME'", path);
}

struct hf_error *hf_output_begin(const char *path, bool force,
				 struct hf_output **ret)
{
	HF_AUTO(hf_output) struct hf_output *output = calloc(1, sizeof(*output));
	HF_AUTO_FREE char *copy = strdup(path);
	const char *dir; /* inside copy */
	struct hf_error *err;
	struct stat st;

	if (output)
		output->lock_fd = -1;
	if (!output || !copy || !(output->final_path = strdup(path)))
		return &hf_enomem;
	dir = dirname(copy);
	output->force = force;
	if (!*path)
		return hf_error_create(HF_ERROR_USAGE,
				       "the output's name is empty");
	if (path[strlen(path) - 1] == '/')
		return refuse_folder(path);
	if (lstat(path, &st) == 0) {
		if (!force)
			return refuse_existing(path);
		if (!S_ISREG(st.st_mode))
			return hf_error_create(
				HF_ERROR_USAGE,
				"'%s' is not a regular file: not replaced",
				path);
	}
	remove_left_folders(dir);
	err = check_free(path, dir);
	if (!err)
		err = make_folder(output, path, dir);
	if (err)
		return err;
	if (asprintf(&output->path, "%s/out", output->dir) < 0) {
		output->path = NULL;
		return &hf_enomem;
	}
	*ret = HF_TAKE(output);
	return NULL;
}

const char *hf_output_path(const struct hf_output *output)
{
	return output->path;
}

/* Replace `from` in *text by `to`, once. */
static void replace(char **text, const char *from, const char *to)
{
	char *at = *text ? strstr(*text, from) : NULL;
	char *copy;

	if (!at || asprintf(&copy, "%.*s%s%s", (int)(at - *text), *text, to,
			    at + strlen(from)) < 0)
		return;
	free(*text);
	*text = copy;
}

struct hf_error *hf_output_blame(const struct hf_output *output,
				 struct hf_error *err)
{
	if (err && !err->is_static) {
		replace(&err->message, output->path, output->final_path);
		replace(&err->cause, output->path, output->final_path);
	}
	return err;
}

static struct hf_error *sync_path(const char *path, int flags)
{
	HF_AUTO_FD int fd = open(path, flags | O_CLOEXEC);

	if (fd < 0)
		return hf_error_os(errno, "cannot open '%s'", path);
	if (fsync(fd) < 0 && errno != EINVAL)
		return hf_error_os(errno, "cannot store '%s'", path);
	return NULL;
}

struct hf_error *hf_output_commit(struct hf_output *output)
{
	const char *final_path = output->final_path;
	HF_AUTO_FREE char *copy = strdup(final_path);
	struct hf_error *err;
	int rc;

	if (!copy)
		return &hf_enomem;
	if (chmod(output->path, 0600) < 0)
		return hf_error_os(errno, "cannot protect '%s'", output->path);
	err = sync_path(output->path, O_RDONLY);
	if (err)
		return err;
	if (output->force) {
		rc = rename(output->path, final_path);
	} else {
		rc = renameat2(AT_FDCWD, output->path, AT_FDCWD, final_path,
			       RENAME_NOREPLACE);
		if (rc < 0 && (errno == EINVAL || errno == ENOSYS)) {
			/* A file system without the flag: link() refuses an
			 * existing name just as well. */
			rc = link(output->path, final_path);
			if (rc == 0)
				unlink(output->path);
		}
	}
	if (rc < 0 && errno == EEXIST)
		return refuse_existing(final_path);
	if (rc < 0)
		return hf_error_os(errno, "cannot name '%s'", final_path);
	/* Some file systems cannot sync a directory: the name is there. */
	hf_error_ignore(sync_path(dirname(copy), O_RDONLY | O_DIRECTORY));
	return NULL;
}

void hf_output_destroy(struct hf_output *output)
{
	DIR *dir;
	struct dirent *entry;

	if (!output)
		return;
	if (output->dir) {
		dir = opendir(output->dir);
		while (dir && (entry = readdir(dir)))
			unlinkat(dirfd(dir), entry->d_name, 0);
		if (dir)
			closedir(dir);
		rmdir(output->dir);
	}
	if (output->lock_fd >= 0)
		close(output->lock_fd);
	free(output->final_path);
	free(output->dir);
	free(output->path);
	free(output);
}
