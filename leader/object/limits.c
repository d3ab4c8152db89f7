/* SPDX-License-Identifier: MIT */
/* How much memory the ring and the copies of files may take on this machine. */
#include "leader/object/limits.h"

#include "shim/config.h"
#include "shim/log.h"
#include "shim/scratch.h"
#include "shim/sys.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Shares of what is free; sharing must stay the smallest tenant of the machine. */
#define CGROUP_PERCENT        10u
#define ADDRESS_SPACE_PERCENT 5u
#define GROWTH_PERCENT        85u

/*
 * A ring that nobody gave a size: for jobs of large memory seconds of slack, as 2 GiB are one
 * for eight jobs that take 3,000 pictures a second.
 */
#define AUTO_LEAST (UINT64_C(2) << 30)
#define AUTO_PART  16u
#define MIB        (UINT64_C(1) << 20)

/* Of a control group, and of a file in it. */
#define DIRECTORY_BYTES 1300u
#define PATH_BYTES      (DIRECTORY_BYTES + 100u)

static uint64_t percent(uint64_t value, uint32_t share)
{
	return value / 100 * share + value % 100 * share / 100;
}

/* Decimal at the start of @text; anything else, such as "max", is no limit. */
static uint64_t parse_decimal(const char *text)
{
	uint64_t value = 0;

	if (*text < '0' || *text > '9')
		return UINT64_MAX;
	for (; *text >= '0' && *text <= '9'; text++) {
		if (value > (UINT64_MAX - 9) / 10)
			return UINT64_MAX;
		value = value * 10 + (uint64_t)(*text - '0');
	}
	return value;
}

/** What the two versions of the memory controller call the same things. */
struct controller {
	const char *mount, *limit, *usage, *cache;
};

static const struct controller version1 = {
	"/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "};
static const struct controller version2 = {
	"", "memory.max", "memory.current", "inactive_file "};

static int read_at(const char *directory, const char *name, char *buffer, size_t bytes)
{
	char *path TS_SCRATCH = ts_scratch();

	if (!path)
		return -ENOMEM;
	ts_format(path, PATH_BYTES, "%s/%s", directory, name);
	return ts_sys_read_file(path, buffer, bytes);
}

/* Page cache that nobody uses: the kernel drops it before it refuses memory to anyone. */
static uint64_t clean_cache(const char *directory, const struct controller *names)
{
	char *buffer TS_SCRATCH = ts_scratch();
	size_t length = strlen(names->cache);

	if (!buffer || read_at(directory, "memory.stat", buffer, TS_SCRATCH_BYTES) < 0)
		return 0;
	for (const char *line = buffer; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, names->cache, length) == 0) {
			uint64_t value = parse_decimal(line + length);
			return value == UINT64_MAX ? 0 : value;
		}
	}
	return 0;
}

/* The limit of one group, less what is used of it unless @all of it is meant. */
static uint64_t room_of(const char *directory, const struct controller *names, bool all)
{
	char buffer[64];

	if (read_at(directory, names->limit, buffer, sizeof(buffer)) < 0)
		return UINT64_MAX;
	uint64_t limit = parse_decimal(buffer);
	if (limit == UINT64_MAX || all)
		return limit;
	if (read_at(directory, names->usage, buffer, sizeof(buffer)) < 0)
		return UINT64_MAX;
	uint64_t usage = parse_decimal(buffer);
	if (usage == UINT64_MAX)
		return UINT64_MAX;
	usage -= ts_min_u64(usage, clean_cache(directory, names));
	return limit > usage ? limit - usage : 0;
}

/* The group at @path (up to a newline) and all above it. */
static uint64_t tightest(
	const char *root, const char *path, const struct controller *names, bool all)
{
	char *directory TS_SCRATCH = ts_scratch();
	uint64_t best = UINT64_MAX;

	if (!directory)
		return best;
	size_t base = ts_format(directory, DIRECTORY_BYTES, "%s%s", root, names->mount);
	size_t end = base;
	while (*path && *path != '\n' && end + 1 < DIRECTORY_BYTES)
		directory[end++] = *path++;
	for (;;) {
		while (end > base && directory[end - 1] == '/')
			end--;
		directory[end] = '\0';
		best = ts_min_u64(best, room_of(directory, names, all));
		if (end == base)
			return best;
		while (end > base && directory[end - 1] != '/')
			end--;
	}
}

/* Whether the comma-separated controllers before @colon contain "memory". */
static bool lists_memory(const char *controllers, const char *colon)
{
	for (const char *word = controllers; word < colon;) {
		const char *end = word;
		while (end < colon && *end != ',')
			end++;
		if (end - word == 6 && strncmp(word, "memory", 6) == 0)
			return true;
		word = end + 1;
	}
	return false;
}

uint64_t ts_limits_cgroup(const char *list, const char *root, bool all)
{
	char *buffer TS_SCRATCH = ts_scratch();
	uint64_t best = UINT64_MAX;

	if (!buffer || ts_sys_read_file(list, buffer, TS_SCRATCH_BYTES) < 0)
		return UINT64_MAX;
	for (const char *line = buffer; line && *line;) {
		const char *next = strchr(line, '\n');
		const char *first = strchr(line, ':');
		const char *second = first ? strchr(first + 1, ':') : NULL;
		if (second && (!next || second < next)) {
			if (second == first + 1)
				best = ts_min_u64(
					best, tightest(root, second + 1, &version2, all));
			else if (lists_memory(first + 1, second))
				best = ts_min_u64(
					best, tightest(root, second + 1, &version1, all));
		}
		line = next ? next + 1 : NULL;
	}
	return best;
}

/* The tightest of our own; with @all its limit, else what is left of it. */
static uint64_t own_cgroup(bool all)
{
	return ts_limits_cgroup("/proc/self/cgroup", "/sys/fs/cgroup", all);
}

uint64_t ts_limits_memory(void)
{
	return ts_min_u64(own_cgroup(true), ts_sys_memory());
}

uint64_t ts_limits_ring(uint64_t wanted, uint64_t memory, uint32_t *ret_why)
{
	uint64_t part = ts_max_u64(memory / AUTO_PART, AUTO_LEAST);

	*ret_why = 0;
	if (wanted != TS_RING_AUTO)
		return wanted;
	*ret_why = (uint32_t)ts_min_u64(memory / MIB, TS_RING_CUT - 1);
	/* Where files may not have as much there would be no ring at all. */
	return ts_limits_allow_file(part) ? part : AUTO_LEAST;
}

bool ts_limits_allow_file(uint64_t bytes)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
	       bytes <= limit.rlim_cur;
}

uint64_t ts_limits_address_space(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return percent(limit.rlim_cur, ADDRESS_SPACE_PERCENT);
}

/* @share of @value and of what the ring has of it already. */
static uint64_t share_of(uint64_t value, uint64_t allocated, uint32_t share)
{
	if (value > UINT64_MAX - allocated)
		return UINT64_MAX;
	return percent(value + allocated, share);
}

#ifdef TS_TEST_BUILD
/* A test's machine has TSSHIM_TEST_ROOM bytes. */
static const char *room_of_test(void)
{
	return getenv("TSSHIM_TEST_ROOM");
}
#endif

uint64_t ts_limits_machine(int fd, uint64_t allocated)
{
#ifdef TS_TEST_BUILD
	if (room_of_test())
		return parse_decimal(room_of_test());
#endif
	uint64_t limit = ts_limits_address_space();
	uint64_t available;

	limit = ts_min_u64(limit, share_of(own_cgroup(false), allocated, CGROUP_PERCENT));
	if (ts_sys_free_bytes(fd, &available) < 0)
		return 0;
	return ts_min_u64(limit, share_of(available, allocated, TS_LIMITS_TMPFS_PERCENT));
}

uint64_t ts_limits_files(int fd, uint64_t allocated, bool in_memory)
{
	uint64_t available, limit = UINT64_MAX;

	if (ts_sys_free_bytes(fd, &available) < 0)
		return 0;
	if (in_memory)
		limit = share_of(own_cgroup(false), allocated, CGROUP_PERCENT);
	limit = ts_min_u64(limit, share_of(available, allocated, TS_LIMITS_TMPFS_PERCENT));
	return percent(limit, GROWTH_PERCENT);
}

uint64_t ts_limits_growth(uint64_t limit)
{
	return percent(limit, GROWTH_PERCENT);
}
