// Victim: thread-local variables of the program and of a library.
// SPDX-License-Identifier: MIT
//
// For each thread and variable it prints
//   variable NAME TID ADDRESS OBJECT
// where the variable is, and the object that it alone holds; addresses of
// objects are kept as their complement.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <unistd.h>

extern "C" {
void *library_fill(void **own_ret);
__thread void *program_cache;
}

namespace app
{
thread_local void *session;
thread_local char text[100] = "not zero";
} // namespace app

static pthread_barrier_t ready;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void note(const char *name, void **variable)
{
	pthread_mutex_lock(&lock);
	printf("variable %s %d %p %p\n", name, gettid(),
	       static_cast<void *>(variable), *variable);
	pthread_mutex_unlock(&lock);
}

__attribute__((noinline)) static void fill()
{
	void *own[2];

	program_cache = calloc(1, 111);
	app::session = calloc(1, 222);
	library_fill(own);
	note("program_cache", &program_cache);
	note("app::session", &app::session);
	note("library_cache", static_cast<void **>(own[0]));
	note("library_own", static_cast<void **>(own[1]));
}

__attribute__((noinline)) static void wipe()
{
	volatile char junk[16 << 10];

	for (size_t i = 0; i < sizeof(junk); i++)
		junk[i] = 0;
}

static void *stand(void *)
{
	pthread_setname_np(pthread_self(), "worker");
	fill();
	wipe();
	pthread_barrier_wait(&ready);
	pause();
	return nullptr;
}

int main()
{
	char line[16];

	pthread_barrier_init(&ready, nullptr, 4);
	for (int i = 0; i < 3; i++) {
		pthread_t thread;

		if (pthread_create(&thread, nullptr, stand, nullptr))
			abort();
	}
	fill();
	pthread_barrier_wait(&ready);
	wipe();
	puts("ready");
	fflush(stdout);
	while (read(STDIN_FILENO, line, sizeof(line)) > 0)
		;
	return app::text[0] == 0;
}
