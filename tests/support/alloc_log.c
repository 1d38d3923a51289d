/* Allocation log: every malloc and free of a process, libc's own included.
 * SPDX-License-Identifier: MIT */
#include "tests/support/alloc_log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Preloaded, these functions stand before libc's; libc exports the originals
 * under a second name. In a static program the linker renames (--wrap). */
#ifdef ALLOC_LOG_WRAP
#define OURS(name) __wrap_##name
#define REAL(name) __real_##name
#define REAL_MEMALIGN __real_memalign
void *__real_memalign(size_t alignment, size_t size);
#else
#define OURS(name) name
#define REAL(name) __libc_##name
#define REAL_MEMALIGN __libc_memalign
void *__libc_memalign(size_t alignment, size_t size);
#endif

void *REAL(malloc)(size_t size);
void *REAL(calloc)(size_t num, size_t size);
void *REAL(realloc)(void *ptr, size_t size);
void REAL(free)(void *ptr);
void *OURS(malloc)(size_t size);
void *OURS(calloc)(size_t num, size_t size);
void *OURS(realloc)(void *ptr, size_t size);
void OURS(free)(void *ptr);
void *OURS(memalign)(size_t alignment, size_t size);
void *OURS(aligned_alloc)(size_t alignment, size_t size);
int OURS(posix_memalign)(void **ret, size_t alignment, size_t size);
void *OURS(valloc)(size_t size);
void *OURS(pvalloc)(size_t size);
void *OURS(reallocarray)(void *ptr, size_t num, size_t size);

static struct alloc_log *the_log;
static char path[PATH_MAX];

static struct alloc_log *map_log(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *map = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, sizeof(struct alloc_log)) == 0)
		map = mmap(NULL, sizeof(struct alloc_log),
			   PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	return map == MAP_FAILED ? NULL : map;
}

/* The first malloc is earlier than any constructor. */
static bool open_log(void)
{
	static int tried; /* before there are threads */
	const char *name;

	if (the_log)
		return true;
	if (tried)
		return false;
	name = getenv("HF_ALLOC_LOG");
	if (!name) {
		if (environ)
			tried = 1;
		return false;
	}
	tried = 1;
	strncpy(path, name, sizeof(path) - 16);
	the_log = map_log(path);
	return the_log != NULL;
}

static void lock(void)
{
	while (__atomic_exchange_n(&the_log->lock, 1, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void unlock(void)
{
	__atomic_store_n(&the_log->lock, 0, __ATOMIC_RELEASE);
}

static size_t slot_of(uintptr_t addr)
{
	return (addr >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20 &
	       (ALLOC_LOG_CAPACITY - 1);
}

static void add(void *ptr, size_t size)
{
	size_t slot = slot_of((uintptr_t)ptr);

	if (!ptr || !open_log())
		return;
	lock();
	for (size_t i = 0; i < ALLOC_LOG_CAPACITY; i++) {
		struct alloc_log_entry *entry = &the_log->entries[slot];

		if (entry->addr <= 1) {
			entry->requested = size;
			entry->usable = malloc_usable_size(ptr);
			entry->addr = (uintptr_t)ptr;
			the_log->num++;
			unlock();
			return;
		}
		slot = (slot + 1) & (ALLOC_LOG_CAPACITY - 1);
	}
	the_log->full = 1;
	unlock();
}

static void del(void *ptr)
{
	size_t slot = slot_of((uintptr_t)ptr);

	if (!ptr || !open_log())
		return;
	lock();
	for (size_t i = 0; i < ALLOC_LOG_CAPACITY; i++) {
		struct alloc_log_entry *entry = &the_log->entries[slot];

		if (entry->addr == 0)
			break; /* from before the log */
		if (entry->addr == (uintptr_t)ptr) {
			entry->addr = 1;
			the_log->num--;
			break;
		}
		slot = (slot + 1) & (ALLOC_LOG_CAPACITY - 1);
	}
	unlock();
}

static void before_fork(void)
{
	if (the_log)
		lock();
}

static void after_fork_in_parent(void)
{
	if (the_log)
		unlock();
}

static void after_fork_in_child(void)
{
	struct alloc_log *old = the_log, *own;

	if (!old)
		return;
	strcat(path, ".child");
	own = map_log(path);
	if (own) {
		own->num = old->num;
		own->full = old->full;
		memcpy(own->entries, old->entries, sizeof(own->entries));
		own->lock = 0;
	}
	unlock(); /* the parent's; it is shared, and it unlocks it too */
	the_log = own;
}

__attribute__((constructor)) static void init(void)
{
	pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void *OURS(malloc)(size_t size)
{
	void *ptr = REAL(malloc)(size);

	add(ptr, size);
	return ptr;
}

void *OURS(calloc)(size_t num, size_t size)
{
	void *ptr = REAL(calloc)(num, size);

	add(ptr, num * size);
	return ptr;
}

void OURS(free)(void *ptr)
{
	int saved_errno = errno;

	del(ptr);
	errno = saved_errno;
	REAL(free)(ptr);
}

void *OURS(realloc)(void *ptr, size_t size)
{
	size_t old_usable = ptr ? malloc_usable_size(ptr) : 0;
	void *moved;

	del(ptr);
	moved = REAL(realloc)(ptr, size);
	if (moved)
		add(moved, size);
	else if (ptr && size)
		add(ptr, old_usable);
	return moved;
}

void *OURS(reallocarray)(void *ptr, size_t num, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(num, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return OURS(realloc)(ptr, bytes);
}

void *OURS(memalign)(size_t alignment, size_t size)
{
	void *ptr = REAL_MEMALIGN(alignment, size);

	add(ptr, size);
	return ptr;
}

void *OURS(aligned_alloc)(size_t alignment, size_t size)
{
	return OURS(memalign)(alignment, size);
}

int OURS(posix_memalign)(void **ret, size_t alignment, size_t size)
{
	void *ptr = OURS(memalign)(alignment, size);

	if (!ptr)
		return ENOMEM;
	*ret = ptr;
	return 0;
}

void *OURS(valloc)(size_t size)
{
	return OURS(memalign)(4096, size);
}

void *OURS(pvalloc)(size_t size)
{
	return OURS(memalign)(4096, (size + 4095) & ~(size_t)4095);
}
