// Rendered pages. When there are too many, those that were not used go first.
// SPDX-License-Identifier: MIT
#ifndef SESSION_SERVICE_PAGE_CACHE_H
#define SESSION_SERVICE_PAGE_CACHE_H

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "component.h"
#include "truth.h"

class Page final : public Counted<Page> {
public:
	Page(uint64_t key, std::string html)
		: key_(key), html_(std::move(html))
	{
	}
	virtual ~Page() = default;
	virtual uint64_t key() const { return key_; }

	const std::string &html() const { return html_; }
	void use() { used_ = true; }
	// Was it used since the last time?
	bool spared()
	{
		bool used = used_;

		used_ = false;
		return used;
	}

private:
	uint64_t key_;
	bool used_ = false;
	std::string html_;
};

// An approximation of "least recently used": a hand goes round the pages and
// takes the first that was not used since it came by.
//
// The key holds the user as well as the page, so there are as many keys as
// users times pages: the cache only ever grows until it is full. A classic.
class PageCache final : public Component {
public:
	explicit PageCache(size_t max_pages) : max_pages_(max_pages) {}

	// Length of the page, rendered now or earlier.
	size_t fetch(uint32_t page, uint32_t user);

	void print(std::ostream &out) const override;

private:
	static std::string render(uint32_t page, uint32_t user);

	// Place of a page that may be replaced.
	size_t victim();

	size_t max_pages_;
	mutable std::mutex mutex_;
	std::vector<std::unique_ptr<Page>> pages_;
	std::unordered_map<uint64_t, size_t> place_; // in pages_, by key
	size_t hand_ = 0;
	int64_t html_bytes_ = 0; // usable bytes of all html buffers
};

#endif
