// Rendered pages, the least recently used of which are dropped.
// SPDX-License-Identifier: MIT
#include "page_cache.h"

static int64_t buffer_bytes(const std::string &text)
{
	return malloc_usable_size(const_cast<char *>(text.data()));
}

std::string PageCache::render(uint32_t page, uint32_t user)
{
	std::string html;

	html.reserve(400 + page % 16 * 100);
	html += "<h1>Page " + std::to_string(page) + " for " +
		std::to_string(user) + "</h1>";
	html.resize(html.capacity(), '.');
	return html;
}

size_t PageCache::fetch(uint32_t page, uint32_t user)
{
	uint64_t key = uint64_t{page} << 32 | user;
	std::lock_guard<std::mutex> lock(mutex_);
	auto found = by_key_.find(key);

	if (found != by_key_.end()) {
		pages_.splice(pages_.begin(), pages_, found->second);
		pages_.front().hits++;
		return pages_.front().html.size();
	}
	pages_.push_front(Page{key, 0, render(page, user)});
	by_key_[key] = pages_.begin();
	html_bytes_ += buffer_bytes(pages_.front().html);
	if (pages_.size() > max_pages_) {
		html_bytes_ -= buffer_bytes(pages_.back().html);
		by_key_.erase(pages_.back().key);
		pages_.pop_back();
	}
	return pages_.front().html.size();
}

void PageCache::print(std::ostream &out) const
{
	std::lock_guard<std::mutex> lock(mutex_);
	int64_t count = pages_.size();

	// A list's node is the page behind two pointers.
	print_truth(out, "cached_page", count,
		    count * usable_bytes(2 * sizeof(void *) + sizeof(Page)));
	print_truth(out, "page_html", count, html_bytes_);
}
