// Generator of heaps: a program with as many live objects as it is told, of
// the kinds that programs have, in a real malloc; it says what it built.
// SPDX-License-Identifier: MIT
//
// usage: gen_heap [OBJECTS [SEED]]
//
// Prints one "key value" line for each fact (bytes are usable sizes) and at
// last "ready"; then waits until its standard input ends. Everything hangs on
// the global `everything`, but for every thousandth list, which nothing holds.
// Besides what it counts there are the few blocks of its libraries.

#include <malloc.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

struct Counter {
	uint64_t objects, bytes;
};

// Live blocks that were asked for through this program's own calls.
Counter live;

void *count(void *block)
{
	if (!block) {
		std::fprintf(stderr, "gen_heap: out of memory\n");
		std::exit(1);
	}
	live.objects++;
	live.bytes += malloc_usable_size(block);
	return block;
}

void discount(void *block)
{
	if (!block)
		return;
	live.objects--;
	live.bytes -= malloc_usable_size(block);
}

template <typename T> T *make()
{
	return static_cast<T *>(count(std::calloc(1, sizeof(T))));
}

uint64_t random_u64(uint64_t *seed)
{
	uint64_t x = *seed;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *seed = x;
}

} // namespace

void *operator new(std::size_t size)
{
	return count(std::malloc(size));
}

void operator delete(void *block) noexcept
{
	discount(block);
	std::free(block);
}

void operator delete(void *block, std::size_t) noexcept
{
	discount(block);
	std::free(block);
}

namespace {

// Plain C kinds.

struct ListNode {
	ListNode *next, *previous;
	char *text;
	uint64_t key;
};

struct TreeNode {
	TreeNode *left, *right, *up;
	uint64_t key, weight;
};

struct HashEntry {
	HashEntry *next;
	char *name;
	uint64_t value;
};

struct HashTable {
	HashEntry **buckets;
	uint64_t num_buckets;
};

// C++ kinds.

struct Shape {
	virtual ~Shape() = default;
	virtual double area() const = 0;
	std::string label;
};

struct Circle : Shape {
	double area() const override { return 3.14159 * radius * radius; }
	double radius = 1;
};

struct Box : Shape {
	double area() const override { return width * height; }
	double width = 1, height = 1;
	std::shared_ptr<std::string> note;
};

struct Everything {
	std::vector<ListNode *> lists;
	std::vector<TreeNode *> trees;
	std::vector<HashTable *> tables;
	std::map<std::string, std::vector<int>> by_name;
	std::unordered_map<uint64_t, std::string> by_key;
	std::deque<std::unique_ptr<Shape>> shapes;
	std::list<std::vector<double>> samples;
};

} // namespace

// Not in the anonymous namespace: a symbol to find it by.
Everything *everything;

namespace {

char *make_text(uint64_t *seed)
{
	std::size_t len = 8 + random_u64(seed) % 56;
	char *text = static_cast<char *>(count(std::malloc(len)));

	std::snprintf(text, len, "t%" PRIu64, random_u64(seed) % 1000000);
	return text;
}

void build_list(uint64_t *seed, uint64_t *lost)
{
	ListNode *head = nullptr;
	uint64_t before = live.objects;

	for (uint64_t left = 10 + random_u64(seed) % 200; left; left--) {
		ListNode *node = make<ListNode>();

		node->key = random_u64(seed);
		if (random_u64(seed) % 2)
			node->text = make_text(seed);
		node->next = head;
		if (head)
			head->previous = node;
		head = node;
	}
	if (random_u64(seed) % 1000 == 0)
		*lost += live.objects - before;
	else
		everything->lists.push_back(head);
}

void build_tree(uint64_t *seed)
{
	TreeNode *root = nullptr;

	for (uint64_t left = 100 + random_u64(seed) % 2000; left; left--) {
		TreeNode *node = make<TreeNode>(), *up = nullptr;
		TreeNode **at = &root;

		node->key = random_u64(seed);
		while (*at) {
			up = *at;
			at = node->key < up->key ? &up->left : &up->right;
		}
		node->up = up;
		*at = node;
	}
	everything->trees.push_back(root);
}

void build_table(uint64_t *seed)
{
	HashTable *table = make<HashTable>();

	table->num_buckets = 64 + random_u64(seed) % 1024;
	table->buckets = static_cast<HashEntry **>(
		count(std::calloc(table->num_buckets, sizeof(HashEntry *))));
	for (uint64_t left = table->num_buckets; left; left--) {
		HashEntry *entry = make<HashEntry>();
		HashEntry **bucket =
			&table->buckets[random_u64(seed) % table->num_buckets];

		entry->name = make_text(seed);
		entry->next = *bucket;
		*bucket = entry;
	}
	everything->tables.push_back(table);
}

void build_containers(uint64_t *seed)
{
	for (int i = 0; i < 100; i++) {
		uint64_t key = random_u64(seed);
		std::string name = "a name too long to be kept inside " +
				   std::to_string(key % 10000000);

		everything->by_name[name].resize(1 + key % 30);
		everything->by_key[key] = name;
		everything->samples.emplace_back(1 + key % 50);
		if (key % 3) {
			auto circle = std::make_unique<Circle>();

			circle->label = name;
			everything->shapes.push_back(std::move(circle));
		} else {
			auto box = std::make_unique<Box>();

			box->note = std::make_shared<std::string>(name);
			everything->shapes.push_back(std::move(box));
		}
	}
}

struct Kind {
	const char *name;
	uint64_t objects;
};

} // namespace

int main(int argc, char **argv)
{
	uint64_t num = argc > 1 ? std::strtoull(argv[1], nullptr, 0) : 1000000;
	uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 0) : 1;
	uint64_t lost = 0;
	Kind kinds[] = { { "list", 0 }, { "tree", 0 }, { "table", 0 },
			 { "container", 0 } };

	if (num == 0 || seed == 0 || argc > 3) {
		std::fprintf(stderr, "usage: gen_heap [OBJECTS [SEED]]\n");
		return 2;
	}
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	seed *= 88172645463325252u;
	everything = new Everything;
	// A quarter of the objects of each kind.
	while (live.objects < num) {
		Kind *kind = &kinds[0];
		uint64_t before = live.objects;

		for (Kind &other : kinds)
			if (other.objects < kind->objects)
				kind = &other;
		switch (kind - kinds) {
		case 0:
			build_list(&seed, &lost);
			break;
		case 1:
			build_tree(&seed);
			break;
		case 2:
			build_table(&seed);
			break;
		default:
			build_containers(&seed);
		}
		kind->objects += live.objects - before;
	}
	std::printf("pid %d\nobjects %" PRIu64 "\nbytes %" PRIu64
		    "\nlost_objects %" PRIu64 "\n",
		    getpid(), live.objects, live.bytes, lost);
	for (const Kind &kind : kinds)
		std::printf("%s_objects %" PRIu64 "\n", kind.name,
			    kind.objects);
	std::printf("ready\n");
	std::fflush(stdout);
	char byte;
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return 0;
}
