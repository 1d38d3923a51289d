// Rendered pages, the least recently used of which are dropped.
// SPDX-License-Identifier: MIT
#ifndef SESSION_SERVICE_PAGE_CACHE_H
#define SESSION_SERVICE_PAGE_CACHE_H

#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <unordered_map>

#include "component.h"
#include "truth.h"

// The key holds the user as well as the page, so there are as many keys as
// users times pages: the cache only ever grows until it is full. A classic.
class PageCache final : public Component {
public:
	explicit PageCache(size_t max_pages) : max_pages_(max_pages) {}

	// Length of the page, rendered now or earlier.
	size_t fetch(uint32_t page, uint32_t user);

	void print(std::ostream &out) const override;

private:
	struct Page {
		uint64_t key;
		uint64_t hits;
		std::string html;
	};

	static std::string render(uint32_t page, uint32_t user);

	size_t max_pages_;
	mutable std::mutex mutex_;
	std::list<Page> pages_; // most recently used first
	std::unordered_map<uint64_t, std::list<Page>::iterator> by_key_;
	int64_t html_bytes_ = 0; // usable bytes of all html buffers
};

#endif
