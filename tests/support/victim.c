/* Victim: a program that is looked at from outside, and tells the truth.
 * SPDX-License-Identifier: MIT */
#include "tests/support/victim.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void die(const char *what)
{
	perror(what);
	abort();
}

void hf_victim_start(struct hf_victim *victim, const char *const argv[])
{
	int in[2], out[2];

	memset(victim, 0, sizeof(*victim));
	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		die("pipe2");
	victim->pid = fork();
	if (victim->pid < 0)
		die("fork");
	if (victim->pid == 0) {
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		/* Yama: the tracer may be a stranger. EINVAL: no Yama. */
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execv(argv[0], (char *const *)argv);
		perror(argv[0]);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	victim->in = fdopen(in[1], "w");
	victim->out = fdopen(out[0], "r");
	if (!victim->in || !victim->out)
		die("fdopen");
}

const char *hf_victim_line(struct hf_victim *victim)
{
	ssize_t len;

	len = getline(&victim->line, &victim->line_bytes, victim->out);
	if (len < 0)
		return NULL;
	if (len > 0 && victim->line[len - 1] == '\n')
		victim->line[len - 1] = '\0';
	return victim->line;
}

void hf_victim_expect(struct hf_victim *victim, const char *wanted)
{
	const char *line;

	while ((line = hf_victim_line(victim)))
		if (!strcmp(line, wanted))
			return;
	fprintf(stderr, "victim %d did not say '%s'\n", victim->pid, wanted);
	abort();
}

long hf_victim_number(struct hf_victim *victim, const char *name)
{
	size_t len = strlen(name);
	const char *line;

	while ((line = hf_victim_line(victim)))
		if (!strncmp(line, name, len) && line[len] == ' ')
			return strtol(line + len + 1, NULL, 0);
	fprintf(stderr, "victim %d did not tell '%s'\n", victim->pid, name);
	abort();
}

void hf_victim_tell(struct hf_victim *victim, const char *text)
{
	fprintf(victim->in, "%s\n", text);
	fflush(victim->in);
}

static void close_all(struct hf_victim *victim)
{
	if (victim->in)
		fclose(victim->in);
	if (victim->out)
		fclose(victim->out);
	free(victim->line);
	victim->in = victim->out = NULL;
	victim->line = NULL;
	victim->pid = 0;
}

int hf_victim_status(int wait_status)
{
	return WIFSIGNALED(wait_status) ? 1000 + WTERMSIG(wait_status) :
					  WEXITSTATUS(wait_status);
}

int hf_victim_end(struct hf_victim *victim)
{
	int status;

	if (victim->in) {
		fclose(victim->in);
		victim->in = NULL;
	}
	while (victim->out && hf_victim_line(victim))
		;
	if (waitpid(victim->pid, &status, 0) < 0)
		die("waitpid");
	close_all(victim);
	return hf_victim_status(status);
}

void hf_victim_kill(struct hf_victim *victim)
{
	if (!victim->pid)
		return;
	kill(victim->pid, SIGKILL);
	waitpid(victim->pid, NULL, 0);
	close_all(victim);
}
