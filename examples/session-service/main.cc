// A session service that loads itself: something to take snapshots of.
// SPDX-License-Identifier: MIT
//
// usage: session-service [--threads N] [--rate N] [--requests N]
//                        [--seconds N] [--truth FILE]
//
//   --threads N   threads that make requests (4)
//   --rate N      requests a second, all threads together; 0: no limit (4000)
//   --requests N  stop after so many in all and stay idle; 0: go on (0)
//   --seconds N   end after that time; 0: on SIGTERM or SIGINT (0)
//   --truth FILE  keep the service's own account of its heap in FILE
//
// SIGUSR1 prints the account: lines of name, count, bytes.
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <thread>
#include <vector>

#include "audit.h"
#include "page_cache.h"
#include "session_store.h"

using Clock = std::chrono::steady_clock;

namespace {

struct Options {
	unsigned long threads = 4;
	unsigned long rate = 4000;
	unsigned long requests = 0;
	unsigned long seconds = 0;
	const char *truth = nullptr;
};

struct Service {
	std::unique_ptr<SessionStore> sessions{new SessionStore(8000)};
	std::unique_ptr<PageCache> pages{new PageCache(60000)};
	std::unique_ptr<Audit> audit{new Audit};
	std::atomic<bool> stopping{false};
	std::atomic<uint64_t> num_requests{0};
	std::atomic<uint64_t> slowest_us{0};
};

// A small generator with a fixed seed: every run makes the same requests.
class Random {
public:
	explicit Random(uint64_t seed) : state_(seed) {}
	uint32_t below(uint32_t limit)
	{
		uint64_t x = state_ += 0x9e3779b97f4a7c15;

		x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
		x = (x ^ x >> 27) * 0x94d049bb133111eb;
		return (x >> 33) % limit;
	}

private:
	uint64_t state_;
};

int64_t now_ns()
{
	return Clock::now().time_since_epoch().count();
}

// What one thread's visitors do.
class Visitors {
public:
	Visitors(Service &service, uint32_t number)
		: service_(service), number_(number), random_(number)
	{
	}

	void request()
	{
		if (visit_ == 0 || random_.below(40) == 0) {
			visit_++;
			user_ = random_.below(3) ? random_.below(5000) + 1 : 0;
		}
		uint64_t session = visit_ << 8 | number_;
		uint32_t page = random_.below(1000);
		uint32_t cents = random_.below(10) ? 0 : random_.below(20000);

		service_.pages->fetch(page, user_);
		service_.sessions->with(session, user_, [&](Session &s) {
			s.set("last page", "/shop/articles/page-" +
						   std::to_string(page));
			if (cents)
				s.add(std::unique_ptr<Event>(new Purchase(
					"article number " +
						std::to_string(page),
					cents)));
			else
				s.add(std::unique_ptr<Event>(
					new PageView(page, now_ns())));
			if (auto *m = dynamic_cast<MemberSession *>(&s))
				m->put_in_basket(page);
		});
		if (cents > 18000)
			service_.audit->note(session, cents);
	}

private:
	Service &service_;
	uint32_t number_;
	Random random_;
	uint64_t visit_ = 0;
	uint32_t user_ = 0;
};

void name_thread(const std::string &name)
{
	pthread_setname_np(pthread_self(), name.c_str());
}

void run_load(Service &service, const Options &options, uint32_t number)
{
	Visitors visitors(service, number);
	Clock::time_point next = Clock::now();
	uint64_t todo = options.requests / options.threads;

	name_thread("load-" + std::to_string(number));
	for (uint64_t done = 0; !service.stopping; done++) {
		if (options.requests && done == todo)
			return;
		Clock::time_point start = Clock::now();
		visitors.request();
		uint64_t us = std::chrono::duration_cast<
				      std::chrono::microseconds>(
				      Clock::now() - start)
				      .count();

		service.num_requests++;
		for (uint64_t slowest = service.slowest_us; us > slowest;)
			if (service.slowest_us.compare_exchange_weak(slowest,
								     us))
				break;
		if (options.rate) {
			next += std::chrono::nanoseconds(
				1000000000 * options.threads / options.rate);
			std::this_thread::sleep_until(next);
		}
	}
}

void run_janitor(Service &service)
{
	name_thread("janitor");
	while (!service.stopping) {
		service.sessions->expire();
		std::this_thread::sleep_for(std::chrono::milliseconds(50));
	}
}

void print_account(const Service &service, std::ostream &out)
{
	out << "requests " << service.num_requests << " 0\n";
	out << "slowest_us " << service.slowest_us << " 0\n";
	service.sessions->print(out);
	service.pages->print(out);
	service.audit->print(out);
	out.flush();
}

// Readers see the account before or the one after, never half of one.
void write_account(const Service &service, const std::string &path)
{
	std::string draft = path + ".new";
	std::ofstream out(draft);

	print_account(service, out);
	out.close();
	if (!out || rename(draft.c_str(), path.c_str()) < 0) {
		perror(("cannot write '" + path + "'").c_str());
		exit(1);
	}
}

bool parse(int argc, char **argv, Options &options)
{
	const std::map<std::string, unsigned long *> numbers = {
		{"--threads", &options.threads},
		{"--rate", &options.rate},
		{"--requests", &options.requests},
		{"--seconds", &options.seconds},
	};

	if (argc % 2 == 0)
		return false;
	for (int i = 1; i < argc; i += 2) {
		const char *value = argv[i + 1];
		auto found = numbers.find(argv[i]);
		char *end;

		if (!strcmp(argv[i], "--truth")) {
			options.truth = value;
			continue;
		}
		if (found == numbers.end())
			return false;
		*found->second = strtoul(value, &end, 10);
		if (*value < '0' || *value > '9' || *end)
			return false;
	}
	return options.threads > 0 && options.threads < 256;
}

} // namespace

// Global, as in many services: this is where everything hangs.
Service *service;

int main(int argc, char **argv)
{
	Options options;
	sigset_t signals;
	std::vector<std::thread> threads;

	if (!parse(argc, argv, options)) {
		std::cerr << "usage: session-service [--threads N] [--rate N]"
			     " [--requests N] [--seconds N] [--truth FILE]\n";
		return 2;
	}
	// Threads inherit the mask: signals come to this thread only.
	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	pthread_sigmask(SIG_BLOCK, &signals, nullptr);

	service = new Service;
	for (uint32_t i = 1; i <= options.threads; i++)
		threads.emplace_back(run_load, std::ref(*service),
				     std::cref(options), i);
	std::thread janitor(run_janitor, std::ref(*service));

	const Clock::time_point start = Clock::now();
	const timespec pause = {0, 50000000};
	for (;;) {
		int signal = sigtimedwait(&signals, nullptr, &pause);

		if (signal == SIGUSR1)
			print_account(*service, std::cout);
		if (signal == SIGTERM || signal == SIGINT)
			break;
		if (options.truth)
			write_account(*service, options.truth);
		if (options.seconds &&
		    Clock::now() - start >=
			    std::chrono::seconds(options.seconds))
			break;
	}
	service->stopping = true;
	for (std::thread &thread : threads)
		thread.join();
	janitor.join();
	print_account(*service, std::cout);
	delete service;
	return 0;
}
