/* Signals: the user's wish to stop, as a flag.
 * SPDX-License-Identifier: MIT */
#include <signal.h>
#include <sys/time.h>

#include "query/cli/cli.h"

/* The one mutable global of the program: a handler has no other place. */
static volatile sig_atomic_t stop_signal;

static void on_signal(int number)
{
	/* The user's wish counts more than the end of a time limit. */
	if (number != SIGALRM || !stop_signal)
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

void hf_signals_arm(uint64_t ns)
{
	struct sigaction action = { .sa_handler = on_signal };
	const struct itimerval timer = {
		.it_value.tv_sec = (time_t)(ns / 1000000000),
		/* Not 0, which would be no timer. */
		.it_value.tv_usec = (suseconds_t)(ns / 1000 % 1000000) |
				    (ns < 1000000000),
	};

	sigemptyset(&action.sa_mask);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

void hf_signals_time_over(void)
{
	on_signal(SIGALRM);
}

bool hf_signals_disarm(void)
{
	const struct itimerval none = { 0 };

	setitimer(ITIMER_REAL, &none, NULL);
	signal(SIGALRM, SIG_DFL);
	if (stop_signal != SIGALRM)
		return false;
	stop_signal = 0;
	return true;
}
