/* Victim: a process without a libc, and so without an allocator.
 * SPDX-License-Identifier: MIT */

void _start(void);

/* write(1, "ready\n", 6), then pause() for ever. */
void _start(void)
{
	static const char text[] = "ready\n";
	long result;

	__asm__ volatile("syscall" : "=a"(result)
			 : "a"(1L), "D"(1L), "S"(text), "d"(6L)
			 : "rcx", "r11", "memory");
	for (;;)
		__asm__ volatile("syscall" : "=a"(result) : "a"(34L)
				 : "rcx", "r11", "memory");
}
