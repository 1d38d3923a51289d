/* Program: what about the target itself makes a capture worse, or impossible.
 * SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fork-agent/doctor/patient.h"
#include "fork-agent/syscall_site.h"
#include "util/file.h"

enum { MIB = 1 << 20 };

/* A line of status, as a text on the stack: "NSpid:\t4711\t12". */
static bool status_line(const struct hf_patient *patient, const char *name,
			char *buf, size_t size)
{
	const char *line = patient->status;
	size_t len = strlen(name);

	while (line && *line) {
		const char *end = strchrnul(line, '\n');

		if (!strncmp(line, name, len) && line[len] == ':') {
			const char *value = line + len + 1;

			while (*value == '\t' || *value == ' ')
				value++;
			snprintf(buf, size, "%.*s", (int)(end - value), value);
			return true;
		}
		line = *end ? end + 1 : end;
	}
	return false;
}

void hf_check_pids(struct hf_patient *patient)
{
	char text[64];
	const char *inner;

	if (!status_line(patient, "NSpid", text, sizeof(text))) {
		hf_checkup_add(patient->checkup, "pid-namespace",
			       HF_VERDICT_UNKNOWN, "not visible");
		return;
	}
	inner = strrchr(text, '\t');
	if (!inner) {
		hf_checkup_add(patient->checkup, "pid-namespace",
			       HF_VERDICT_OK, "it is in ours: pid %s", text);
		return;
	}
	hf_checkup_add(patient->checkup, "pid-namespace", HF_VERDICT_OK,
		       "it is in one below ours: pid %d here, %s there",
		       patient->pid, inner + 1);
}

void hf_check_threads(struct hf_patient *patient)
{
	const struct hf_thread_count *threads = &patient->threads;
	uint32_t disk = threads->num_disk - threads->num_vfork;
	struct hf_check *check;

	if (!patient->has_threads) {
		hf_checkup_add(patient->checkup, "threads",
			       HF_VERDICT_UNKNOWN, "not visible");
		return;
	}
	check = hf_checkup_add(
		patient->checkup, "threads", HF_VERDICT_OK,
		"%" PRIu32 ": %" PRIu32 " running, %" PRIu32 " in disk sleep, "
		"%" PRIu32 " in vfork, %" PRIu32 " stopped", threads->num,
		threads->num_running, disk, threads->num_vfork,
		threads->num_stopped);
	hf_check_value(check, threads->num, "threads");
	if (!threads->num_disk)
		return;
	check->verdict = HF_VERDICT_WARNING;
	hf_check_cause(check, "a thread in disk sleep or vfork cannot be "
		       "stopped: it is left out, with stack pointer and "
		       "program counter only%s",
		       threads->num_vfork ? ", and its child writes to the "
					    "same memory" : "");
	hf_check_fix(check, "try again when it does something else: this is "
		     "of one moment");
}

void hf_check_dispatch(struct hf_patient *patient)
{
	struct hf_check *check;

	if (!patient->has_account) {
		hf_checkup_add(patient->checkup, "syscall-dispatch",
			       HF_VERDICT_UNKNOWN, "not visible");
		return;
	}
	if (!(patient->account.marks & HF_MARK_WINE)) {
		hf_checkup_add(patient->checkup, "syscall-dispatch",
			       HF_VERDICT_OK, "no sign of redirected system "
			       "calls (no Wine); certain only when its "
			       "threads stand");
		return;
	}
	check = hf_checkup_add(patient->checkup, "syscall-dispatch",
			       HF_VERDICT_WARNING, "it is a Wine program");
	hf_check_cause(check, "if its system calls are redirected (syscall "
		       "user dispatch), the capture is refused once its "
		       "threads stand");
}

void hf_check_shadow_stack(struct hf_patient *patient)
{
	char features[64];
	struct hf_check *check;

	if (!status_line(patient, "x86_Thread_features", features,
			 sizeof(features)) ||
	    !strstr(features, "shstk")) {
		hf_checkup_add(patient->checkup, "shadow-stack",
			       HF_VERDICT_OK, "off");
		return;
	}
	check = hf_checkup_add(patient->checkup, "shadow-stack",
			       HF_VERDICT_WARNING, "on (%s)", features);
	hf_check_cause(check, "a thread that is borrowed for the fork could "
		       "not find its own way back if heapfork were killed "
		       "with SIGKILL in that very moment");
	hf_check_fix(check, "GLIBC_TUNABLES=glibc.cpu.x86_shstk=off when the "
		     "program is started turns it off");
}

/* The instructions of the target by which a borrowed thread comes back.
 * @return false: its memory cannot be looked at. */
static bool find_site(const struct hf_patient *patient,
		      struct hf_syscall_site *ret)
{
	HF_AUTO(hf_proc_maps) struct hf_proc_maps maps = { 0 };
	HF_AUTO_FREE char *text = NULL;
	HF_AUTO_FD int fd = -1;
	struct hf_error *err;
	char path[64];
	size_t len;

	snprintf(path, sizeof(path), "/proc/%d/maps", patient->live_tid);
	err = hf_read_file(path, &text, &len);
	if (!err)
		err = hf_proc_maps_parse(text, len, &maps);
	snprintf(path, sizeof(path), "/proc/%d/mem", patient->live_tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (err || fd < 0) {
		hf_error_ignore(err);
		return false;
	}
	hf_syscall_site_search(fd, &maps, ret);
	return true;
}

/* Would it come to no harm if heapfork were killed in the very microseconds in
 * which a thread of it is borrowed? Shadow stacks have a check of their own. */
void hf_check_way_home(struct hf_patient *patient)
{
	struct hf_syscall_site site;
	struct hf_check *check;

	if (!patient->attach_works || !find_site(patient, &site)) {
		hf_checkup_add(patient->checkup, "way-home",
			       HF_VERDICT_UNKNOWN,
			       "its memory cannot be looked at");
		return;
	}
	if (!patient->target.seccomp && site.call_ret.addr &&
	    site.restorer.addr) {
		hf_checkup_add(patient->checkup, "way-home", HF_VERDICT_OK,
			       "a borrowed thread finds its own way back");
		return;
	}
	check = hf_checkup_add(patient->checkup, "way-home",
			       HF_VERDICT_WARNING, "%s",
			       patient->target.seccomp ?
				       "it is under seccomp" :
			       site.call_ret.addr ?
				       "no signal restorer in its memory" :
				       "no syscall instruction with a return");
	hf_check_cause(check, "were heapfork killed with SIGKILL in the "
		       "microseconds in which a thread is borrowed, that "
		       "thread might not come back unharmed");
	hf_check_fix(check, "--mode stop borrows no thread");
}

void hf_check_allocator(struct hf_patient *patient)
{
	static const struct {
		enum hf_memory_mark mark;
		const char *name;
	} others[] = {
		{ HF_MARK_JEMALLOC, "jemalloc" },
		{ HF_MARK_TCMALLOC, "tcmalloc" },
		{ HF_MARK_MIMALLOC, "mimalloc" },
		{ HF_MARK_MUSL, "musl" },
	};
	uint32_t marks = patient->account.marks;
	struct hf_check *check;

	if (!patient->has_account) {
		hf_checkup_add(patient->checkup, "allocator",
			       HF_VERDICT_UNKNOWN, "not visible");
		return;
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (!(marks & others[i].mark))
			continue;
		check = hf_checkup_add(patient->checkup, "allocator",
				       HF_VERDICT_WARNING, "%s is loaded",
				       others[i].name);
		hf_check_cause(check, "what it hands out is not understood: "
			       "the snapshot counts it as unknown memory%s",
			       marks & HF_MARK_BRK ?
				       "" : ", and is marked partial, because "
					    "no heap of glibc is there");
		hf_check_fix(check, "run the program with glibc's malloc "
			     "(without %s)", others[i].name);
		/* The heap of glibc beside it is worth a snapshot. */
		if (!(marks & HF_MARK_BRK))
			hf_check_partial(check);
		return;
	}
	if (!(marks & (HF_MARK_GLIBC | HF_MARK_BRK))) {
		check = hf_checkup_add(patient->checkup, "allocator",
				       HF_VERDICT_WARNING, "no library of one "
				       "is loaded, and there is no [heap]");
		hf_check_cause(check, "a static program without glibc's "
			       "malloc: nothing will be known about its heap, "
			       "and the snapshot is marked partial");
		hf_check_partial(check);
		return;
	}
	if (marks & HF_MARK_GLIBC)
		hf_checkup_add(patient->checkup, "allocator", HF_VERDICT_OK,
			       "glibc's malloc, by its libraries");
	else
		hf_checkup_add(patient->checkup, "allocator",
			       HF_VERDICT_UNKNOWN, "no library of one is "
			       "loaded: a static program");
}

void hf_check_not_copied(struct hf_patient *patient)
{
	const struct hf_memory_account *account = &patient->account;
	uint64_t left_out = account->dontfork_bytes + account->wipe_bytes;
	char kept[HF_DOCTOR_SIZE_LEN], shared[HF_DOCTOR_SIZE_LEN];
	struct hf_check *check;

	if (!patient->has_account) {
		hf_checkup_add(patient->checkup, "not-copied",
			       HF_VERDICT_UNKNOWN, "not visible");
		return;
	}
	check = hf_checkup_add(patient->checkup, "not-copied", HF_VERDICT_OK,
			       "%s kept out of forks (MADV_DONTFORK, "
			       "MADV_WIPEONFORK), %s of shared memory",
			       hf_patient_size(patient, left_out, kept),
			       hf_patient_size(patient, account->shared_bytes,
					       shared));
	hf_check_value(check, left_out, "bytes");
	/* Less than that is everywhere: random number generators. */
	if (left_out < MIB && account->shared_bytes < MIB)
		return;
	check->verdict = HF_VERDICT_WARNING;
	hf_check_cause(check, "a fork does not freeze it: it is read after "
		       "the process runs on, and may not fit the rest");
	if (account->shared_bytes >= MIB)
		hf_check_fix(check, "if it matters, read the process itself "
			     "while it stands: --mode stop");
}

void hf_check_pinned(struct hf_patient *patient)
{
	uint64_t bytes = hf_patient_field(patient, "VmPin", 0) * 1024;
	char size[HF_DOCTOR_SIZE_LEN];
	struct hf_check *check = hf_checkup_add(
		patient->checkup, "pinned", HF_VERDICT_OK,
		"%s are pinned for devices or io_uring",
		hf_patient_size(patient, bytes, size));

	hf_check_value(check, bytes, "bytes");
	if (!bytes)
		return;
	check->verdict = HF_VERDICT_WARNING;
	hf_check_cause(check, "a fork copies pinned pages at once, in the "
		       "pause, if they are not kept out of forks "
		       "(MADV_DONTFORK)");
}
