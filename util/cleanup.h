/* Scope guards: HF_AUTO_FREE, HF_AUTO_FD, HF_AUTO(noun), and HF_TAKE.
 * SPDX-License-Identifier: MIT */
#ifndef HF_UTIL_CLEANUP_H
#define HF_UTIL_CLEANUP_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#define HF_MUST_CHECK __attribute__((warn_unused_result))
#define HF_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

static inline void hf_auto_free(void *ptr)
{
	void **p = ptr;

	free(*p);
}

static inline void hf_auto_fd(int *fd)
{
	int saved_errno = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved_errno;
}

/** free() at the end of the scope. */
#define HF_AUTO_FREE __attribute__((cleanup(hf_auto_free)))
/** close() at the end of the scope, unless negative; errno is kept. */
#define HF_AUTO_FD __attribute__((cleanup(hf_auto_fd)))

/** Make HF_AUTO(noun) destroy a variable of `type` with `destroy`. */
#define HF_DEFINE_AUTO(type, noun, destroy)                                   \
	static inline void hf_auto_##noun(void *ptr)                          \
	{                                                                     \
		destroy(*(type *)ptr);                                        \
	}
#define HF_AUTO(noun) __attribute__((cleanup(hf_auto_##noun)))

/** Hand a guarded pointer over: its value, and NULL in its place. */
#define HF_TAKE(ptr)                                                          \
	({                                                                    \
		__typeof__(ptr) taken__ = (ptr);                              \
		(ptr) = NULL;                                                 \
		taken__;                                                      \
	})

/** As HF_TAKE for a file descriptor: -1 in its place. */
#define HF_TAKE_FD(fd)                                                        \
	({                                                                    \
		int taken__ = (fd);                                           \
		(fd) = -1;                                                    \
		taken__;                                                      \
	})

#endif
