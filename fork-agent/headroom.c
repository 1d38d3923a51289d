/* Headroom: how much memory a process may still take before somebody is killed.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/headroom.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "fork-agent/cgroup_path.h"
#include "util/array.h"
#include "util/file.h"

enum {
	TEXT_BYTES = 16 * 1024, /* memory.stat has about 4 KiB */
};

/* "No limit" of v1 is the largest number of pages. */
#define NO_LIMIT (UINT64_C(1) << 62)
#define DEFAULT_KEEP_BYTES (UINT64_C(64) << 20)

struct level {
	char *dir;
	enum hf_cgroup_version version;
};

struct hf_headroom {
	HF_ARRAY(struct level) levels; /* from the process upwards */
	char *meminfo;                 /* its path */
};

/* Names of the same things. */
struct files {
	const char *limits[2];  /* the smallest counts */
	const char *usage;
	const char *inactive, *active; /* pages of files, in memory.stat */
	const char *unclean[2];        /* of them: must be written first */
};

static const struct files files_of[] = {
	[HF_CGROUP_V1] = {
		.limits = { "memory.limit_in_bytes" },
		.usage = "memory.usage_in_bytes",
		.inactive = "total_inactive_file",
		.active = "total_active_file",
		.unclean = { "total_dirty", "total_writeback" },
	},
	[HF_CGROUP_V2] = {
		.limits = { "memory.max", "memory.high" },
		.usage = "memory.current",
		.inactive = "inactive_file",
		.active = "active_file",
		.unclean = { "file_dirty", "file_writeback" },
	},
};

static struct hf_error *add_levels(struct hf_headroom *headroom,
				   enum hf_cgroup_version version,
				   const struct hf_cgroup_path *path)
{
	HF_AUTO_FREE char *dir = strdup(path->dir);

	if (!dir)
		return &hf_enomem;
	for (;;) {
		struct level level = { .version = version };
		struct hf_error *err = hf_array_reserve(&headroom->levels, 1);
		char *slash;

		if (err)
			return err;
		level.dir = strdup(dir);
		if (!level.dir)
			return &hf_enomem;
		headroom->levels.data[headroom->levels.num++] = level;
		slash = strrchr(dir, '/');
		if (strlen(dir) <= path->mount_len || !slash)
			return NULL;
		*slash = '\0';
	}
}

static struct hf_error *find_levels(struct hf_headroom *headroom,
				    const char *cgroup, const char *mountinfo)
{
	for (int version = HF_CGROUP_V1; version <= HF_CGROUP_V2; version++) {
		struct hf_cgroup_path path;
		struct hf_error *err = hf_cgroup_path_find(
			cgroup, mountinfo, (enum hf_cgroup_version)version,
			&path);

		if (!err) {
			err = add_levels(headroom,
					 (enum hf_cgroup_version)version,
					 &path);
			free(path.dir);
		}
		if (err && err->code == HF_ERROR_NO_MEMORY)
			return err;
		hf_error_ignore(err);
	}
	return NULL;
}

struct hf_error *hf_headroom_open(pid_t pid, const char *proc,
				  struct hf_headroom **ret)
{
	HF_AUTO(hf_headroom) struct hf_headroom *headroom =
		calloc(1, sizeof(*headroom));
	HF_AUTO_FREE char *cgroup = NULL, *mountinfo = NULL;
	char path[PATH_MAX];
	struct hf_error *err;

	if (!headroom)
		return &hf_enomem;
	if (!proc)
		proc = "/proc";
	if (asprintf(&headroom->meminfo, "%s/meminfo", proc) < 0) {
		headroom->meminfo = NULL;
		return &hf_enomem;
	}
	snprintf(path, sizeof(path), "%s/%d/cgroup", proc, (int)pid);
	err = hf_read_file(path, &cgroup, NULL);
	if (!err) {
		snprintf(path, sizeof(path), "%s/self/mountinfo", proc);
		err = hf_read_file(path, &mountinfo, NULL);
	}
	/* A kernel without cgroups has no such file. */
	if (!err)
		err = find_levels(headroom, cgroup, mountinfo);
	if (err && err->code == HF_ERROR_NO_MEMORY)
		return err;
	hf_error_ignore(err);
	*ret = HF_TAKE(headroom);
	return NULL;
}

void hf_headroom_close(struct hf_headroom *headroom)
{
	if (!headroom)
		return;
	for (size_t i = 0; i < headroom->levels.num; i++)
		free(headroom->levels.data[i].dir);
	hf_array_deinit(&headroom->levels);
	free(headroom->meminfo);
	free(headroom);
}

/* @return whether there is such a file. */
static bool read_text(const char *dir, const char *name, char text[TEXT_BYTES])
{
	char path[PATH_MAX];
	size_t len = 0;

	snprintf(path, sizeof(path), "%s%s%s", dir, *dir ? "/" : "", name);

	HF_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);

	while (fd >= 0 && len < TEXT_BYTES - 1) {
		ssize_t n = read(fd, text + len, TEXT_BYTES - 1 - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	text[len] = '\0';
	return len > 0;
}

/* The number after "name" and blanks at the start of a line; 0: none. */
static uint64_t field(const char *text, const char *name)
{
	size_t len = strlen(name);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		if (*line == '\n')
			line++;
		if (!strncmp(line, name, len) &&
		    (line[len] == ' ' || line[len] == ':'))
			return strtoull(line + len + 1, NULL, 10);
	}
	return 0;
}

/* "max", or no such file: no limit. */
static uint64_t read_limit(const struct level *level, const char *name)
{
	char text[TEXT_BYTES];

	if (!read_text(level->dir, name, text) ||
	    text[0] < '0' || text[0] > '9')
		return NO_LIMIT;
	return strtoull(text, NULL, 10);
}

/* Clean pages of files that have not been used lately, and half of those that
 * have: the kernel takes them before it kills anybody. */
static uint64_t read_reclaimable(const struct level *level)
{
	const struct files *files = &files_of[level->version];
	char text[TEXT_BYTES];
	uint64_t clean, unclean;

	if (!read_text(level->dir, "memory.stat", text))
		return 0;
	clean = field(text, files->inactive) + field(text, files->active) / 2;
	unclean = field(text, files->unclean[0]) +
		  field(text, files->unclean[1]);
	return clean > unclean ? clean - unclean : 0;
}

static uint64_t keep_of(uint64_t keep_bytes, uint64_t limit)
{
	if (keep_bytes)
		return keep_bytes;
	keep_bytes = limit / 50;
	if (keep_bytes < DEFAULT_KEEP_BYTES)
		keep_bytes = DEFAULT_KEEP_BYTES;
	return keep_bytes < limit / 8 ? keep_bytes : limit / 8;
}

static int64_t difference(uint64_t a, uint64_t b)
{
	return (int64_t)(a < NO_LIMIT ? a : NO_LIMIT) -
	       (int64_t)(b < NO_LIMIT ? b : NO_LIMIT);
}

static void consider(struct hf_headroom_state *state, const char *where,
		     uint64_t limit, uint64_t free_bytes, uint64_t keep)
{
	int64_t spare = difference(free_bytes, keep);

	if (spare >= state->spare_bytes)
		return;
	state->limit_bytes = limit;
	state->free_bytes = free_bytes;
	state->keep_bytes = keep;
	state->spare_bytes = spare;
	snprintf(state->where, sizeof(state->where), "%s", where);
}

static void read_level(const struct level *level, uint64_t keep_bytes,
		       uint64_t need_bytes, struct hf_headroom_state *state)
{
	const struct files *files = &files_of[level->version];
	uint64_t limit = NO_LIMIT, used, free_bytes, keep;
	char text[TEXT_BYTES];

	for (size_t i = 0; i < 2 && files->limits[i]; i++) {
		uint64_t one = read_limit(level, files->limits[i]);

		if (one < limit)
			limit = one;
	}
	if (limit >= NO_LIMIT || !read_text(level->dir, files->usage, text))
		return;
	used = strtoull(text, NULL, 10);
	free_bytes = used < limit ? limit - used : 0;
	keep = keep_of(keep_bytes, limit);
	/* memory.stat is dear on large machines: only when it may matter. */
	if (difference(free_bytes, need_bytes) < difference(2 * keep, 0)) {
		uint64_t reclaimable = read_reclaimable(level);

		used = used > reclaimable ? used - reclaimable : 0;
		free_bytes = used < limit ? limit - used : 0;
	}
	consider(state, level->dir, limit, free_bytes, keep);
}

struct hf_error *hf_headroom_read(const struct hf_headroom *headroom,
				  uint64_t keep_bytes, uint64_t need_bytes,
				  struct hf_headroom_state *ret)
{
	struct hf_headroom_state *state = ret;
	char text[TEXT_BYTES];
	uint64_t total;

	*state = (struct hf_headroom_state){ .spare_bytes = INT64_MAX };
	for (size_t i = 0; i < headroom->levels.num; i++)
		read_level(&headroom->levels.data[i], keep_bytes, need_bytes,
			   state);
	if (!read_text("", headroom->meminfo, text))
		return hf_error_os(errno, "cannot read '%s'",
				   headroom->meminfo);
	total = field(text, "MemTotal") * 1024;
	consider(state, "", total, field(text, "MemAvailable") * 1024,
		 keep_of(keep_bytes, total));
	return NULL;
}
