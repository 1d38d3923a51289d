/* Lab: try on a process of our own what a capture would do to the target.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/lab.h"

#include <elf.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

#include "fork-agent/tracee.h"
#include "util/progress.h"

/* Three processes: we; the lab; its patient, who sleeps. The lab writes what
 * it finds into a page that it shares with us. It uses system calls and that
 * page only: it may have been forked from a program with threads. Its waits
 * are for its own children and need no clock: who hangs is killed by us.
 *
 * A fork is measured with nothing, with huge pages, with small pages, and with
 * many mappings; differences are the costs. Page tables are copied from their
 * entries and one struct page (64 bytes) for each page: in a large heap none
 * of these is in the CPU's caches, so before each fork those are filled with
 * something else. */

enum {
	PAGE_BYTES = 4096,
	HUGE_BYTES = 2 << 20,
	ROUNDS = 3,
	TRIES = 5,                /* when others took the CPU in the wrong
				   * moment, and more costs less */
	STOPS = 9,
	LIMIT_MS = 10000,         /* then the lab is given up */
	SMALL_BYTES_MAX = 64 << 20,
	SMALL_STEP_BYTES = 2 << 20,
	SMALL_BYTES_MIN = 8 << 20, /* less drowns in noise */
	POPULATE_LIMIT_NS = 40 * 1000 * 1000,
	HUGE_REGION_BYTES = 32 << 20,
	NUM_MAPPINGS = 256,       /* with a page each, and as many between */
	FIFO_PRIORITY = 10,
	XSTATE_BYTES = 16384,
	MADV_POPULATE_WRITE_ABI = 23, /* Linux 5.14 */
	PTRACE_GETSIGMASK_ABI = 0x420a,
};

static uint64_t median(uint64_t *values, size_t num)
{
	for (size_t i = 1; i < num; i++)
		for (size_t j = i; j > 0 && values[j] < values[j - 1]; j--) {
			uint64_t swap = values[j];

			values[j] = values[j - 1];
			values[j - 1] = swap;
		}
	return values[num / 2];
}

static void reset_signals(void)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGALRM };
	sigset_t none;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		signal(numbers[i], SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* ---- the patient ---- */

/* Die with the parent, also if that has died already. */
static void die_with(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
}

static pid_t start_patient(void)
{
	pid_t lab = getpid();
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (pid != 0)
		return pid;
	die_with(lab);
	for (;;)
		pause();
}

static void end_patient(pid_t patient)
{
	kill(patient, SIGKILL);
	while (waitpid(patient, NULL, __WALL) < 0 && errno == EINTR)
		;
}

/* @return errno, or 0. */
static int stop(pid_t patient)
{
	int status;

	if (hf_ptrace(NULL, PTRACE_INTERRUPT, patient, NULL, NULL) < 0)
		return errno;
	if (waitpid(patient, &status, __WALL) != patient)
		return errno;
	return WIFSTOPPED(status) ? 0 : ESRCH;
}

static void try_ptrace(struct hf_lab *lab, pid_t patient)
{
	lab->ptrace_error = 0;
	if (hf_ptrace(NULL, PTRACE_SEIZE, patient, NULL, NULL) < 0) {
		lab->ptrace_error = errno;
		return;
	}
	lab->ptrace_error = stop(patient);
	if (lab->ptrace_error)
		return;
	lab->suspend_error = 0;
	if (hf_ptrace(NULL, PTRACE_SETOPTIONS, patient, NULL,
		      (void *)(uintptr_t)HF_PTRACE_O_SUSPEND_SECCOMP) < 0)
		lab->suspend_error = errno;
	else
		hf_ptrace(NULL, PTRACE_SETOPTIONS, patient, NULL, NULL);
	hf_ptrace(NULL, PTRACE_CONT, patient, NULL, NULL);
}

static void try_readv(struct hf_lab *lab, pid_t patient)
{
	uint64_t word;
	struct iovec local = { &word, sizeof(word) };
	/* Forked from us: what is at this address here is there, too. */
	struct iovec remote = { lab, sizeof(word) };

	lab->readv_error = 0;
	if (process_vm_readv(patient, &local, 1, &remote, 1, 0) < 0)
		lab->readv_error = errno;
}

/* The calls of a capture for one thread (see remote_attach.c), on a thread
 * that sleeps. */
static void measure_thread(struct hf_lab *lab, pid_t patient)
{
	unsigned char xstate[XSTATE_BYTES];
	const struct sched_param fifo = { .sched_priority = FIFO_PRIORITY };
	const struct sched_param normal = { 0 };
	const struct timespec gap = { .tv_nsec = 200 * 1000 };
	uint64_t ns[STOPS], mask;

	lab->fifo_error = 0;
	if (sched_setscheduler(0, SCHED_FIFO, &fifo) < 0)
		lab->fifo_error = errno;
	for (size_t i = 0; i < STOPS; i++) {
		struct user_regs_struct regs;
		struct iovec reg_vec = { &regs, sizeof(regs) };
		struct iovec xstate_vec = { xstate, sizeof(xstate) };
		uint64_t start;

		/* Let it sleep again. */
		nanosleep(&gap, NULL);
		start = hf_now_ns();
		if (stop(patient))
			return;
		hf_ptrace(NULL, PTRACE_GETREGSET, patient,
			  (void *)(uintptr_t)NT_PRSTATUS, &reg_vec);
		hf_ptrace(NULL, PTRACE_GETREGSET, patient,
			  (void *)(uintptr_t)NT_X86_XSTATE, &xstate_vec);
		hf_ptrace(NULL, PTRACE_GETSIGMASK_ABI, patient,
			  (void *)sizeof(mask), &mask);
		hf_ptrace(NULL, PTRACE_CONT, patient, NULL, NULL);
		ns[i] = hf_now_ns() - start;
	}
	sched_setscheduler(0, SCHED_OTHER, &normal);
	lab->thread_ns = median(ns, STOPS); /* which sorts them */
	lab->thread_wait_ns = ns[STOPS - 1] - lab->thread_ns;
}

/* ---- forks ---- */

static char *map(size_t bytes, int prot)
{
	char *ptr = mmap(NULL, bytes, prot,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return ptr == MAP_FAILED ? NULL : ptr;
}

/* One word of each cache line. */
static void flush_caches(const char *filler)
{
	for (size_t i = 0; filler && i < HUGE_REGION_BYTES; i += 64)
		(void)*(const volatile uint64_t *)(filler + i);
}

/* Others run on this machine, too. What a page costs is taken from the time
 * on a CPU, which they change little; how much longer a fork takes because of
 * them, from all forks together. */
struct fork_cost {
	uint64_t least_ns;  /* on a CPU; 0: it failed */
	uint64_t usual_ns;
};

static uint64_t cpu_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct fork_cost measure_fork(struct hf_lab *lab, const char *filler)
{
	uint64_t ns[ROUNDS];
	struct fork_cost cost = { 0 };

	for (size_t i = 0; i < ROUNDS; i++) {
		uint64_t start, cpu_start, clock_ns;
		pid_t pid;

		flush_caches(filler);
		start = hf_now_ns();
		cpu_start = cpu_now_ns();
		pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		if (pid == 0)
			syscall(SYS_exit_group, 0);
		ns[i] = cpu_now_ns() - cpu_start;
		lab->forks_cpu_ns += ns[i];
		clock_ns = hf_now_ns() - start;
		lab->forks_ns += clock_ns;
		if (clock_ns > ns[i] &&
		    clock_ns - ns[i] > lab->fork_wait_ns)
			lab->fork_wait_ns = clock_ns - ns[i];
		if (pid < 0)
			return cost;
		while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
			;
	}
	cost.usual_ns = median(ns, ROUNDS); /* which sorts them */
	cost.least_ns = ns[0];
	return cost;
}

/* Picoseconds for each of `num` that are there now; `before`: without them.
 * 0: it cannot be measured. */
static uint64_t per_item_ps(struct hf_lab *lab, const char *filler,
			    uint64_t num,
			    const struct fork_cost *before,
			    struct fork_cost *ret)
{
	for (int i = 0; num && i < TRIES; i++) {
		*ret = measure_fork(lab, filler);
		if (ret->usual_ns > before->least_ns)
			return (ret->usual_ns - before->least_ns) * 1000 /
			       num;
	}
	return 0;
}

static bool populate(char *ptr, size_t bytes)
{
	if (madvise(ptr, bytes, MADV_POPULATE_WRITE_ABI) == 0)
		return true;
	if (errno != EINVAL)
		return false;
	for (size_t i = 0; i < bytes; i += PAGE_BYTES)
		*(volatile char *)(ptr + i) = 1;
	return true;
}

/* Is it one page? The kernel says so in smaps, in a line AnonHugePages behind
 * that of the mapping. */
static bool is_huge(const char *ptr)
{
	char text[65536];
	char head[32];
	size_t len = 0, at = 0;
	uint64_t address = (uintptr_t)ptr;
	HF_AUTO_FD int fd = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
	const char *line;
	ssize_t n;

	/* "7f0123400000-": hexadecimal without printf. */
	for (int shift = 60; shift >= 0; shift -= 4) {
		unsigned int digit = address >> shift & 15;

		if (digit || at)
			head[at++] = "0123456789abcdef"[digit];
	}
	head[at++] = '-';
	head[at] = '\0';
	/* The last quarter is kept: our lines may be cut. */
	while (fd >= 0 &&
	       (n = read(fd, text + len, sizeof(text) - 1 - len)) > 0) {
		len += (size_t)n;
		text[len] = '\0';
		line = strstr(text, head);
		if (line && (line == text || line[-1] == '\n')) {
			const char *value = strstr(line, "AnonHugePages:");

			if (value && strchr(value, '\n'))
				return strtoull(value + 14, NULL, 10) > 0;
		}
		if (len > sizeof(text) / 2) {
			size_t keep = sizeof(text) / 4;

			memmove(text, text + len - keep, keep);
			len = keep;
		}
	}
	return false;
}

static void measure_forks(struct hf_lab *lab)
{
	struct fork_cost empty = measure_fork(lab, NULL), with_huge = empty;
	struct fork_cost other;
	char *region = map(HUGE_REGION_BYTES + HUGE_BYTES,
			   PROT_READ | PROT_WRITE);
	char *huge, *small, *many;
	uint64_t start;
	size_t done = 0;

	if (!region || !empty.least_ns)
		return;
	huge = (char *)(((uintptr_t)region + HUGE_BYTES - 1) &
			~(uintptr_t)(HUGE_BYTES - 1));
	madvise(huge, HUGE_REGION_BYTES, MADV_HUGEPAGE);
	/* One at first: where there are no huge pages it costs a fault for
	 * each small one. */
	if (populate(huge, HUGE_BYTES) && is_huge(huge) &&
	    populate(huge, HUGE_REGION_BYTES)) {
		lab->huge_pages = HUGE_REGION_BYTES / HUGE_BYTES;
		lab->huge_page_ps = per_item_ps(lab, huge, lab->huge_pages,
						&empty, &with_huge);
	} else {
		munmap(region, HUGE_REGION_BYTES + HUGE_BYTES);
		huge = NULL;
	}

	small = map(SMALL_BYTES_MAX, PROT_READ | PROT_WRITE);
	if (!small)
		return;
	madvise(small, SMALL_BYTES_MAX, MADV_NOHUGEPAGE);
	start = hf_now_ns();
	while (done < SMALL_BYTES_MAX &&
	       (done < SMALL_BYTES_MIN ||
		hf_now_ns() - start < POPULATE_LIMIT_NS) &&
	       populate(small + done, SMALL_STEP_BYTES))
		done += SMALL_STEP_BYTES;
	if (!done)
		return;
	lab->small_page_ps = per_item_ps(lab, huge,
					 done / PAGE_BYTES, &with_huge,
					 &other);
	munmap(small, SMALL_BYTES_MAX);
	if (!lab->small_page_ps)
		return; /* nothing could be predicted */

	many = map((size_t)NUM_MAPPINGS * 2 * PAGE_BYTES, PROT_NONE);
	for (size_t i = 0; many && i < NUM_MAPPINGS; i++) {
		char *page = many + i * 2 * PAGE_BYTES;

		if (mprotect(page, PAGE_BYTES, PROT_READ | PROT_WRITE) < 0)
			return;
		*(volatile char *)page = 1;
	}
	if (many)
		lab->mapping_ps = per_item_ps(lab, NULL, NUM_MAPPINGS * 2,
					      &with_huge, &other);
	lab->small_pages = done / PAGE_BYTES;
	lab->fork_ns = empty.usual_ns;
}

/* ---- the lab ---- */

static void be_first_to_die(void)
{
	HF_AUTO_FD int fd = open("/proc/self/oom_score_adj",
				 O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, "1000", 4) < 0)
		return; /* the worse for others, nothing to us */
}

static void work(struct hf_lab *lab, enum hf_lab_step last, pid_t tool)
{
	pid_t patient;

	die_with(tool);
	reset_signals();
	be_first_to_die();
	patient = start_patient();
	if (patient < 0)
		return;
	lab->step = HF_LAB_PTRACE;
	try_ptrace(lab, patient);
	if (last >= HF_LAB_READ) {
		lab->step = HF_LAB_READ;
		try_readv(lab, patient);
	}
	if (last >= HF_LAB_THREADS) {
		lab->step = HF_LAB_THREADS;
		if (!lab->ptrace_error)
			measure_thread(lab, patient);
	}
	end_patient(patient);
	if (last >= HF_LAB_FORK) {
		lab->step = HF_LAB_FORK;
		measure_forks(lab);
	}
	lab->step = HF_LAB_DONE;
}

/* Wait for the child, and no longer than the limit. */
static int wait_for(pid_t pid)
{
	const struct timespec nap = { .tv_nsec = 500 * 1000 };
	uint64_t start = hf_now_ns();
	bool killed = false;
	int status;

	for (;;) {
		pid_t got = waitpid(pid, &status, killed ? 0 : WNOHANG);

		if (got == pid)
			return status;
		if (got < 0 && errno != EINTR)
			return 0;
		if (!killed &&
		    hf_now_ns() - start > (uint64_t)LIMIT_MS * 1000000) {
			kill(pid, SIGKILL);
			killed = true;
		}
		nanosleep(&nap, NULL);
	}
}

struct hf_error *hf_lab_run(enum hf_lab_step last, struct hf_lab *ret)
{
	struct hf_error *err = NULL;
	struct hf_lab *lab = mmap(NULL, sizeof(*lab), PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t tool = getpid(), pid;
	int status;

	if (lab == MAP_FAILED)
		return &hf_enomem;
	*lab = (struct hf_lab){
		.ptrace_error = -1, .suspend_error = -1,
		.readv_error = -1, .fifo_error = -1,
	};
	pid = fork();
	if (pid == 0) {
		work(lab, last, tool);
		_exit(0);
	}
	if (pid < 0) {
		err = hf_error_os(errno, "cannot make a process to measure "
				  "with");
	} else {
		status = wait_for(pid);
		*ret = *lab;
		ret->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	}
	munmap(lab, sizeof(*lab));
	return err;
}
