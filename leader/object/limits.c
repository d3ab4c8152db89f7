/* SPDX-License-Identifier: MIT */
/* Memory manners: how large a ring may be, how it is cut, and when it may still grow. */
#include "leader/group/store_private.h"
#include "shim/log.h"
#include "shim/sys.h"

#include <string.h>
#include <sys/resource.h>

#define MIB (UINT64_C(1) << 20)

/* Shares of what is free; sharing must stay the smallest tenant of the machine. */
#define TMPFS_PERCENT         25u
#define CGROUP_PERCENT        10u
#define ADDRESS_SPACE_PERCENT 5u
#define GROWTH_PERCENT        85u

/* A machine without room is asked again after this. */
#define GROWTH_PAUSE_NS UINT64_C(100000000)

/* One entry of 16 bytes for every KiB of the ring, so that ghosts outnumber the records. */
#define DIRECTORY_SHARE 64u
#define DIRECTORY_MIN   (1 * MIB)
#define DIRECTORY_MAX   (64 * MIB)

/* Fewer could not hold a writer, a reader and something to reclaim at the same time. */
#define SEGMENTS_MIN 4u

/* From here on larger segments serve better than more of them. */
#define SEGMENTS_MANY 256u

static uint64_t percent(uint64_t value, uint32_t share)
{
	return value / 100 * share + value % 100 * share / 100;
}

/*
 * A record fits in one segment, every member that produces owns one, and a reader that
 * stops costs one.  So: 16 MiB, which holds a picture of 4 million pixels; smaller while there
 * would be fewer than 32 segments, larger, for larger pictures, where there would be more than
 * 256, up to what a telephone's camera makes (64 MiB: 16 to 22 million pixels).
 */
static uint64_t segment_bytes_for(uint64_t ring)
{
	uint64_t bytes = 16 * MIB;

	if (ring < 64 * MIB)
		return 1 * MIB;
	while (bytes > 4 * MIB && ring / bytes < 32)
		bytes /= 2;
	while (bytes < 64 * MIB && ring / bytes >= SEGMENTS_MANY)
		bytes *= 2;
	return bytes;
}

void ts_limits_offsets(struct ts_shape *shape)
{
	uint64_t sets = (uint64_t)shape->set_count * TS_WAYS * sizeof(struct ts_entry);

	shape->members_at = TS_PAGE_BYTES;
	shape->segments_at = shape->members_at + TS_MEMBER_MAX * sizeof(struct ts_member);
	shape->directory_at = ts_align_up(
		shape->segments_at + shape->segment_count * sizeof(struct ts_segment),
		TS_PAGE_BYTES);
	shape->control_bytes = ts_align_up(shape->directory_at + sets, TS_PAGE_BYTES);
	shape->data_at = ts_align_up(shape->control_bytes,
		shape->segment_bytes < TS_HUGE_BYTES ? TS_PAGE_BYTES : TS_HUGE_BYTES);
	shape->total_bytes = shape->data_at + shape->segment_count * shape->segment_bytes;
}

int ts_limits_shape(uint64_t bytes, struct ts_shape *ret_shape)
{
	struct ts_shape shape = {.segment_bytes = segment_bytes_for(bytes)};
	uint64_t directory = ts_max_u64(bytes / DIRECTORY_SHARE, DIRECTORY_MIN);
	uint64_t sets = 1;

	directory = ts_min_u64(directory, DIRECTORY_MAX);
	while (sets * 2 * TS_WAYS * sizeof(struct ts_entry) <= directory)
		sets *= 2;
	shape.set_count = (uint32_t)sets;
	shape.segment_count = TS_SEGMENT_MAX;
	ts_limits_offsets(&shape);
	if (bytes < shape.data_at + SEGMENTS_MIN * shape.segment_bytes)
		return -ENOSPC;
	shape.segment_count = (uint32_t)ts_min_u64(
		(bytes - shape.data_at) / shape.segment_bytes, TS_SEGMENT_MAX);
	ts_limits_offsets(&shape);
	*ret_shape = shape;
	return 0;
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
	char path[1400];

	ts_format(path, sizeof(path), "%s/%s", directory, name);
	return ts_sys_read_file(path, buffer, bytes);
}

/* Page cache that nobody uses: the kernel drops it before it refuses memory to anyone. */
static uint64_t clean_cache(const char *directory, const struct controller *names)
{
	char buffer[8192];
	size_t length = strlen(names->cache);

	if (read_at(directory, "memory.stat", buffer, sizeof(buffer)) < 0)
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

static uint64_t headroom_of(const char *directory, const struct controller *names)
{
	char buffer[64];

	if (read_at(directory, names->limit, buffer, sizeof(buffer)) < 0)
		return UINT64_MAX;
	uint64_t limit = parse_decimal(buffer);
	if (limit == UINT64_MAX || read_at(directory, names->usage, buffer, sizeof(buffer)) < 0)
		return UINT64_MAX;
	uint64_t usage = parse_decimal(buffer);
	if (usage == UINT64_MAX)
		return UINT64_MAX;
	usage -= ts_min_u64(usage, clean_cache(directory, names));
	return limit > usage ? limit - usage : 0;
}

/* The group at @path (up to a newline) and all above it. */
static uint64_t tightest(const char *root, const char *path, const struct controller *names)
{
	char directory[1300];
	size_t base = ts_format(directory, sizeof(directory), "%s%s", root, names->mount);
	size_t end = base;
	uint64_t best = UINT64_MAX;

	while (*path && *path != '\n' && end + 1 < sizeof(directory))
		directory[end++] = *path++;
	for (;;) {
		while (end > base && directory[end - 1] == '/')
			end--;
		directory[end] = '\0';
		best = ts_min_u64(best, headroom_of(directory, names));
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

uint64_t ts_limits_cgroup(const char *list, const char *root)
{
	char buffer[8192];
	uint64_t best = UINT64_MAX;

	if (ts_sys_read_file(list, buffer, sizeof(buffer)) < 0)
		return UINT64_MAX;
	for (const char *line = buffer; line && *line;) {
		const char *next = strchr(line, '\n');
		const char *first = strchr(line, ':');
		const char *second = first ? strchr(first + 1, ':') : NULL;
		if (second && (!next || second < next)) {
			if (second == first + 1)
				best = ts_min_u64(best, tightest(root, second + 1, &version2));
			else if (lists_memory(first + 1, second))
				best = ts_min_u64(best, tightest(root, second + 1, &version1));
		}
		line = next ? next + 1 : NULL;
	}
	return best;
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

uint64_t ts_limits_machine(int fd, uint64_t allocated)
{
	uint64_t limit = ts_limits_address_space();
	uint64_t group = ts_limits_cgroup("/proc/self/cgroup", "/sys/fs/cgroup");
	uint64_t available;

	limit = ts_min_u64(limit, share_of(group, allocated, CGROUP_PERCENT));
	if (ts_sys_free_bytes(fd, &available) < 0)
		return 0;
	return ts_min_u64(limit, share_of(available, allocated, TMPFS_PERCENT));
}

uint64_t ts_limits_files(int fd, uint64_t allocated, bool in_memory)
{
	uint64_t available, limit = UINT64_MAX;

	if (ts_sys_free_bytes(fd, &available) < 0)
		return 0;
	if (in_memory)
		limit = share_of(ts_limits_cgroup("/proc/self/cgroup", "/sys/fs/cgroup"),
			allocated, CGROUP_PERCENT);
	limit = ts_min_u64(limit, share_of(available, allocated, TMPFS_PERCENT));
	return percent(limit, GROWTH_PERCENT);
}

bool ts_limits_may_grow(struct ts_store *store)
{
	uint64_t allocated = store->shape.data_at, now = ts_now_ns();

	/* Counted afresh: a counter would be wrong for ever after a crash between two steps. */
	for (uint32_t i = 0; i < store->shape.segment_count; i++) {
		if (ts_load_relaxed(&store->segments[i].allocated))
			allocated += store->shape.segment_bytes;
	}
	/* The usual case is a complete ring, and asking the machine takes dozens of files. */
	if (allocated == store->shape.total_bytes || now < ts_load_relaxed(&store->grow_at))
		return false;
	int fd = ts_object_fd(&store->ring, NULL);
	if (fd < 0)
		return false;
	uint64_t limit = percent(ts_limits_machine(fd, allocated), GROWTH_PERCENT);
	bool may = allocated + store->shape.segment_bytes <= limit;
	if (!may)
		ts_store_relaxed(&store->grow_at, now + GROWTH_PAUSE_NS);
	return may;
}
