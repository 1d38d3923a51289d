// The service's own account: how many objects of each class are alive.
// SPDX-License-Identifier: MIT
#ifndef SESSION_SERVICE_TRUTH_H
#define SESSION_SERVICE_TRUTH_H

#include <malloc.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <ostream>

// Base of classes whose live objects are counted.
template <class T> class Counted {
public:
	static int64_t live() { return live_.load(); }

protected:
	Counted() { live_++; }
	Counted(const Counted &) { live_++; }
	Counted &operator=(const Counted &) = default;
	~Counted() { live_--; }

private:
	static inline std::atomic<int64_t> live_{0};
};

// What malloc makes of a request: the bytes a program may really use.
inline size_t usable_bytes(size_t requested)
{
	void *block = malloc(requested);
	size_t usable = malloc_usable_size(block);

	free(block);
	return usable;
}

// One line of the account: a name, a count and bytes.
inline void print_truth(std::ostream &out, const char *name, int64_t count,
			int64_t bytes)
{
	out << name << ' ' << count << ' ' << bytes << '\n';
}

template <class T> void print_counted(std::ostream &out, const char *name)
{
	int64_t count = T::Counted::live();

	print_truth(out, name, count, count * usable_bytes(sizeof(T)));
}

#endif
