// Rendered pages. When there are too many, those that were not used go first.
// SPDX-License-Identifier: MIT
#include "page_cache.h"

static int64_t buffer_bytes(const std::string &text)
{
	return malloc_usable_size(const_cast<char *>(text.data()));
}

std::string PageCache::render(uint32_t page, uint32_t user)
{
	std::string html;

	html.reserve(600 + page % 3 * 600);
	html += "<h1>Page " + std::to_string(page) + " for " +
		std::to_string(user) + "</h1>";
	html.resize(html.capacity(), '.');
	return html;
}

size_t PageCache::victim()
{
	while (pages_[hand_]->spared())
		hand_ = (hand_ + 1) % pages_.size();
	return hand_;
}

size_t PageCache::fetch(uint32_t page, uint32_t user)
{
	uint64_t key = uint64_t{page} << 32 | user;
	std::lock_guard<std::mutex> lock(mutex_);
	auto found = place_.find(key);

	if (found != place_.end()) {
		pages_[found->second]->use();
		return pages_[found->second]->html().size();
	}

	auto rendered = std::make_unique<Page>(key, render(page, user));
	size_t size = rendered->html().size();
	html_bytes_ += buffer_bytes(rendered->html());
	if (pages_.size() < max_pages_) {
		place_[key] = pages_.size();
		pages_.push_back(std::move(rendered));
		return size;
	}
	size_t place = victim();
	html_bytes_ -= buffer_bytes(pages_[place]->html());
	place_.erase(pages_[place]->key());
	place_[key] = place;
	pages_[place] = std::move(rendered);
	return size;
}

void PageCache::print(std::ostream &out) const
{
	std::lock_guard<std::mutex> lock(mutex_);

	print_counted<Page>(out, "Page");
	print_truth(out, "page_html", pages_.size(), html_bytes_);
}
