/* Let stopped threads go on until one has its hands free.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/standstill.h"

enum { DELIVERIES_MAX = 64 };

/* A thread that holds a signal, or is inside clone; NULL if one stands with
 * empty hands, or no thread can be helped to. */
static struct hf_tracee *must_go_on(struct hf_attachment *attachment)
{
	struct hf_tracee *found = NULL;

	for (size_t i = 0; i < attachment->num; i++) {
		struct hf_tracee *tracee = &attachment->tracees[i];

		if (tracee->state != HF_TRACEE_STOPPED ||
		    tracee->kind != HF_TRACEE_THREAD)
			continue;
		if (tracee->event == HF_PTRACE_EVENT_STOP)
			return NULL;
		if (tracee->event == 0 ||
		    tracee->event == PTRACE_EVENT_CLONE ||
		    tracee->event == PTRACE_EVENT_FORK)
			found = tracee;
	}
	return found;
}

enum hf_standstill
hf_attachment_empty_hands(struct hf_attachment *attachment,
			  const struct hf_stop_limit *limit)
{
	for (int i = 0; i < DELIVERIES_MAX; i++) {
		struct hf_tracee *tracee = must_go_on(attachment);
		enum hf_standstill result;

		if (!tracee)
			return HF_STANDSTILL_REACHED;
		/* A stop of any kind has used the interruption up. */
		hf_tracee_ptrace(tracee, PTRACE_INTERRUPT, NULL, NULL);
		hf_tracee_ptrace(tracee, PTRACE_CONT, NULL,
				 (void *)(long)tracee->held_signal);
		tracee->held_signal = 0;
		hf_attachment_set_state(attachment, tracee, HF_TRACEE_RUNNING);
		result = hf_attachment_wait(attachment, limit);
		if (result)
			return result;
	}
	return HF_STANDSTILL_REACHED;
}
