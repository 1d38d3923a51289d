/* Output files that appear whole or not at all.
 * SPDX-License-Identifier: MIT */
#include "util/output.h"

#include <dirent.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct hf_output {
	char *final_path; /* name after the commit */
	char *dir;        /* our own directory, 0700, beside it */
	char *path;       /* the file being written, inside dir */
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

struct hf_error *hf_output_begin(const char *path, bool force,
				 struct hf_output **ret)
{
	HF_AUTO(hf_output) struct hf_output *output = calloc(1, sizeof(*output));
	HF_AUTO_FREE char *copy = strdup(path);
	HF_AUTO_FREE char *template = NULL;
	const char *dir; /* inside copy */
	struct stat st;

	if (!output || !copy || !(output->final_path = strdup(path)))
		return &hf_enomem;
	dir = dirname(copy);
	output->force = force;
	if (!*path)
		return hf_error_create(HF_ERROR_USAGE,
				       "the output's name is empty");
	if (lstat(path, &st) == 0) {
		if (!force)
			return refuse_existing(path);
		if (!S_ISREG(st.st_mode))
			return hf_error_create(
				HF_ERROR_USAGE,
				"'%s' is not a regular file: not replaced",
				path);
	}
	if (asprintf(&template, "%s/.heapfork-XXXXXX", dir) < 0) {
		template = NULL;
		return &hf_enomem;
	}
	if (!mkdtemp(template))
		return cannot_write(path, dir, errno);
	output->dir = HF_TAKE(template);
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
	free(output->final_path);
	free(output->dir);
	free(output->path);
	free(output);
}
