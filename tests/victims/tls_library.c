/* Part of the victim tls: a library with thread-local variables.
 * SPDX-License-Identifier: MIT */
#include <stdlib.h>

__thread char library_padding[24] = "padding";
__thread void *library_cache;
static __thread void *library_own;

void *library_fill(void **own_ret);

void *library_fill(void **own_ret)
{
	library_cache = calloc(1, 333);
	library_own = calloc(1, 444);
	own_ret[0] = &library_cache;
	own_ret[1] = &library_own;
	return library_cache;
}
