/* What the kernel charges on this machine for next to nothing.
 * SPDX-License-Identifier: MIT */
#ifndef HF_BENCH_PAUSE_CALLS_H
#define HF_BENCH_PAUSE_CALLS_H

/** A system call that does nothing (getppid), in ns. */
double bench_null_call_ns(void);

/** The same of ptrace: a question about a stopped process that is answered at
 * once (PTRACE_GETEVENTMSG), in ns. Exits with 77 if ptrace is forbidden. */
double bench_null_ptrace_ns(void);

/**
 * Wake a sleeping process through a futex until it has done the same to us:
 * there and back, halved, in ns. So one system call that wakes, and one that
 * goes to sleep, are in it.
 */
double bench_wake_ns(void);

#endif
