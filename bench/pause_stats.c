/* Statistics of the bench of the pause: series of times, and the machine.
 * SPDX-License-Identifier: MIT */
#include "bench/pause_stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

void bench_series_add(struct bench_series *series, uint64_t ns)
{
	if (series->num < BENCH_MAX_ROUNDS)
		series->ns[series->num++] = ns;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

void bench_sort(uint64_t *values, size_t num)
{
	qsort(values, num, sizeof(*values), by_value);
}

double bench_median_ms(const struct bench_series *series)
{
	struct bench_series sorted = *series;

	if (!series->num)
		return 0;
	bench_sort(sorted.ns, sorted.num);
	/* Of an even number: the lower one of the two in the middle. */
	return (double)sorted.ns[(sorted.num - 1) / 2] / 1e6;
}

double bench_min_ms(const struct bench_series *series)
{
	uint64_t min = UINT64_MAX;

	for (size_t i = 0; i < series->num; i++)
		if (series->ns[i] < min)
			min = series->ns[i];
	return series->num ? (double)min / 1e6 : 0;
}

double bench_ratio(const struct bench_series *a, const struct bench_series *b)
{
	double over = bench_median_ms(a), under = bench_median_ms(b);

	return over > 0 && under > 0 ? over / under : 0;
}

double bench_least_ratio(const struct bench_series *a,
			 const struct bench_series *b)
{
	double over = bench_min_ms(a), under = bench_min_ms(b);

	return over > 0 && under > 0 ? over / under : 0;
}

uint64_t bench_quantile(const uint64_t *sorted, size_t num, double share)
{
	size_t rank;

	if (!num)
		return 0;
	rank = (size_t)(share * (double)num);
	if ((double)rank < share * (double)num)
		rank++;
	return sorted[rank ? rank - 1 : 0];
}

/* The rest of the first line of a file that begins with `key`, without blanks
 * and colons before it; "" if there is none. */
static void read_value(const char *path, const char *key, char *buf,
		       size_t size)
{
	FILE *file = fopen(path, "r");
	char line[4096];

	buf[0] = '\0';
	while (file && fgets(line, sizeof(line), file)) {
		const char *value = line + strlen(key);

		if (strncmp(line, key, strlen(key)))
			continue;
		value += strspn(value, ": \t");
		snprintf(buf, size, "%.*s", (int)strcspn(value, "\n"), value);
		break;
	}
	if (file)
		fclose(file);
}

uint64_t bench_available_bytes(void)
{
	char kib[64];

	read_value("/proc/meminfo", "MemAvailable", kib, sizeof(kib));
	return strtoull(kib, NULL, 10) * 1024;
}

void bench_print_machine(void)
{
	char cpu[128], flags[4096], thp[128], total[64], date[64];
	time_t now = time(NULL);
	struct utsname name;
	double load[3] = { 0 };

	read_value("/proc/cpuinfo", "model name", cpu, sizeof(cpu));
	read_value("/proc/cpuinfo", "flags", flags, sizeof(flags));
	read_value("/sys/kernel/mm/transparent_hugepage/enabled", "", thp,
		   sizeof(thp));
	read_value("/proc/meminfo", "MemTotal", total, sizeof(total));
	uname(&name);
	if (getloadavg(load, 3) < 0)
		load[0] = -1;
	strftime(date, sizeof(date), "%Y-%m-%d %H:%M", gmtime(&now));
	printf("%s UTC; %s, %ld CPUs%s, %.1f GiB; Linux %s; transparent huge "
	       "pages: %s; load %.1f\n",
	       date, *cpu ? cpu : "unknown processor",
	       sysconf(_SC_NPROCESSORS_ONLN),
	       strstr(flags, " hypervisor") ? " (virtual)" : "",
	       (double)strtoull(total, NULL, 10) / (1 << 20), name.release,
	       *thp ? thp : "none", load[0]);
}
