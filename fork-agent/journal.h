/* Journal: which children of which targets are ours, should we be killed.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_JOURNAL_H
#define HF_FORK_AGENT_JOURNAL_H

#include <stdbool.h>
#include <sys/types.h>

#include "util/error.h"

/* One small file for each capture, from before its pause until its child is
 * reaped. Its tool holds a lock on it (flock): whoever gets the lock knows that
 * the tool is dead. The folder belongs to the user and to nobody else; it is
 * the first of these that is so, or can be made:
 *
 *	what the caller names
 *	$XDG_RUNTIME_DIR/heapfork
 *	/run/heapfork            for root
 *	/tmp/heapfork-UID
 *
 * All of them are looked through for records of dead tools. The text:
 *
 *	heapfork-journal 1
 *	boot 01234567-89ab-cdef-0123-456789abcdef
 *	pidns 4026531836
 *	target PID START
 *	tool PID
 *	since TICKS
 *	forking TICKS TICKS                  (zeros: not yet)
 *	child PID PID-IN-ITS-NAMESPACE       (once it is there)
 *
 * START and TICKS are clock ticks after boot, as in /proc/PID/stat. A child was
 * started between the two of `forking`. */

enum { HF_JOURNAL_BOOT_BYTES = 37 };

struct hf_journal_record {
	char boot[HF_JOURNAL_BOOT_BYTES]; /* id of the boot */
	uint64_t pid_namespace;   /* inode; pids are of this namespace */
	pid_t target;
	uint64_t target_start;
	pid_t tool;
	uint64_t since;           /* the child was started later, */
	uint64_t until;           /* and not after that; 0: there is none */
	pid_t child;              /* 0: not noted */
	pid_t child_in_target;    /* as the target sees it */
};

/** A record of our own. All zero: none. */
struct hf_journal {
	int dir_fd, fd;
	bool is_open;
	off_t forking_at;
	char name[64];
};

/** Write a record about a capture of `target` that is about to begin. An error
 * says why there is none; the capture can do without. */
struct hf_error *hf_journal_open(struct hf_journal *journal, const char *dir,
				 pid_t target, uint64_t target_start)
	HF_MUST_CHECK;

/** From now on there may be a child. Called before the pause, which is to have
 * no file in it.
 * @param limit_ms until the target will have been told to fork, at most. */
void hf_journal_note_forking(struct hf_journal *journal, uint64_t limit_ms);

/** Add the child. */
void hf_journal_note_child(struct hf_journal *journal, pid_t child,
			   pid_t child_in_target);

/** Nothing is left behind. */
void hf_journal_remove(struct hf_journal *journal);

/** Leave the record to a later run, if there is one. */
void hf_journal_deinit(struct hf_journal *journal);

enum hf_journal_verdict { HF_JOURNAL_KEEP, HF_JOURNAL_REMOVE };

/**
 * Call fn for each record of this boot and this pid namespace. Those of
 * another boot, and what is no record, are removed if nobody holds them.
 *
 * @param dir as options.journal_dir; NULL: all default folders.
 * @param fn is_dead: we hold the lock as long as it runs, and its answer
 * counts; else the tool lives.
 */
void hf_journal_for_each(const char *dir,
			 enum hf_journal_verdict (*fn)(
				 void *arg,
				 const struct hf_journal_record *record,
				 bool is_dead),
			 void *arg);

/** How many seconds ago a record was begun. */
uint64_t hf_journal_age_s(const struct hf_journal_record *record);

/** Read the text of a record. @return false: it is none. */
bool hf_journal_parse(const char *text, struct hf_journal_record *ret);

#endif
