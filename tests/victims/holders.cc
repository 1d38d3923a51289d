// A program that holds objects in every way there is, and says so.
// SPDX-License-Identifier: MIT
//
// For each object it prints one line of truth and then sleeps:
//   object NAME ADDRESS USABLE-SIZE KIND HOLDER
// KIND is the kind of root holder that keeps it, "several" or "unreachable"
// ("register": one of them, left-overs in the stack may be others);
// HOLDER its name, or "-" where it has none that the program could know.
//   class NAME COUNT
//   list HOLDER NODES BYTES
// Addresses are kept as their complement, so that no record is a root.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace app
{
struct Shape {
	virtual ~Shape() = default;
	virtual int corners() const = 0;
	long id = 0;
};
struct Square final : Shape {
	int corners() const override { return 4; }
	long side = 1;
};
struct Named {
	virtual ~Named() = default;
	virtual const char *name() const { return "?"; }
};
// Two bases: its first word is the vtable's first group.
struct Label final : Shape, Named {
	int corners() const override { return 0; }
	const char *name() const override { return "label"; }
	char text[40] = {};
};
// A virtual base: its vtable starts with a virtual base offset.
struct Ring final : virtual Named {
	Ring *next = nullptr;
};
template <class T> struct Box final : Named {
	T content{};
};
} // namespace app

struct Record {
	char name[24];
	uintptr_t hidden; // ~address
	size_t usable;
	const char *kind, *holder;
};
static Record records[64];
static std::atomic<size_t> num_records; // two threads note theirs

extern "C" {
void *g_pointer;                  // one object
void *g_array[8];                 // one in the middle
void *g_first, *g_second;         // the same object twice
char *g_interior;                 // behind the first byte of an object
void *g_chain;                    // an object that holds another one
struct Node {
	Node *next;
	long payload[2];
};
Node *g_list;
__thread void *t_pointer;         // main's and the worker's
app::Shape *g_shapes[64];
app::Ring *g_ring;
app::Named *g_boxes[4];
static void **own_page, **shared_page, **sealed_page;
void **g_pages[3];                // so that the pages are no secret
}

static void note(const char *name, void *object, const char *kind,
		 const char *holder)
{
	Record &r = records[num_records++];

	snprintf(r.name, sizeof(r.name), "%s", name);
	r.hidden = ~reinterpret_cast<uintptr_t>(object);
	r.usable = malloc_usable_size(object);
	r.kind = kind;
	r.holder = holder;
}

__attribute__((noinline)) static void clear_stack()
{
	volatile char junk[32 << 10];

	for (size_t i = 0; i < sizeof(junk); i++)
		junk[i] = 0;
}

static void **map_page(int flags)
{
	void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE,
			  flags | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		abort();
	return static_cast<void **>(page);
}

__attribute__((noinline)) static void build_held()
{
	g_pointer = calloc(1, 100);
	note("by_global", g_pointer, "global", "g_pointer");
	g_array[5] = calloc(1, 200);
	note("by_array", g_array[5], "global", "g_array");
	g_first = g_second = calloc(1, 300);
	note("by_two", g_first, "several", "-");
	g_interior = static_cast<char *>(calloc(1, 400)) + 250;
	note("by_interior", g_interior - 250, "global", "g_interior");
	g_chain = calloc(1, 48);
	*static_cast<void **>(g_chain) = calloc(1, 5000);
	note("by_chain", *static_cast<void **>(g_chain), "global", "g_chain");
	t_pointer = calloc(1, 56);
	note("by_tls", t_pointer, "tls", "-");
	own_page = g_pages[0] = map_page(MAP_PRIVATE);
	own_page[100] = calloc(1, 600);
	note("by_page", own_page[100], "unknown_memory", "-");
	shared_page = g_pages[1] = map_page(MAP_SHARED);
	shared_page[7] = calloc(1, 700);
	note("by_shared", shared_page[7], "shared", "-");
	sealed_page = g_pages[2] = map_page(MAP_PRIVATE);
	sealed_page[9] = calloc(1, 800);
	note("by_sealed", sealed_page[9], "unknown_memory", "-");
	mprotect(sealed_page, 4096, PROT_READ);
	void *large = calloc(1, 1 << 20); // a mapping of its own
	g_array[1] = large;
	note("by_mmap", large, "global", "g_array");
}

__attribute__((noinline)) static void build_lists()
{
	for (int i = 0; i < 1000; i++) {
		Node *node = static_cast<Node *>(calloc(1, sizeof(Node)));

		node->next = g_list;
		g_list = node;
	}
	for (int i = 0; i < 40; i++)
		g_shapes[i] = new app::Square;
	for (int i = 40; i < 60; i++)
		g_shapes[i] = new app::Label;
	for (int i = 0; i < 7; i++) {
		app::Ring *ring = new app::Ring;

		ring->next = g_ring;
		g_ring = ring;
	}
	g_boxes[0] = new app::Box<int>;
	g_boxes[1] = new app::Box<app::Square>;
}

__attribute__((noinline)) static void build_leaks()
{
	void **head = static_cast<void **>(calloc(1, 2000));
	void **below = static_cast<void **>(calloc(1, 2100));
	void **cycle_a = static_cast<void **>(calloc(1, 2200));
	void **cycle_b = static_cast<void **>(calloc(1, 2300));

	head[3] = below;
	cycle_a[0] = cycle_b;
	cycle_b[0] = cycle_a;
	below[0] = g_pointer; // from the unreachable to the reachable
	note("lost_head", head, "unreachable", "-");
	note("lost_below", below, "unreachable", "-");
	note("lost_cycle_a", cycle_a, "unreachable", "-");
	note("lost_cycle_b", cycle_b, "unreachable", "-");
	// Before a free chunk in a bin: the bin's address of that chunk lies in
	// the last word of the block before it, which is not held by that.
	void *before = calloc(1, 4100);
	void *binned = calloc(1, 5200), *fence = calloc(1, 24);
	note("lost_before_bin", before, "unreachable", "-");
	free(binned);
	free(calloc(1, 100000)); // sorts it into its bin
	g_array[7] = fence;
	void *gone = calloc(1, 744); // freed: must not be an object
	note("freed", gone, "freed", "-");
	free(gone);
}

static pthread_barrier_t barrier;

// A thread on a stack of the program's own, in the upper half of a mapping
// with a table in the lower half.
static char *own_stack;
enum { OWN_STACK = 256 << 10, OWN_TABLE = 64 << 10 };

__attribute__((noinline)) static void build_table()
{
	own_stack = static_cast<char *>(
		mmap(nullptr, OWN_TABLE + OWN_STACK, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	void **table = reinterpret_cast<void **>(own_stack);

	table[100] = calloc(1, 1200);
	note("by_table", table[100], "unknown_memory", "-");
}

static void *on_own_stack(void *)
{
	pthread_barrier_wait(&barrier);
	for (;;)
		pause();
}

// Leaves pointers to a lost object far below the stack pointer: dead memory.
__attribute__((noinline)) static void leave_below()
{
	void *volatile dead[4096];

	dead[0] = calloc(1, 1300);
	for (size_t i = 1; i < 2048; i++)
		dead[i] = dead[0];
	note("lost_below_sp", dead[0], "unreachable", "-");
	for (size_t i = 2048; i < 4096; i++)
		dead[i] = nullptr; // near the callers, which go on
}

static void *worker(void *arg)
{
	void *volatile on_stack = calloc(1, 900);

	(void)arg;
	pthread_setname_np(pthread_self(), "worker-7");
	t_pointer = calloc(1, 1000);
	note("by_worker_tls", t_pointer, "tls", "-");
	note("by_worker_stack", on_stack, "stack", "-");
	clear_stack();
	leave_below();
	void *lost = calloc(1, 1400); // only in a register that is no one's
	note("lost_in_vector", lost, "unreachable", "-");
	volatile uintptr_t hidden = ~reinterpret_cast<uintptr_t>(lost);
	lost = nullptr;
	clear_stack();
	pthread_barrier_wait(&barrier);
	asm volatile("movq %0, %%rax\n\t"
		     "notq %%rax\n\t"
		     "movq %%rax, %%xmm9\n\t"
		     "xorl %%eax, %%eax"
		     :
		     : "m"(hidden)
		     : "rax", "xmm9");
	for (;;)
		pause();
	return on_stack;
}

// Spins with an object that is nowhere but in a vector register.
static void *spinner(void *)
{
	void *object = calloc(1, 1100);
	uint64_t *word = static_cast<uint64_t *>(mmap(
		nullptr, 4096, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

	note("by_vector", object, "register", "xstate");
	*word = reinterpret_cast<uint64_t>(object);
	object = nullptr;
	clear_stack();
	pthread_barrier_wait(&barrier);
	asm volatile("movq (%0), %%xmm15\n\t"
		     "movq $0, (%0)\n"
		     "1:\tpause\n\t"
		     "jmp 1b"
		     :
		     : "r"(word)
		     : "xmm15", "memory");
	return nullptr;
}

__attribute__((noinline)) static void tell()
{
	size_t list_bytes = 0;

	for (Node *node = g_list; node; node = node->next)
		list_bytes += malloc_usable_size(node);
	for (size_t i = 0; i < num_records; i++)
		printf("object %s 0x%lx %zu %s %s\n", records[i].name,
		       ~records[i].hidden, records[i].usable, records[i].kind,
		       records[i].holder);
	printf("class app::Square 40\nclass app::Label 20\nclass app::Ring 7\n"
	       "class app::Box<int> 1\nclass app::Box<app::Square> 1\n");
	printf("list g_list 1000 %zu\n", list_bytes);
	printf("ready\n");
	fflush(stdout);
}

int main()
{
	pthread_t threads[3];
	pthread_attr_t attr;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	pthread_barrier_init(&barrier, nullptr, 4);
	build_held();
	build_lists();
	build_table();
	build_leaks();
	clear_stack();
	if (pthread_create(&threads[0], nullptr, worker, nullptr) ||
	    pthread_create(&threads[1], nullptr, spinner, nullptr))
		abort();
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, own_stack + OWN_TABLE, OWN_STACK);
	if (pthread_create(&threads[2], &attr, on_own_stack, nullptr))
		abort();
	pthread_barrier_wait(&barrier);
	tell();
	clear_stack();
	for (;;)
		pause();
}
