// All sessions by id, in shards; the oldest are dropped when there are too many.
// SPDX-License-Identifier: MIT
#ifndef SESSION_SERVICE_SESSION_STORE_H
#define SESSION_SERVICE_SESSION_STORE_H

#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>

#include "component.h"
#include "session.h"

class SessionStore final : public Component {
public:
	explicit SessionStore(size_t max_sessions)
		: max_per_shard_(max_sessions / num_shards)
	{
	}

	// Find a session, or open one: of a member if user is not 0. The
	// function is called with the session locked against the others.
	template <class F> void with(uint64_t id, uint32_t user, F &&function)
	{
		Shard &shard = shards_[id % num_shards];
		std::lock_guard<std::mutex> lock(shard.mutex);
		std::shared_ptr<Session> &session = shard.by_id[id];

		if (!session) {
			session = open(id, user);
			shard.by_age.push_back(id);
		}
		function(*session);
	}

	// Drop the oldest sessions beyond the limit.
	void expire();

	void print(std::ostream &out) const override;

private:
	static constexpr size_t num_shards = 8;

	struct Shard {
		std::mutex mutex;
		std::unordered_map<uint64_t, std::shared_ptr<Session>> by_id;
		std::deque<uint64_t> by_age;
	};

	std::shared_ptr<Session> open(uint64_t id, uint32_t user);
	std::shared_ptr<const Profile> profile_of(uint32_t user);

	size_t max_per_shard_;
	std::array<Shard, num_shards> shards_;
	std::mutex profiles_mutex_;
	std::map<uint32_t, std::shared_ptr<const Profile>> profiles_;
};

#endif
