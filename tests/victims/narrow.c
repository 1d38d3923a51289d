/* Victim: a 32-bit program, without any library.
 * SPDX-License-Identifier: MIT
 *
 * Answers each line with "alive". */

enum { EXIT = 1, READ = 3, WRITE = 4 }; /* calls of i386 */

void _start(void);

static int call(int number, int a, const void *b, int c)
{
	int result;

	__asm__ volatile("int $0x80" : "=a"(result)
			 : "0"(number), "b"(a), "c"(b), "d"(c) : "memory");
	return result;
}

void _start(void)
{
	char byte;

	call(WRITE, 1, "ready\n", 6);
	while (call(READ, 0, &byte, 1) == 1)
		call(WRITE, 1, "alive\n", 6);
	call(EXIT, 0, 0, 0);
	for (;;)
		;
}
