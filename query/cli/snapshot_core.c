/* Snapshot core: the core that is written beside a snapshot.
 * SPDX-License-Identifier: MIT */
#include "query/cli/snapshot_core.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "query/cli/capture_text.h"
#include "util/file.h"

/* Resident bytes of a process, of /proc/PID/statm; 0: not known. */
static uint64_t resident_bytes(pid_t pid)
{
	HF_AUTO_FREE char *text = NULL;
	uint64_t size, resident;
	struct hf_error *err;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/statm", pid);
	err = hf_read_file(path, &text, NULL);
	if (err || sscanf(text, "%" SCNu64 " %" SCNu64, &size, &resident) != 2)
		resident = 0;
	hf_error_ignore(err);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* All that is resident will hardly be written: files are not, zeros are not.
 * So this refuses only where half of it has no room, and the writer looks
 * again and again at what is left. */
static struct hf_error *check_room(const struct hf_core_options *options,
				   const char *path, pid_t pid)
{
	uint64_t need = resident_bytes(pid) / (options->zstd_level ? 8 : 2);
	char need_text[40], free_text[40];
	struct statvfs fs;
	uint64_t room;

	if (statvfs(path, &fs) < 0)
		return NULL;
	room = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (room >= need && room - need >= options->keep_free_bytes)
		return NULL;
	hf_format_bytes((int64_t)need, need_text, sizeof(need_text));
	hf_format_bytes((int64_t)room, free_text, sizeof(free_text));
	return hf_error_fix(
		hf_error_cause(hf_error_create(HF_ERROR_NO_SPACE,
					       "no room for the core '%s'",
					       options->path),
			       "it will take %s or more, and %s are free there",
			       need_text, free_text),
		"write it elsewhere, compress it (--compress zstd), or lower "
		"--keep-free");
}

static struct hf_error *check_folder(const struct hf_core_options *options,
				     pid_t pid)
{
	const char *slash = strrchr(options->path, '/');
	HF_AUTO_FREE char *folder =
		slash ? strndup(options->path,
				slash == options->path ?
					1 : (size_t)(slash - options->path)) :
			strdup(".");

	return folder ? check_room(options, folder, pid) : &hf_enomem;
}

struct hf_error *hf_snapshot_core_begin(struct hf_snapshot_core *core,
					const struct hf_core_options *options,
					pid_t pid, bool force)
{
	struct hf_error *err;

	if (!options->path)
		return NULL;
	core->options = options;
	err = hf_output_begin(options->path, force, &core->output);
	if (!err)
		err = check_folder(options, pid);
	/* That there is no such process is for the capture to say. */
	if (!err)
		hf_error_ignore(hf_process_info_read(pid, &core->process));
	return err;
}

struct hf_error *hf_snapshot_core_write(struct hf_snapshot_core *core,
					const struct hf_image *image,
					const struct hf_snapshot_row *row,
					const struct hf_progress *progress)
{
	HF_AUTO_FREE char *capture = NULL;
	HF_AUTO_FD int fd = -1;
	struct hf_error *err;
	const char *path;

	if (!core->output)
		return NULL;
	path = hf_output_path(core->output);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return hf_error_os(errno, "cannot create '%s'", path);
	err = hf_capture_text_write(row, &capture);
	if (!err)
		err = hf_core_write(image, fd, path,
				    &(struct hf_core_write_options){
		.filter = core->options->filter,
		.with_dontdump = core->options->with_dontdump,
		.zstd_level = core->options->zstd_level,
		.max_bytes = core->options->max_bytes,
		.keep_free_bytes = core->options->keep_free_bytes,
		.process = &core->process,
		.capture = capture,
		.progress = progress,
	}, &core->summary);
	return err ? hf_output_blame(core->output, err) : NULL;
}

struct hf_error *hf_snapshot_core_commit(struct hf_snapshot_core *core)
{
	struct hf_error *err;

	if (!core->output)
		return NULL;
	err = hf_output_commit(core->output);
	return err ? hf_output_blame(core->output, err) : NULL;
}

bool hf_snapshot_core_report(const struct hf_snapshot_core *core,
			     const struct hf_cli *cli)
{
	const struct hf_core_summary *summary = &core->summary;
	char memory[40], disk[40], missing[40];

	if (!core->output)
		return false;
	hf_format_bytes((int64_t)summary->memory_bytes, memory,
			sizeof(memory));
	hf_format_bytes((int64_t)summary->disk_bytes, disk, sizeof(disk));
	hf_cli_note(cli, "%s: a core of %s memory, %s on disk",
		    core->options->path, memory, disk);
	if (!summary->missing_bytes)
		return false;
	hf_format_bytes((int64_t)summary->missing_bytes, missing,
			sizeof(missing));
	hf_cli_warn(cli, hf_error_cause(
		hf_error_create(HF_ERROR_PARTIAL, "the core is partial"),
		"%s of its memory could not be read", missing));
	return true;
}

void hf_snapshot_core_deinit(struct hf_snapshot_core *core)
{
	hf_output_destroy(core->output);
	memset(core, 0, sizeof(*core));
}
