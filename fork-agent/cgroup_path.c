/* Cgroup path: in which folder the memory cgroup of a process is.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/cgroup_path.h"

#include <string.h>

/* cgroups(7), proc(5):
 *
 *	/proc/PID/cgroup       4:memory,other:/path     v1
 *	                       0::/path                 v2
 *	/proc/self/mountinfo   35 31 0:32 /root /point opts [tags] - type source
 *	                       superopts
 *
 * /path and /root are relative to the root of the reader's cgroup namespace;
 * a container without one sees the host's paths, and a mount whose /root is
 * its own cgroup. Blanks and backslashes in a path are \ooo in octal. */

/* A text that ends at `end`, not with a NUL. */
struct slice {
	const char *start, *end;
};

static size_t length(struct slice slice)
{
	return (size_t)(slice.end - slice.start);
}

static bool is_text(struct slice slice, const char *text)
{
	return length(slice) == strlen(text) &&
	       !memcmp(slice.start, text, length(slice));
}

/* Cut off *rest what stands before `separator` (or all of it). */
static struct slice next_field(struct slice *rest, char separator)
{
	struct slice field = *rest;
	const char *end = length(*rest) ?
			  memchr(rest->start, separator, length(*rest)) : NULL;

	field.end = end ? end : rest->end;
	rest->start = end ? end + 1 : rest->end;
	return field;
}

/* Is `word` one of a list with commas? */
static bool has_word(struct slice list, const char *word)
{
	while (length(list))
		if (is_text(next_field(&list, ','), word))
			return true;
	return false;
}

static bool find_in_list(const char *text, enum hf_cgroup_version version,
			 struct slice *path_ret)
{
	struct slice rest = { text, text + strlen(text) };

	while (length(rest)) {
		struct slice line = next_field(&rest, '\n');
		struct slice number = next_field(&line, ':');
		struct slice controllers = next_field(&line, ':');

		if (version == HF_CGROUP_V1 ? !has_word(controllers, "memory") :
		    (length(controllers) || !is_text(number, "0")))
			continue;
		if (!length(line) || line.start[0] != '/')
			continue;
		*path_ret = line;
		return true;
	}
	return false;
}

static bool is_octal(struct slice slice)
{
	return length(slice) >= 4 && slice.start[0] == '\\' &&
	       slice.start[1] >= '0' && slice.start[1] <= '3' &&
	       slice.start[2] >= '0' && slice.start[2] <= '7' &&
	       slice.start[3] >= '0' && slice.start[3] <= '7';
}

/* A field of mountinfo as a text of its own, or NULL. */
static char *unescape(struct slice field)
{
	char *text = malloc(length(field) + 1);
	size_t len = 0;

	while (text && length(field)) {
		if (is_octal(field)) {
			text[len++] = (char)((field.start[1] - '0') * 64 +
					     (field.start[2] - '0') * 8 +
					     (field.start[3] - '0'));
			field.start += 4;
		} else {
			text[len++] = *field.start++;
		}
	}
	if (text)
		text[len] = '\0';
	return text;
}

struct mount {
	struct slice root, point;
};

static bool find_mount(const char *text, enum hf_cgroup_version version,
		       struct mount *ret)
{
	const char *type = version == HF_CGROUP_V1 ? "cgroup" : "cgroup2";
	struct slice rest = { text, text + strlen(text) };

	while (length(rest)) {
		struct slice line = next_field(&rest, '\n');
		struct mount mount;

		for (int i = 0; i < 3; i++)
			next_field(&line, ' ');
		mount.root = next_field(&line, ' ');
		mount.point = next_field(&line, ' ');
		while (length(line) && !is_text(next_field(&line, ' '), "-"))
			;
		if (!is_text(next_field(&line, ' '), type))
			continue;
		next_field(&line, ' ');
		if (version == HF_CGROUP_V1 && !has_word(line, "memory"))
			continue;
		if (!length(mount.point) || mount.point.start[0] != '/')
			continue;
		*ret = mount;
		return true;
	}
	return false;
}

/* What of `path` lies below `root`; "" if it does not. */
static const char *below(const char *path, const char *root)
{
	size_t len = strlen(root);

	if (len && root[len - 1] == '/')
		len--;
	if (strncmp(path, root, len) || (path[len] && path[len] != '/'))
		return "";
	/* Neither may lead out of what is mounted. */
	for (const char *at = path; (at = strstr(at, "/..")); at += 3)
		if (!at[3] || at[3] == '/')
			return "";
	return !strcmp(path + len, "/") ? "" : path + len;
}

struct hf_error *hf_cgroup_path_find(const char *cgroup, const char *mountinfo,
				     enum hf_cgroup_version version,
				     struct hf_cgroup_path *ret)
{
	struct slice path_field;
	struct mount mount;

	if (!find_in_list(cgroup, version, &path_field) ||
	    !find_mount(mountinfo, version, &mount))
		return &hf_not_found;

	HF_AUTO_FREE char *path = strndup(path_field.start,
					  length(path_field));
	HF_AUTO_FREE char *root = unescape(mount.root);
	HF_AUTO_FREE char *point = unescape(mount.point);

	if (!path || !root || !point)
		return &hf_enomem;

	const char *tail = below(path, root);
	size_t mount_len = strlen(point), tail_len = strlen(tail);

	ret->dir = malloc(mount_len + tail_len + 1);
	if (!ret->dir)
		return &hf_enomem;
	memcpy(ret->dir, point, mount_len);
	memcpy(ret->dir + mount_len, tail, tail_len + 1);
	ret->mount_len = mount_len;
	return NULL;
}
