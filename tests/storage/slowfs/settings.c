/* SPDX-License-Identifier: MIT */
/* The table of settings and their values; see slowfs.h. */
#include "slowfs.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const struct row {
	const char *name;
	int64_t start, least, most;
	const char *text;
} rows[] = {
#define X(id, name, start, least, most, text) {#name, start, least, SLOW_MOST_##most, text},
	SLOW_SETTINGS(X)
#undef X
};

static _Atomic int64_t values[] = {
#define X(id, name, start, least, most, text) start,
	SLOW_SETTINGS(X)
#undef X
};

int64_t slow_get(enum slow_setting id)
{
	return atomic_load_explicit(&values[id], memory_order_relaxed);
}

void slow_put(enum slow_setting id, int64_t value)
{
	atomic_store_explicit(&values[id], value, memory_order_relaxed);
}

bool slow_count_down(enum slow_setting id)
{
	int64_t left = slow_get(id);
	while (left > 0)
		if (atomic_compare_exchange_weak(&values[id], &left, left - 1))
			return left == 1;
	return false;
}

static int find(const char *name, size_t length)
{
	for (int id = 0; id < SLOW_SETTING_COUNT; id++)
		if (strlen(rows[id].name) == length &&
			strncmp(rows[id].name, name, length) == 0)
			return id;
	return -ENOENT;
}

int slow_parse_setting(
	const char *text, bool mounted, enum slow_setting *ret_id, int64_t *ret_value)
{
	const char *equals = strchrnul(text, '=');
	int id = find(text, (size_t)(equals - text));
	if (id < 0)
		return id;
	if (mounted && id >= SLOW_FIXED_FROM)
		return -EBUSY;
	if (*equals == '\0')
		return -EINVAL;
	char *end;
	errno = 0;
	long long value = strtoll(equals + 1, &end, 10);
	if (end == equals + 1 || *end != '\0')
		return -EINVAL;
	if (errno != 0 || value < rows[id].least || value > rows[id].most)
		return -ERANGE;
	*ret_id = (enum slow_setting)id;
	*ret_value = value;
	return 0;
}

void slow_print_settings(FILE *out)
{
	for (int id = 0; id < SLOW_SETTING_COUNT; id++)
		fprintf(out, "%s\"%s\": %lld", id == 0 ? "{" : ", ", rows[id].name,
			(long long)slow_get((enum slow_setting)id));
	fputs("}\n", out);
}

void slow_print_help(FILE *out)
{
	for (int id = 0; id < SLOW_SETTING_COUNT; id++)
		fprintf(out, "  --%s=%lld\t%s%s\n", rows[id].name, (long long)rows[id].start,
			rows[id].text, id >= SLOW_FIXED_FROM ? " (fixed while mounted)" : "");
}
