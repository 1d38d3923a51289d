// Sessions of a web shop, and what happened in them.
// SPDX-License-Identifier: MIT
#ifndef SESSION_SERVICE_SESSION_H
#define SESSION_SERVICE_SESSION_H

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "truth.h"

// What a visitor did. A session keeps a list of them.
class Event {
public:
	virtual ~Event() = default;
	virtual uint64_t cents() const = 0;
};

class PageView final : public Event, public Counted<PageView> {
public:
	PageView(uint32_t page, int64_t at_ns) : page_(page), at_ns_(at_ns) {}
	uint64_t cents() const override { return 0; }
	uint32_t page() const { return page_; }
	int64_t at_ns() const { return at_ns_; }

private:
	uint32_t page_;
	int64_t at_ns_;
};

class Purchase final : public Event, public Counted<Purchase> {
public:
	Purchase(std::string article, uint32_t cents)
		: article_(std::move(article)), cents_(cents)
	{
	}
	uint64_t cents() const override { return cents_; }

private:
	std::string article_; // too long for the inside of a string object
	uint32_t cents_;
};

// Who a visitor is; shared by all sessions of that user.
class Profile final : public Counted<Profile> {
public:
	Profile(uint32_t user, std::string mail)
		: user_(user), mail_(std::move(mail))
	{
	}
	virtual ~Profile() = default;
	virtual uint32_t user() const { return user_; }

private:
	uint32_t user_;
	std::string mail_;
};

class Session {
public:
	explicit Session(uint64_t id) : id_(id) {}
	virtual ~Session() = default;
	virtual uint32_t user() const = 0;

	uint64_t id() const { return id_; }

	void set(const std::string &name, std::string value)
	{
		attributes_[name] = std::move(value);
	}

	// Only the last events are kept.
	void add(std::unique_ptr<Event> event)
	{
		cents_ += event->cents();
		events_.push_back(std::move(event));
		if (events_.size() > max_events)
			events_.pop_front();
	}

private:
	static constexpr size_t max_events = 40;

	uint64_t id_;
	uint64_t cents_ = 0;
	std::map<std::string, std::string> attributes_;
	std::list<std::unique_ptr<Event>> events_;
};

class GuestSession final : public Session, public Counted<GuestSession> {
public:
	using Session::Session;
	uint32_t user() const override { return 0; }
};

class MemberSession final : public Session, public Counted<MemberSession> {
public:
	MemberSession(uint64_t id, std::shared_ptr<const Profile> profile)
		: Session(id), profile_(std::move(profile))
	{
	}
	uint32_t user() const override { return profile_->user(); }
	void put_in_basket(uint32_t article)
	{
		if (basket_.size() < 16)
			basket_.push_back(article);
	}

private:
	std::shared_ptr<const Profile> profile_;
	std::vector<uint32_t> basket_;
};

#endif
