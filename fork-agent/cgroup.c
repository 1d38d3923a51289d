/* Cgroup: where a process stands in a hierarchy, and how many it may become.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/cgroup.h"

#include <stdio.h>
#include <string.h>

#include "util/file.h"

/* /proc/PID/cgroup (cgroups(7)): a line for each hierarchy,
 *
 *	4:memory:/system.slice/x.service     version 1, with its controllers
 *	0::/system.slice/x.service           version 2
 *
 * /proc/self/mountinfo (proc_pid_mountinfo(5)): a line for each mount,
 *
 *	35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
 *	 0  1   2  3          4             5.. -  type source super-options
 *
 * where field 3 is the part of the hierarchy that is mounted, at 4. In both,
 * space, newline and \ in a name are \040, \012, \134 (mountinfo only). */

/* A word without copying it. */
struct word {
	const char *start;
	size_t len;
};

static bool next_word(const char **at, const char *end, char separator,
		      struct word *ret)
{
	const char *stop;

	while (*at < end && **at == separator && separator == ' ')
		(*at)++;
	if (*at >= end)
		return false;
	stop = memchr(*at, separator, (size_t)(end - *at));
	ret->start = *at;
	ret->len = (size_t)((stop ? stop : end) - *at);
	*at = stop ? stop + 1 : end;
	return true;
}

static bool is(struct word word, const char *text)
{
	return word.len == strlen(text) &&
	       !memcmp(word.start, text, word.len);
}

/* In a list with commas? */
static bool lists(struct word list, const char *text)
{
	const char *at = list.start;
	struct word item;

	while (next_word(&at, list.start + list.len, ',', &item))
		if (is(item, text))
			return true;
	return false;
}

static const char *line_end(const char *line)
{
	return strchrnul(line, '\n');
}

/* The group of the process in the hierarchy of the controller, or of version
 * 2 (controller ""). */
static bool find_group(const char *cgroup, const char *controller,
		       struct word *ret)
{
	for (const char *line = cgroup; *line;) {
		const char *end = line_end(line), *at = line;
		struct word id, controllers;

		if (next_word(&at, end, ':', &id) && at < end &&
		    next_word(&at, end, ':', &controllers) &&
		    (controller[0] ? lists(controllers, controller) :
				     controllers.len == 0 && is(id, "0"))) {
			*ret = (struct word){ at, (size_t)(end - at) };
			return ret->len > 0 && at[0] == '/';
		}
		line = *end ? end + 1 : end;
	}
	return false;
}

/* Append, undoing the escapes of mountinfo. @return false: no room. */
static bool append(char *buf, size_t *len, struct word word, bool escaped)
{
	for (size_t i = 0; i < word.len; i++) {
		char c = word.start[i];

		if (escaped && c == '\\' && i + 3 < word.len &&
		    word.start[i + 1] >= '0' && word.start[i + 1] <= '3') {
			c = (char)((word.start[i + 1] - '0') << 6 |
				   (word.start[i + 2] & 7) << 3 |
				   (word.start[i + 3] & 7));
			i += 3;
		}
		if (!c || *len + 1 >= HF_CGROUP_PATH_BYTES)
			return false;
		buf[(*len)++] = c;
	}
	buf[*len] = '\0';
	return true;
}

/* Does a path have a ".." in it? Then it leads out of what we see. */
static bool leads_out(struct word path)
{
	const char *at = path.start;
	struct word part;

	while (next_word(&at, path.start + path.len, '/', &part))
		if (is(part, ".."))
			return true;
	return false;
}

/* The group below a mount of `root`. */
static bool place_below(struct word mount, struct word root, struct word group,
			struct hf_cgroup *ret)
{
	size_t len = 0;

	if (is(root, "/"))
		root.len = 0;
	if (leads_out(group) || leads_out(root) || group.len < root.len ||
	    memcmp(group.start, root.start, root.len) ||
	    (group.len > root.len && group.start[root.len] != '/'))
		return false;
	group.start += root.len;
	group.len -= root.len;
	while (group.len && group.start[group.len - 1] == '/')
		group.len--;
	if (!append(ret->dir, &len, mount, true))
		return false;
	ret->top_len = len;
	return append(ret->dir, &len, group, false);
}

static bool find_mount(const char *mountinfo, const char *controller,
		       struct word group, struct hf_cgroup *ret)
{
	const char *type_wanted = controller[0] ? "cgroup" : "cgroup2";

	for (const char *line = mountinfo; *line;) {
		const char *end = line_end(line), *at = line;
		struct word fields[6], word = { 0 }, type, source, options;
		size_t num = 0;

		while (num < 6 && next_word(&at, end, ' ', &fields[num]))
			num++;
		while (num == 6 && next_word(&at, end, ' ', &word) &&
		       !is(word, "-"))
			;
		if (num == 6 && is(word, "-") &&
		    next_word(&at, end, ' ', &type) && is(type, type_wanted) &&
		    next_word(&at, end, ' ', &source) &&
		    next_word(&at, end, ' ', &options) &&
		    (!controller[0] || lists(options, controller)) &&
		    place_below(fields[4], fields[3], group, ret)) {
			ret->v2 = !controller[0];
			return true;
		}
		line = *end ? end + 1 : end;
	}
	return false;
}

bool hf_cgroup_find(const char *cgroup, const char *mountinfo,
		    const char *controller, struct hf_cgroup *ret)
{
	struct word group;

	if (find_group(cgroup, controller, &group))
		return find_mount(mountinfo, controller, group, ret);
	return find_group(cgroup, "", &group) &&
	       find_mount(mountinfo, "", group, ret);
}

bool hf_cgroup_of(pid_t pid, const char *controller, struct hf_cgroup *ret)
{
	HF_AUTO_FREE char *cgroup = NULL, *mountinfo = NULL;
	char path[64];
	struct hf_error *err;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	err = hf_read_file(path, &cgroup, NULL);
	if (!err)
		err = hf_read_file("/proc/self/mountinfo", &mountinfo, NULL);
	if (err) {
		hf_error_ignore(err);
		return false;
	}
	return hf_cgroup_find(cgroup, mountinfo, controller, ret);
}

/* ---- limits ---- */

/* A file of a group's directory; NULL if it is not there. */
static char *read_file(const char *dir, size_t dir_len, const char *name)
{
	HF_AUTO_FREE char *path = NULL;
	char *text = NULL;

	if (asprintf(&path, "%.*s/%s", (int)dir_len, dir, name) < 0) {
		path = NULL;
		return NULL;
	}
	hf_error_ignore(hf_read_file(path, &text, NULL));
	return text;
}

/* false: not there, "max", or no number. */
static bool read_number(const char *dir, size_t dir_len, const char *name,
			uint64_t *ret)
{
	HF_AUTO_FREE char *text = read_file(dir, dir_len, name);

	if (!text || text[0] < '0' || text[0] > '9')
		return false;
	*ret = strtoull(text, NULL, 10);
	return true;
}

/* From the group up to the mount point. Both versions have the same files. */
void hf_cgroup_pids(const struct hf_cgroup *cgroup, struct hf_cgroup_room *ret)
{
	size_t len = strlen(cgroup->dir);

	*ret = (struct hf_cgroup_room){ 0 };
	while (true) {
		uint64_t limit, used, left;

		if (read_number(cgroup->dir, len, "pids.max", &limit) &&
		    read_number(cgroup->dir, len, "pids.current", &used)) {
			left = limit > used ? limit - used : 0;
			if (!ret->has_limit || left < ret->left) {
				ret->has_limit = true;
				ret->limit = limit;
				ret->used = used;
				ret->left = left;
				memcpy(ret->dir, cgroup->dir, len);
				ret->dir[len] = '\0';
			}
		}
		if (len <= cgroup->top_len)
			return;
		while (len > cgroup->top_len && cgroup->dir[len - 1] != '/')
			len--;
		if (len > cgroup->top_len)
			len--; /* the slash */
	}
}
