/* Let stopped threads take their signals until one has its hands free.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/remote_attach.h"

enum { DELIVERIES_MAX = 64 };

/* A thread that holds a signal; NULL if one stands with empty hands, or none
 * holds any. */
static struct hf_tracee *must_deliver(struct hf_attachment *attachment)
{
	struct hf_tracee *holder = NULL;

	for (size_t i = 0; i < attachment->num; i++) {
		struct hf_tracee *tracee = &attachment->tracees[i];

		if (tracee->state != HF_TRACEE_STOPPED ||
		    tracee->kind != HF_TRACEE_THREAD)
			continue;
		if (tracee->held_signal)
			holder = tracee;
		else if (tracee->event == HF_PTRACE_EVENT_STOP)
			return NULL;
	}
	return holder;
}

struct hf_error *
hf_attachment_empty_hands(struct hf_attachment *attachment,
			  uint32_t timeout_ms,
			  const volatile sig_atomic_t *cancelled)
{
	for (int i = 0; i < DELIVERIES_MAX; i++) {
		struct hf_tracee *tracee = must_deliver(attachment);
		struct hf_error *err;

		if (!tracee)
			return NULL;
		hf_tracee_ptrace(tracee, PTRACE_INTERRUPT, NULL, NULL);
		hf_tracee_ptrace(tracee, PTRACE_CONT, NULL,
				 (void *)(long)tracee->held_signal);
		tracee->held_signal = 0;
		hf_attachment_set_state(attachment, tracee, HF_TRACEE_RUNNING);
		err = hf_attachment_wait(attachment, timeout_ms, cancelled);
		if (err)
			return err;
	}
	return NULL;
}
