/* Process info: what a core says about the process as a whole.
 * SPDX-License-Identifier: MIT */
#include "coredump/process_info.h"

#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "util/file.h"

static struct hf_error *read_file(pid_t pid, const char *file, char **ret,
				  size_t *len_ret)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	return hf_read_file(path, ret, len_ret);
}

/* proc(5): the name is in parentheses and may contain any character. */
static struct hf_error *read_stat(struct hf_process_info *info)
{
	HF_AUTO_FREE char *text = NULL;
	struct hf_error *err = read_file(info->pid, "stat", &text, NULL);
	char *open_paren, *close_paren;
	size_t len;
	int nice;

	if (err)
		return err;
	open_paren = strchr(text, '(');
	close_paren = strrchr(text, ')');
	if (!open_paren || !close_paren || close_paren < open_paren)
		return hf_bad_data("/proc/%d/stat has no name",
				   (int)info->pid);
	len = (size_t)(close_paren - open_paren - 1);
	if (len > sizeof(info->name) - 1)
		len = sizeof(info->name) - 1;
	memcpy(info->name, open_paren + 1, len);
	/* 3 state, 4 ppid, 5 pgrp, 6 session, 9 flags, 19 nice */
	if (sscanf(close_paren + 1,
		   " %c %d %d %d %*s %*s %" SCNu64 " %*s %*s %*s %*s %*s %*s "
		   "%*s %*s %*s %d", &info->state, &info->parent, &info->group,
		   &info->session, &info->flags, &nice) != 6)
		return hf_bad_data("/proc/%d/stat has an unknown form",
				   (int)info->pid);
	info->nice = (int8_t)nice;
	return NULL;
}

static void read_ids(struct hf_process_info *info)
{
	HF_AUTO_FREE char *text = NULL;
	struct hf_error *err = read_file(info->pid, "status", &text, NULL);
	const char *line;

	if (err) {
		hf_error_ignore(err);
		return;
	}
	line = strstr(text, "\nUid:");
	if (line)
		info->uid = (uid_t)strtoul(line + 5, NULL, 10);
	line = strstr(text, "\nGid:");
	if (line)
		info->gid = (gid_t)strtoul(line + 5, NULL, 10);
}

static void read_args(struct hf_process_info *info)
{
	HF_AUTO_FREE char *text = NULL;
	size_t len;
	struct hf_error *err = read_file(info->pid, "cmdline", &text, &len);

	if (err) {
		hf_error_ignore(err);
		return;
	}
	while (len && !text[len - 1])
		len--;
	if (len > sizeof(info->args) - 1)
		len = sizeof(info->args) - 1;
	for (size_t i = 0; i < len; i++)
		info->args[i] = text[i] ? text[i] : ' ';
}

static void read_auxv(struct hf_process_info *info)
{
	HF_AUTO_FREE char *bytes = NULL;
	size_t len;
	struct hf_error *err = read_file(info->pid, "auxv", &bytes, &len);

	if (err) {
		hf_error_ignore(err);
		return;
	}
	if (len > sizeof(info->auxv))
		len = sizeof(info->auxv);
	info->auxv_bytes = len / sizeof(Elf64_auxv_t) * sizeof(Elf64_auxv_t);
	memcpy(info->auxv, bytes, info->auxv_bytes);
}

struct hf_error *hf_process_info_read(pid_t pid, struct hf_process_info *ret)
{
	struct hf_process_info info = { .pid = pid };
	struct hf_error *err = read_stat(&info);

	if (err)
		return err;
	read_ids(&info);
	read_args(&info);
	read_auxv(&info);
	*ret = info;
	return NULL;
}

bool hf_process_info_auxv(const struct hf_process_info *info, uint64_t type,
			  uint64_t *ret)
{
	for (size_t i = 0; i + sizeof(Elf64_auxv_t) <= info->auxv_bytes;
	     i += sizeof(Elf64_auxv_t)) {
		Elf64_auxv_t entry;

		memcpy(&entry, info->auxv + i, sizeof(entry));
		if (entry.a_type == AT_NULL)
			return false;
		if (entry.a_type == type) {
			*ret = entry.a_un.a_val;
			return true;
		}
	}
	return false;
}
