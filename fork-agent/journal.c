/* Journal: which children of which targets are ours, should we be killed.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/journal.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "util/file.h"
#include "util/progress.h"

enum {
	NUM_DIRS = 3,
	PATH_BYTES = 512,
	TEXT_BYTES = 1024,
	/* A record that was begun and never finished. */
	UNFINISHED_S = 60,
	/* Two CPUs may not agree on which tick it is. */
	CLOCK_TOLERANCE_TICKS = 2,
	/* A thread that was told to fork may have to wait for the CPU, and the
	 * copy of a giant takes its time. */
	FORK_LIMIT_MS = 120 * 1000,
};

/* Always of the same length, so that it can be overwritten. */
#define FORKING "forking %020" PRIu64 " %020" PRIu64 "\n"

#define RECORD_PREFIX "record-"
#define UNFINISHED_PREFIX "new-"

/* ---- folders ---- */

/* The i-th default folder; false: there is none for this user. */
static bool default_dir(int i, char path[PATH_BYTES])
{
	const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
	int len = -1;

	if (i == 0 && runtime && *runtime == '/')
		len = snprintf(path, PATH_BYTES, "%s/heapfork", runtime);
	else if (i == 1 && geteuid() == 0)
		len = snprintf(path, PATH_BYTES, "/run/heapfork");
	else if (i == 2)
		len = snprintf(path, PATH_BYTES, "/tmp/heapfork-%u",
			       geteuid());
	return len > 0 && len < PATH_BYTES;
}

/* Only a folder that nobody else can have put anything into. */
static struct hf_error *open_dir(const char *path, bool create, int *fd_ret)
{
	struct stat st;

	if (create && mkdir(path, 0700) < 0 && errno != EEXIST)
		return hf_error_os(errno, "cannot make the folder '%s'", path);

	HF_AUTO_FD int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
					       O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0)
		return hf_error_os(errno, "cannot open the folder '%s'", path);
	if (st.st_uid != geteuid() || st.st_mode & 077)
		return hf_error_create(HF_ERROR_PERMISSION,
				       "the folder '%s' is not ours alone",
				       path);
	*fd_ret = HF_TAKE_FD(fd);
	return NULL;
}

static struct hf_error *open_for_writing(const char *dir, int *fd_ret)
{
	struct hf_error *err = NULL;
	char path[PATH_BYTES];

	if (dir)
		return open_dir(dir, true, fd_ret);
	for (int i = 0; i < NUM_DIRS; i++) {
		if (!default_dir(i, path))
			continue;
		hf_error_destroy(err);
		err = open_dir(path, true, fd_ret);
		if (!err)
			return NULL;
	}
	return err;
}

/* ---- the text ---- */

static bool read_boot_id(char boot[HF_JOURNAL_BOOT_BYTES])
{
	HF_AUTO_FREE char *text = NULL;
	struct hf_error *err = hf_read_file("/proc/sys/kernel/random/boot_id",
					    &text, NULL);

	if (err) {
		hf_error_ignore(err);
		return false;
	}
	return sscanf(text, "%36s", boot) == 1;
}

static uint64_t pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

/* In the unit of /proc/PID/stat. */
static uint64_t now_ticks(void)
{
	uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK);
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * ticks +
	       (uint64_t)now.tv_nsec * ticks / 1000000000u;
}

uint64_t hf_journal_age_s(const struct hf_journal_record *record)
{
	uint64_t now = now_ticks();

	return now > record->since ? (now - record->since) /
					     (uint64_t)sysconf(_SC_CLK_TCK) :
				     0;
}

bool hf_journal_parse(const char *text, struct hf_journal_record *ret)
{
	struct hf_journal_record record = { 0 };
	uint64_t since, until;
	int end = 0, num = 0;

	if (sscanf(text,
		   "heapfork-journal 1 boot %36s pidns %" SCNu64
		   " target %d %" SCNu64 " tool %d since %" SCNu64 "%n",
		   record.boot, &record.pid_namespace, &record.target,
		   &record.target_start, &record.tool, &record.since,
		   &end) != 6 ||
	    end == 0 || record.target <= 0 || record.tool <= 0)
		return false;
	record.until = UINT64_MAX; /* of an older version */
	if (sscanf(text + end, " forking %" SCNu64 " %" SCNu64 "%n", &since,
		   &until, &num) == 2) {
		record.until = until;
		if (since > record.since)
			record.since = since;
		end += num;
	}
	/* Absent, or cut off: the child is looked for. */
	if (sscanf(text + end, " child %d %d\n", &record.child,
		   &record.child_in_target) != 2 ||
	    record.child <= 0 || record.child_in_target <= 0) {
		record.child = 0;
		record.child_in_target = 0;
	}
	*ret = record;
	return true;
}

/* ---- our own record ---- */

struct hf_error *hf_journal_open(struct hf_journal *journal, const char *dir,
				 pid_t target, uint64_t target_start)
{
	char boot[HF_JOURNAL_BOOT_BYTES], text[TEXT_BYTES], begun[80];
	HF_AUTO_FD int dir_fd = -1;
	HF_AUTO_FD int fd = -1;
	struct hf_error *err;
	int len;

	memset(journal, 0, sizeof(*journal));
	err = open_for_writing(dir, &dir_fd);
	if (err)
		return err;
	if (!read_boot_id(boot))
		return hf_error_create(HF_ERROR_UNSUPPORTED,
				       "this system tells no boot id");
	snprintf(journal->name, sizeof(journal->name),
		 RECORD_PREFIX "%d-%d-%" PRIx64, target,
		 (pid_t)syscall(SYS_gettid), hf_now_ns());
	snprintf(begun, sizeof(begun), UNFINISHED_PREFIX "%s", journal->name);
	fd = openat(dir_fd, begun, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW |
					   O_CLOEXEC, 0600);
	if (fd < 0)
		return hf_error_os(errno, "cannot create '%s'", begun);
	/* It gets its name when it is locked and complete. */
	len = snprintf(text, sizeof(text),
		       "heapfork-journal 1\nboot %s\npidns %" PRIu64
		       "\ntarget %d %" PRIu64 "\ntool %d\nsince %" PRIu64 "\n",
		       boot, pid_namespace(), target, target_start, getpid(),
		       now_ticks() - CLOCK_TOLERANCE_TICKS);
	journal->forking_at = len;
	len += snprintf(text + len, sizeof(text) - (size_t)len, FORKING,
			UINT64_C(0), UINT64_C(0));
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		err = hf_error_os(errno, "cannot lock '%s'", begun);
	else
		err = hf_write_all(fd, begun, text, (size_t)len);
	if (!err && renameat(dir_fd, begun, dir_fd, journal->name) < 0)
		err = hf_error_os(errno, "cannot rename '%s'", begun);
	if (err) {
		unlinkat(dir_fd, begun, 0);
		return err;
	}
	journal->dir_fd = HF_TAKE_FD(dir_fd);
	journal->fd = HF_TAKE_FD(fd);
	journal->is_open = true;
	return NULL;
}

void hf_journal_note_forking(struct hf_journal *journal, uint64_t limit_ms)
{
	uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK), now = now_ticks();
	uint64_t until = now + (limit_ms + FORK_LIMIT_MS) * ticks / 1000;
	char text[64];
	int len;

	if (!journal->is_open)
		return;
	len = snprintf(text, sizeof(text), FORKING,
		       now - CLOCK_TOLERANCE_TICKS, until);
	/* As good as never, on a file that has these bytes already. Then the
	 * record says that there is no child: better none than that. */
	if (pwrite(journal->fd, text, (size_t)len, journal->forking_at) != len)
		hf_journal_remove(journal);
}

void hf_journal_note_child(struct hf_journal *journal, pid_t child,
			   pid_t child_in_target)
{
	char text[64];
	int len;

	if (!journal->is_open)
		return;
	len = snprintf(text, sizeof(text), "child %d %d\n", child,
		       child_in_target);
	/* Without it the child would be found all the same. */
	hf_error_ignore(hf_write_all(journal->fd, journal->name, text,
				     (size_t)len));
}

void hf_journal_remove(struct hf_journal *journal)
{
	if (journal->is_open)
		unlinkat(journal->dir_fd, journal->name, 0);
	hf_journal_deinit(journal);
}

void hf_journal_deinit(struct hf_journal *journal)
{
	if (!journal->is_open)
		return;
	close(journal->fd);
	close(journal->dir_fd);
	journal->is_open = false;
}

/* ---- those of others ---- */

struct walk {
	enum hf_journal_verdict (*fn)(void *arg,
				      const struct hf_journal_record *record,
				      bool is_dead);
	void *arg;
	char boot[HF_JOURNAL_BOOT_BYTES];
	uint64_t pid_namespace;
};

static void read_record(const struct walk *walk, int dir_fd, const char *name)
{
	HF_AUTO_FD int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW |
							 O_NONBLOCK |
							 O_CLOEXEC);
	struct hf_journal_record record;
	bool is_dead, is_record, is_ours;
	char text[TEXT_BYTES];
	struct stat before, after;
	ssize_t len;

	if (fd < 0 || fstat(fd, &before) < 0 || !S_ISREG(before.st_mode))
		return;
	is_dead = flock(fd, LOCK_EX | LOCK_NB) == 0;
	/* Its owner, or another reader, may have removed it meanwhile. */
	if (fstatat(dir_fd, name, &after, AT_SYMLINK_NOFOLLOW) < 0 ||
	    after.st_ino != before.st_ino || after.st_dev != before.st_dev)
		return;
	len = pread(fd, text, sizeof(text) - 1, 0);
	if (len < 0)
		return;
	text[len] = '\0';
	is_record = hf_journal_parse(text, &record);
	is_ours = is_record && !strcmp(record.boot, walk->boot);
	if (is_ours && record.pid_namespace != walk->pid_namespace)
		return;
	if (is_ours &&
	    walk->fn(walk->arg, &record, is_dead) == HF_JOURNAL_KEEP)
		return;
	if (is_dead)
		unlinkat(dir_fd, name, 0);
}

static void remove_unfinished(int dir_fd, const char *name)
{
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    time(NULL) - st.st_mtime > UNFINISHED_S)
		unlinkat(dir_fd, name, 0);
}

/* @param dir_fd taken over. */
static void walk_dir(const struct walk *walk, int dir_fd)
{
	DIR *dir = fdopendir(dir_fd);
	struct dirent *entry;

	if (!dir) {
		close(dir_fd);
		return;
	}
	while ((entry = readdir(dir))) {
		const char *name = entry->d_name;

		if (!strncmp(name, RECORD_PREFIX, strlen(RECORD_PREFIX)))
			read_record(walk, dirfd(dir), name);
		else if (!strncmp(name, UNFINISHED_PREFIX,
				  strlen(UNFINISHED_PREFIX)))
			remove_unfinished(dirfd(dir), name);
	}
	closedir(dir);
}

void hf_journal_for_each(const char *dir,
			 enum hf_journal_verdict (*fn)(
				 void *arg,
				 const struct hf_journal_record *record,
				 bool is_dead),
			 void *arg)
{
	struct walk walk = {
		.fn = fn,
		.arg = arg,
		.pid_namespace = pid_namespace(),
	};
	char path[PATH_BYTES];

	if (!read_boot_id(walk.boot))
		return;
	for (int i = 0; i < (dir ? 1 : NUM_DIRS); i++) {
		struct hf_error *err;
		int dir_fd;

		if (!dir && !default_dir(i, path))
			continue;
		err = open_dir(dir ? dir : path, false, &dir_fd);
		if (err)
			hf_error_ignore(err);
		else
			walk_dir(&walk, dir_fd);
	}
}
