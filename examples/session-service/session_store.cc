// All sessions by id, in shards; the oldest are dropped when there are too many.
// SPDX-License-Identifier: MIT
#include "session_store.h"

std::shared_ptr<Session> SessionStore::open(uint64_t id, uint32_t user)
{
	if (user == 0)
		return std::shared_ptr<Session>(new GuestSession(id));
	return std::shared_ptr<Session>(
		new MemberSession(id, profile_of(user)));
}

std::shared_ptr<const Profile> SessionStore::profile_of(uint32_t user)
{
	std::lock_guard<std::mutex> lock(profiles_mutex_);
	std::shared_ptr<const Profile> &profile = profiles_[user];

	if (!profile)
		profile.reset(new Profile(
			user, "user-" + std::to_string(user) +
				      "@mail.example.org"));
	return profile;
}

void SessionStore::expire()
{
	for (Shard &shard : shards_) {
		std::lock_guard<std::mutex> lock(shard.mutex);

		while (shard.by_age.size() > max_per_shard_) {
			shard.by_id.erase(shard.by_age.front());
			shard.by_age.pop_front();
		}
	}
}

void SessionStore::print(std::ostream &out) const
{
	print_counted<GuestSession>(out, "GuestSession");
	print_counted<MemberSession>(out, "MemberSession");
	print_counted<Profile>(out, "Profile");
	print_counted<PageView>(out, "PageView");
	print_counted<Purchase>(out, "Purchase");
}
