/* Signals: the user's wish to stop, as a flag.
 * SPDX-License-Identifier: MIT */
#include <signal.h>

#include "query/cli/cli.h"

/* The one mutable global of the program: a handler has no other place. */
static volatile sig_atomic_t stop_signal;

static void on_signal(int number)
{
	stop_signal = number;
}

const volatile sig_atomic_t *hf_signals_catch(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = on_signal };

	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		struct sigaction old;

		/* nohup and shells' background jobs have reasons to ignore. */
		if (!sigaction(signals[i], NULL, &old) &&
		    old.sa_handler == SIG_IGN)
			continue;
		sigaction(signals[i], &action, NULL);
	}
	return &stop_signal;
}
