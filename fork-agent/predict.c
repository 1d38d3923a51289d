/* Predict: how long a capture would stop a process, and what it would cost.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/predict.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fork-agent/proc_task.h"

enum {
	/* A thread that wants a CPU stops when it has had its turn. Seen with
	 * 8 to 64 busy threads on 2 CPUs: about this, each, for one CPU. It is
	 * of the scheduler's slice, not measured here. */
	TURN_NS = 1500 * 1000,
	MAPPING_BYTES = 512,      /* vm_area_struct, its tree and reverse map */
	CHILD_BYTES = 64 << 10,   /* task, kernel stack, address space */
};

static const uint64_t longest_ns = UINT64_C(1000) * 3600 * 1000 * 1000 * 1000;

static struct hf_error *count_thread(void *arg, pid_t tid)
{
	struct hf_thread_count *count = arg;
	struct hf_proc_stat stat;
	struct hf_proc_syscall call;
	/* Any thread's directory can be opened by its id alone. */
	struct hf_error *err = hf_proc_stat_read(tid, tid, &stat);

	if (err) {
		hf_error_ignore(err); /* it ended */
		return NULL;
	}
	if (stat.state == 'Z' || stat.state == 'X')
		return NULL;
	count->num++;
	count->num_running += stat.state == 'R';
	count->num_stopped += stat.state == 'T';
	count->num_traced += stat.state == 't';
	if (stat.state != 'D')
		return NULL;
	count->num_disk++;
	count->num_vfork += hf_proc_syscall_read(tid, tid, &call) &&
			    (call.nr == SYS_clone || call.nr == SYS_vfork ||
			     call.nr == SYS_clone3);
	return NULL;
}

struct hf_error *hf_thread_count_read(pid_t pid, struct hf_thread_count *ret)
{
	*ret = (struct hf_thread_count){ 0 };
	return hf_proc_for_each_thread(pid, count_thread, ret);
}

bool hf_predict_can(const struct hf_lab *lab)
{
	return lab->thread_ns && lab->fork_ns;
}

/* Numbers of damaged or hostile text stay numbers: no more than longest_ns. */
static uint64_t times_ps(uint64_t num, uint64_t ps)
{
	uint64_t product;

	if (__builtin_mul_overflow(num, ps, &product) ||
	    product / 1000 > longest_ns)
		return longest_ns;
	return product / 1000;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
	return __builtin_add_overflow(a, b, &a) ? UINT64_MAX : a;
}

/* As busy as the machine is now, the clock runs faster than our CPU time. */
static uint64_t on_the_clock(const struct hf_lab *lab, uint64_t cpu_ns)
{
	double stretch = lab->forks_cpu_ns ? (double)lab->forks_ns /
						     (double)lab->forks_cpu_ns :
					     1;

	return stretch > 1 ? (uint64_t)((double)cpu_ns * stretch) : cpu_ns;
}

void hf_predict_from(const struct hf_lab *lab,
		     const struct hf_memory_account *account,
		     const struct hf_thread_count *threads, uint32_t num_cpus,
		     struct hf_prediction *ret)
{
	uint32_t queued = threads->num_running > num_cpus ?
				  threads->num_running - num_cpus : 0;
	struct hf_prediction result = {
		.num_threads = threads->num,
		.num_running = threads->num_running,
		.threads_ns = threads->num * lab->thread_ns +
			      (uint64_t)queued * TURN_NS / num_cpus,
		.fork_ns = lab->fork_ns +
			   times_ps(account->small_pages, lab->small_page_ps) +
			   times_ps(account->huge_pages, lab->huge_page_ps) +
			   times_ps(account->num_mappings, lab->mapping_ps),
		.child_bytes = sum(CHILD_BYTES + account->num_mappings *
						 MAPPING_BYTES,
				   account->table_bytes),
	};

	result.fork_ns = on_the_clock(lab, result.fork_ns);
	result.pause_ns = result.threads_ns + result.fork_ns;
	result.long_pause_ns = sum(result.pause_ns,
				   sum(lab->fork_wait_ns,
				       sum(lab->thread_wait_ns,
					   lab->thread_wait_ns)));
	result.most_bytes = sum(result.child_bytes, account->private_bytes);
	*ret = result;
}

struct hf_error *hf_predict(pid_t pid, struct hf_prediction *ret)
{
	struct hf_memory_account account;
	struct hf_thread_count threads;
	struct hf_lab lab;
	long num_cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct hf_error *err = hf_memory_account_read(pid, &account);

	if (!err)
		err = hf_thread_count_read(pid, &threads);
	if (!err)
		err = hf_lab_run(HF_LAB_DONE, &lab);
	if (err)
		return hf_error_prefix(err, "the pause of process %d cannot "
				       "be predicted", pid);
	if (!hf_predict_can(&lab))
		return hf_error_cause(
			hf_error_create(HF_ERROR_UNSUPPORTED,
					"the pause of process %d cannot be "
					"predicted", pid),
			lab.ptrace_error > 0 ?
				"heapfork may not trace even a process of its "
				"own: %s" :
				"a process of our own could not be measured: "
				"%s",
			lab.ptrace_error > 0 ? strerror(lab.ptrace_error) :
			lab.signal ? strsignal(lab.signal) : "fork failed");
	hf_predict_from(&lab, &account, &threads,
			num_cpus > 0 ? (uint32_t)num_cpus : 1, ret);
	return NULL;
}
