/* Reap what captures have left behind whose tool was killed.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/reap_left.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "fork-agent/journal.h"
#include "fork-agent/permission.h"
#include "fork-agent/preflight.h"
#include "fork-agent/proc_task.h"
#include "fork-agent/reap.h"
#include "util/array.h"

enum {
	FORKED_NO_EXEC = 0x40,  /* PF_FORKNOEXEC (linux/sched.h, 6.12) */
	/* A child whose tool has just died: its memory is being freed. */
	DYING_LIMIT_MS = 2000,
	DYING_PAUSE_US = 5 * 1000,
	/* A joined thread is still detaching in the kernel for a moment. */
	EXIT_LIMIT_MS = 500,
	/* A thread that was about to fork when its tool was killed does so
	 * when it gets the CPU, which may be after we have looked. */
	MAY_FORK_YET_S = 60,
};

struct left_child {
	pid_t pid;
	bool is_zombie;
};

struct search {
	pid_t target;
	uint64_t since;     /* clock ticks after boot */
	uint64_t until;
	pid_t child;        /* this one only; 0: any */
	const struct job *job;
	bool is_recorded;   /* a capture has begun then, and did not end */
	HF_ARRAY(struct left_child) found;
};

struct looked {
	pid_t target;
	uint64_t since, until;
};

struct job {
	const struct hf_reap_left_options *options;
	struct hf_reap_left_result *result;
	struct hf_error *err;     /* why the last zombie is left */
	HF_ARRAY(pid_t) in_use;   /* children of captures that are going on */
	HF_ARRAY(struct hf_journal_record) dead;
	HF_ARRAY(struct looked) looked; /* targets, for any child */
};

/* ---- which children ---- */

static bool is_in_use(const struct job *job, pid_t child)
{
	for (size_t i = 0; job && i < job->in_use.num; i++)
		if (job->in_use.data[i] == child)
			return true;
	return false;
}

/* Ours end by exit(0), die with their tool, or, where there was no way home,
 * by a fault. One that ended otherwise is the target's own, which may want to
 * know how. */
static bool is_our_end(const struct search *search, int exit_code)
{
	return exit_code == 0 || exit_code == SIGKILL ||
	       (search->is_recorded && WIFSIGNALED(exit_code) &&
		WTERMSIG(exit_code) == SIGSEGV);
}

static struct hf_error *consider(struct search *search, pid_t pid)
{
	struct hf_proc_stat stat;
	struct hf_error *err = hf_proc_stat_read(pid, 0, &stat);
	struct left_child child = { .pid = pid };

	if (err) {
		hf_error_ignore(err);
		return NULL;
	}
	if (stat.parent != search->target || stat.exit_signal != 0 ||
	    !(stat.flags & FORKED_NO_EXEC) ||
	    stat.start_time < search->since ||
	    stat.start_time > search->until ||
	    (search->child && pid != search->child) ||
	    is_in_use(search->job, pid))
		return NULL;
	child.is_zombie = stat.state == 'Z';
	if (child.is_zombie && !is_our_end(search, stat.exit_code))
		return NULL;
	return hf_array_append(&search->found, child);
}

static struct hf_error *find_children(struct search *search)
{
	struct hf_error *err = NULL;
	struct dirent *entry;
	DIR *dir;

	search->found.num = 0;
	if (search->child)
		return consider(search, search->child);
	dir = opendir("/proc");
	if (!dir)
		return hf_error_os(errno, "cannot list '/proc'");
	while (!err && (entry = readdir(dir))) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (pid > 0)
			err = consider(search, pid);
	}
	closedir(dir);
	return err;
}

static bool any_lives(const struct search *search)
{
	for (size_t i = 0; i < search->found.num; i++)
		if (!search->found.data[i].is_zombie)
			return true;
	return false;
}

struct hf_error *hf_reap_left_count(pid_t pid, uint32_t *ret)
{
	struct search search = { .target = pid, .until = UINT64_MAX };
	struct hf_error *err = find_children(&search);

	*ret = 0;
	for (size_t i = 0; i < search.found.num; i++)
		*ret += search.found.data[i].is_zombie;
	hf_array_deinit(&search.found);
	return err;
}

/* ---- reap ---- */

static void keep_error(struct job *job, struct hf_error *err)
{
	hf_error_destroy(job->err);
	job->err = err;
}

/* Is there no time left? */
static bool is_over(const struct job *job)
{
	return hf_reap_limit_is_over(&job->options->limit);
}

static void reap_one(struct job *job, const struct hf_target *target,
		     struct hf_child *child)
{
	struct hf_wait_clock clock;
	struct hf_way way = { 0 };
	uint64_t pause_ns = 0;
	struct hf_error *err;

	err = hf_proc_pid_in(child->pid, target->pid, &child->pid_in_target);
	if (!err)
		err = hf_wait_clock_init(&clock, target->is_own_child ?
							 target->pid : 0,
					 NULL);
	if (!err) {
		hf_wait_clock_start(&clock);
		err = hf_reap_child(target->pid, child, &way, &clock,
				    &job->options->limit, &pause_ns);
		hf_wait_clock_deinit(&clock);
		hf_way_deinit(&way);
	}
	job->result->pause_ns += pause_ns;
	if (err && err->code == HF_ERROR_PERMISSION)
		err = hf_permission_explain(err, target->pid);
	if (job->options->tell)
		job->options->tell(job->options->arg, target->pid, child->pid,
				   err);
	if (!err) {
		job->result->num_reaped++;
		return;
	}
	job->result->num_left++;
	keep_error(job, err);
}

/* @return is nothing of what was searched there any more? */
static bool reap_found(struct job *job, const struct hf_target *target,
		       struct search *search)
{
	uint32_t num_left = job->result->num_left;
	struct hf_error *err = find_children(search);

	for (int ms = 0; !err && any_lives(search) && !is_over(job) &&
			 ms < DYING_LIMIT_MS;
	     ms += DYING_PAUSE_US / 1000) {
		usleep(DYING_PAUSE_US);
		err = find_children(search);
	}
	if (err) {
		keep_error(job, err);
		return false;
	}
	for (size_t i = 0; i < search->found.num; i++) {
		struct hf_child child = { .pid = search->found.data[i].pid };

		if (search->found.data[i].is_zombie && !is_over(job))
			reap_one(job, target, &child);
	}
	return num_left == job->result->num_left && !any_lives(search) &&
	       !is_over(job);
}

/* The time of a record, together with those of others that overlap it: one look
 * is enough for all of them. */
static struct looked time_of(const struct job *job,
			     const struct hf_journal_record *record)
{
	struct looked time = { record->target, record->since, record->until };
	bool grows;

	do {
		grows = false;
		for (size_t i = 0; i < job->dead.num; i++) {
			const struct hf_journal_record *other =
				&job->dead.data[i];

			if (other->target != time.target ||
			    other->target_start != record->target_start ||
			    other->child || other->since > time.until ||
			    other->until < time.since)
				continue;
			grows |= other->since < time.since ||
				 other->until > time.until;
			if (other->since < time.since)
				time.since = other->since;
			if (other->until > time.until)
				time.until = other->until;
		}
	} while (grows);
	return time;
}

static bool has_looked(struct job *job, const struct hf_journal_record *record,
		       struct looked looked)
{
	for (size_t i = 0; i < job->looked.num; i++)
		if (job->looked.data[i].target == looked.target &&
		    job->looked.data[i].since <= looked.since &&
		    job->looked.data[i].until >= looked.until)
			return true;
	if (!record->child)
		hf_error_ignore(hf_array_append(&job->looked, looked));
	return false;
}

static enum hf_journal_verdict
reap_record(struct job *job, const struct hf_journal_record *record)
{
	struct looked time = record->child ?
		(struct looked){ record->target, record->since,
				 record->until } : time_of(job, record);
	struct search search = {
		.target = record->target,
		.since = time.since,
		.until = time.until,
		.child = record->child,
		.is_recorded = true,
		.job = job,
	};
	struct hf_target target;
	struct hf_error *err;
	bool is_done, is_final;

	job->result->num_records++;
	err = hf_preflight_check(record->target, &target);
	if (err && err->code != HF_ERROR_TARGET_GONE) {
		keep_error(job, err);
		return HF_JOURNAL_KEEP;
	}
	if (err || target.start_time != record->target_start) {
		hf_error_ignore(err);
		return HF_JOURNAL_REMOVE;
	}
	if (!record->until)
		return HF_JOURNAL_REMOVE; /* not a thread was stopped yet */
	is_final = record->child ||
		   hf_journal_age_s(record) >= MAY_FORK_YET_S;
	if (has_looked(job, record, time))
		return is_final && job->result->num_left == 0 ?
			       HF_JOURNAL_REMOVE : HF_JOURNAL_KEEP;
	is_done = reap_found(job, &target, &search);
	is_final |= search.found.num > 0;
	hf_array_deinit(&search.found);
	job->result->num_young += is_done && !is_final;
	return is_done && is_final ? HF_JOURNAL_REMOVE : HF_JOURNAL_KEEP;
}

static bool is_gone(const struct hf_journal_record *record)
{
	struct hf_proc_stat stat;
	struct hf_error *err = hf_proc_stat_read(record->target, 0, &stat);
	bool gone = err && err->code == HF_ERROR_TARGET_GONE;

	hf_error_ignore(err);
	return gone || (!err && stat.start_time != record->target_start);
}

/* The first look: whose tool lives, and is there anything to do? */
static enum hf_journal_verdict look(void *arg,
				    const struct hf_journal_record *record,
				    bool is_dead)
{
	struct job *job = arg;
	struct hf_error *err = NULL;

	if (!is_dead && record->child)
		err = hf_array_append(&job->in_use, record->child);
	if (is_dead && (!job->options->pid ||
			job->options->pid == record->target))
		err = hf_array_append(&job->dead, *record);
	if (err)
		keep_error(job, err);
	/* Others that live are left in peace. */
	return is_dead && job->options->pid &&
			       job->options->pid != record->target &&
			       is_gone(record) ?
		       HF_JOURNAL_REMOVE : HF_JOURNAL_KEEP;
}

static enum hf_journal_verdict reap(void *arg,
				    const struct hf_journal_record *record,
				    bool is_dead)
{
	struct job *job = arg;

	if (!is_dead || (job->options->pid &&
			 job->options->pid != record->target))
		return HF_JOURNAL_KEEP;
	return reap_record(job, record);
}

static void *work(void *arg)
{
	struct job *job = arg;

	hf_journal_for_each(job->options->journal_dir, reap, job);
	if (job->options->unrecorded) {
		struct search search = {
			.target = job->options->pid,
			.until = UINT64_MAX,
			.job = job,
		};
		struct hf_target target;
		struct hf_error *err =
			hf_preflight_check(job->options->pid, &target);

		if (err)
			keep_error(job, err);
		else
			reap_found(job, &target, &search);
		hf_array_deinit(&search.found);
	}
	return (void *)(uintptr_t)syscall(SYS_gettid);
}

/* A thread that did not stop in time stays attached to the one that asked it
 * to: so that has to be one of our own, which ends. */
static struct hf_error *work_in_thread(struct job *job)
{
	const struct timespec ms = { .tv_nsec = 1000 * 1000 };
	sigset_t all, saved;
	pthread_t thread;
	int os_error;
	char path[64];
	void *tid;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	os_error = pthread_create(&thread, NULL, work, job);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	if (os_error)
		return hf_error_os(os_error, "cannot start a thread");
	pthread_join(thread, &tid);
	snprintf(path, sizeof(path), "/proc/self/task/%d",
		 (pid_t)(uintptr_t)tid);
	for (int i = 0; i < EXIT_LIMIT_MS && access(path, F_OK) == 0; i++)
		nanosleep(&ms, NULL);
	return NULL;
}

struct hf_error *hf_reap_left(const struct hf_reap_left_options *options,
			      struct hf_reap_left_result *ret)
{
	struct job job = { .options = options, .result = ret };
	struct hf_error *err = NULL;

	memset(ret, 0, sizeof(*ret));
	if (options->unrecorded && !options->pid)
		return hf_error_create(HF_ERROR_USAGE, "zombies without a "
				       "record need the pid of their parent");
	if (options->pid) {
		struct hf_target target;

		err = hf_preflight_check(options->pid, &target);
		if (err)
			return err;
	}
	hf_journal_for_each(options->journal_dir, look, &job);
	if (job.dead.num > 0 || options->unrecorded)
		err = work_in_thread(&job);
	hf_array_deinit(&job.in_use);
	hf_array_deinit(&job.dead);
	hf_array_deinit(&job.looked);
	if (err) {
		hf_error_destroy(job.err);
		return err;
	}
	return job.err;
}
