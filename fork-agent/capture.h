/* Capture: stop a process for milliseconds, fork it, let it run on.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_CAPTURE_H
#define HF_FORK_AGENT_CAPTURE_H

#include "coredump/image.h"
#include "fork-agent/safe_point.h"
#include "util/progress.h"

/** How the process is looked at. */
enum hf_capture_mode {
	HF_CAPTURE_FORK, /* stopped for milliseconds; a frozen child is read */
	HF_CAPTURE_STOP, /* stopped, read itself, then let go: where it may not
			  * fork, or where a fork would not be a snapshot */
};

struct hf_capture_options {
	pid_t pid;                 /* thread group leader of the target */
	enum hf_capture_mode mode; /* never changed silently */
	uint32_t stop_timeout_ms;  /* how long threads are waited for, in all
				    * tries together: each lets all threads
				    * go soon if some do not stop; 0: the
				    * default, 2000 */
	uint32_t attempts;         /* tries when the target execs meanwhile,
				    * or no thread of it can fork at that
				    * moment; 0: default, 3 */
	uint64_t deadline_ns;      /* monotonic: no further attempt and no wait
				    * beyond it; 0: none */
	const struct hf_safe_point *safe_point; /* borrowed; NULL: stop
				    * wherever the threads are */
	uint32_t safe_point_tries; /* stops to find a safe point; 0: the
				    * default, 5 */
	bool exact;                /* no safe point: TIMEOUT, no snapshot */
	uint64_t keep_free_bytes;  /* give the fork up rather than leave less
				    * memory than this to the target's cgroups
				    * and the machine; 0: the default */
	const char *journal_dir;   /* where a note about the child is kept until
				    * it is reaped: see journal.h; NULL: the
				    * default */
	const volatile sig_atomic_t *cancelled; /* polled; may be NULL */
};

/** Can a thread that we borrow find its own way back if we are killed at this
 * very moment? See way_home.h. */
enum hf_way_home {
	HF_WAY_HOME_FULL,       /* yes: at every instruction */
	HF_WAY_HOME_NO_SITE,    /* no `syscall; ret` in its memory */
	HF_WAY_HOME_NO_RETURN,  /* no signal restorer in its memory */
	HF_WAY_HOME_NO_STACK,   /* no stack of a thread has room for sure */
	HF_WAY_HOME_SHADOW,     /* shadow stacks (CET) forbid the return */
	HF_WAY_HOME_SECCOMP,    /* its seccomp filter, which we suspend, may
				 * kill it on the way */
};

/** What the capture cost the target, and what it found. UINT64_MAX: not
 * known, where a field can be that. */
struct hf_capture_report {
	enum hf_capture_mode mode;
	uint64_t taken_ns;       /* CLOCK_REALTIME of the fork */
	uint64_t start_time;     /* field 22 of /proc/PID/stat: with pid and
				  * boot id it names the process */
	uint64_t pause_ns;       /* first interrupt .. last thread resumed */
	uint64_t stop_ns;        /* of it: until every thread had stopped */
	uint64_t regs_ns;        /* of it: registers of all threads */
	uint64_t fork_ns;        /* of it: the fork itself */
	uint64_t resume_ns;      /* of it: letting all threads go on */
	uint64_t reap_ns;        /* pause of one thread for the final wait4 */
	uint64_t child_life_ns;  /* fork .. child gone */
	uint64_t cow_pages;      /* pages the target had to copy (or unmapped)
				  * while the child lived: the child's pages
				  * that are no longer shared; UINT64_MAX: not
				  * known */
	uint64_t parent_faults;  /* minor faults of the target from its stop to
				  * the child's end: copies, and pages it got
				  * back for itself without a copy */
	uint64_t dropped_bytes;  /* given back by the child before its end */
	uint64_t peak_private_bytes; /* most memory that the child had to
				  * itself at any time: what it cost */
	uint64_t pause_calls;    /* ptrace and wait calls inside the pause */
	uint64_t missed_pause_ns; /* of stops before the last one: longest */
	uint32_t max_thread_calls; /* of them: most for one thread that was not
				  * borrowed */
	uint32_t num_threads;    /* stopped, or partial */
	uint32_t num_partial;    /* threads that could not be stopped */
	uint32_t num_vfork_children; /* processes that may have written to the
				  * target's memory while it was forked: such
				  * as run in it (vfork) and did not stop */
	bool leader_ended;     /* one of them: the process was held at its end,
				* when its first thread was gone */
	uint32_t num_vfork_stopped; /* processes in the target's memory that
				  * were stopped with it */
	uint32_t num_attempts;   /* stops it took, without those for a safe
				  * point; 1 normally */
	uint32_t num_restarted;  /* system calls restarted instead of EINTR */
	uint32_t safe_point_tries; /* stops for the safe point; 0: none asked */
	struct hf_safe_point_state safe_point; /* at the stop that was taken */
	enum hf_way_home way_home;
	bool fifo;               /* real-time priority during the pause */
	bool descriptors_closed; /* the child holds no descriptor */
	bool reaped;             /* the child left no zombie */
	bool journaled;          /* a record names the child until it is
				  * reaped: the next capture would do that,
				  * were we killed. See journal.h */
};

/** A forked, stopped child, and the parent's threads at the fork; in
 * HF_CAPTURE_STOP the target itself, standing. */
struct hf_frozen;

/* In the calling process: a thread is started that makes all ptrace calls and
 * lives until the release; the kernel sends SIGCHLD for the stops of tracees;
 * for the pause an unused real-time signal has a handler. Any thread may make
 * the calls below, one at a time for each frozen. docs/capture-safety.md has
 * the contract with the target. */

/**
 * Take the fork. On success every thread of the target runs again as if
 * nothing had happened and *ret is a child of it, ptrace-stopped, that
 * holds no descriptor of it and dies with us.
 *
 * HF_CAPTURE_STOP: on success every thread of the target is ptrace-stopped, and
 * stays so until hf_frozen_release: until then the target does not work.
 * `cancelled` and `deadline_ns` let it go at any moment. If we die, the kernel
 * does.
 *
 * @return NULL, TARGET_GONE, PERMISSION (with cause and fix), UNSUPPORTED,
 * TIMEOUT, NO_SPACE (too little memory), INTERRUPTED or OS. After any error the target runs on, unchanged.
 */
struct hf_error *hf_capture(const struct hf_capture_options *options,
			    struct hf_frozen **ret) HF_MUST_CHECK;

/** The child's memory with the parent's threads, or the target's own. Lives no
 * longer than the frozen; the caller destroys it first. In HF_CAPTURE_STOP
 * what is read from it is of one instant only if hf_frozen_release says so. */
struct hf_error *hf_frozen_open_image(const struct hf_frozen *frozen,
				      struct hf_image **ret) HF_MUST_CHECK;

/**
 * Have the child give back the memory of these ranges, which must be private
 * anonymous memory that has been read for the last time: what the target
 * writes there afterwards is not copied. No error: what cannot be dropped
 * stays. Counted in the report.
 */
void hf_frozen_drop(struct hf_frozen *frozen, const struct hf_range *ranges,
		    size_t num_ranges);

/** Of the child; 0: there is none (HF_CAPTURE_STOP). */
/** Is the child still there? @return NULL, or NO_SPACE: it was given up, since
 * it cost the target more memory than there is, or killed from outside. */
struct hf_error *hf_frozen_check(const struct hf_frozen *frozen)
	HF_MUST_CHECK;

pid_t hf_frozen_pid(const struct hf_frozen *frozen);

/**
 * Kill the child and have the target reap it. Fills in the fields of the
 * report that are known only now.
 *
 * In HF_CAPTURE_STOP: let the target go on.
 *
 * @return an error if a zombie may be left behind; the child is dead anyway.
 * NO_SPACE: it had to go earlier, see hf_frozen_check, so what was read is
 * worth nothing.
 * In HF_CAPTURE_STOP TARGET_GONE, TIMEOUT or INTERRUPTED: the target ended, or
 * had to be let go earlier, so what was read is worth nothing.
 */
struct hf_error *hf_frozen_release(struct hf_frozen *frozen) HF_MUST_CHECK;

/** Borrowed; complete after hf_frozen_release. */
const struct hf_capture_report *
hf_frozen_report(const struct hf_frozen *frozen);

/** Releases too, if that was not done. */
void hf_frozen_destroy(struct hf_frozen *frozen);

HF_DEFINE_AUTO(struct hf_frozen *, hf_frozen, hf_frozen_destroy)

#endif
