/* Victim: a program that is looked at from outside, and tells the truth.
 * SPDX-License-Identifier: MIT */
#ifndef HF_TESTS_SUPPORT_VICTIM_H
#define HF_TESTS_SUPPORT_VICTIM_H

#include <stdio.h>
#include <sys/types.h>

/**
 * A victim is started with its standard input and output on pipes. By
 * convention it prints "ready" once it can be looked at, "name value" lines
 * about what it has seen when it was told to end (its input ends, or a line
 * "end" comes), and returns 0 if all was well.
 */
struct hf_victim {
	pid_t pid;
	FILE *in;      /* to its standard input; NULL once closed */
	FILE *out;     /* from its standard output */
	char *line;    /* of the last read */
	size_t line_bytes;
};

/** Start argv[0] (NULL-terminated). Aborts the test if that fails. */
void hf_victim_start(struct hf_victim *victim, const char *const argv[]);

/** The next line without its newline, or NULL at the end. Borrowed. */
const char *hf_victim_line(struct hf_victim *victim);

/** Read lines until `wanted` comes. Aborts the test if it never does. */
void hf_victim_expect(struct hf_victim *victim, const char *wanted);

/** Read lines up to "name value". Aborts the test if there is none. */
long hf_victim_number(struct hf_victim *victim, const char *name);

/** Write a line. */
void hf_victim_tell(struct hf_victim *victim, const char *text);

/** End its input, and wait. @return its exit status, or 1000 + the signal. */
int hf_victim_end(struct hf_victim *victim);

/** Kill it and wait, whatever it does. Safe after hf_victim_end. */
void hf_victim_kill(struct hf_victim *victim);

/** The number that hf_victim_end returns for a status of waitpid. */
int hf_victim_status(int wait_status);

#endif
