// Remembers the last thing that was worth an audit. Leaks: that is planted.
// SPDX-License-Identifier: MIT
#ifndef SESSION_SERVICE_AUDIT_H
#define SESSION_SERVICE_AUDIT_H

#include <mutex>
#include <string>

#include "component.h"
#include "truth.h"

class AuditRecord final : public Counted<AuditRecord> {
public:
	AuditRecord(uint64_t session, std::string text)
		: session_(session), text_(std::move(text))
	{
	}
	virtual ~AuditRecord() = default;
	virtual uint64_t session() const { return session_; }

private:
	uint64_t session_;
	std::string text_; // too long for the inside of a string object
};

class Audit final : public Component {
public:
	void note(uint64_t session, uint32_t cents)
	{
		std::lock_guard<std::mutex> lock(mutex_);

		// The planted leak: nobody deletes the record before it.
		last_ = new AuditRecord(session,
					"purchase above the limit, cents: " +
						std::to_string(cents));
	}

	void print(std::ostream &out) const override
	{
		std::lock_guard<std::mutex> lock(mutex_);
		int64_t leaked = AuditRecord::live() - (last_ ? 1 : 0);

		print_truth(out, "leaked_AuditRecord", leaked,
			    leaked * usable_bytes(sizeof(AuditRecord)));
	}

private:
	mutable std::mutex mutex_;
	AuditRecord *last_ = nullptr;
};

#endif
