/* SPDX-License-Identifier: MIT */
/* Reading the settings of shim/options.h from strings, strictly. */
#include "shim/config.h"

#include "shim/atomic.h"

#include <string.h>

extern char **environ;

#define PREFIX      "TSSHIM_"
#define TEST_PREFIX "TSSHIM_TEST_"

/* Where the value of each option lives in struct ts_config. */
#define FIELD_DISABLE disable
#define FIELD_GROUP   group
#define FIELD_DATASET dataset
#define FIELD_RING    ring_bytes
#define FIELD_VERIFY  verify_ppm
#define FIELD_SUMMARY summary
#define FIELD_DEBUG   debug

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static char to_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_name_byte(char c)
{
	return is_digit(c) || (to_lower(c) >= 'a' && to_lower(c) <= 'z') || c == '_' || c == '-' ||
		c == '.';
}

/* Decimal digits from *cursor on, at least one, at most @limit as a value. */
static int take_digits(const char **cursor, uint64_t limit, uint64_t *ret_value)
{
	const char *p = *cursor;
	uint64_t value = 0;

	if (!is_digit(*p))
		return -EINVAL;
	for (; is_digit(*p); p++) {
		uint64_t digit = (uint64_t)(*p - '0');

		if (value > (limit - digit) / 10)
			return -EINVAL;
		value = value * 10 + digit;
	}
	*cursor = p;
	*ret_value = value;
	return 0;
}

static int parse_BOOL(struct ts_config *config, void *field, const char *value)
{
	if ((value[0] != '0' && value[0] != '1') || value[1])
		return -EINVAL;
	*(bool *)field = value[0] == '1';
	return 0;
}

/* A name that ends at @stop or at the end of @value. */
static int take_name(const char *value, char stop, char *ret_name, const char **ret_rest)
{
	size_t length = 0;

	while (is_name_byte(value[length]))
		length++;
	if (length == 0 || length > TS_NAME_MAX || value[0] == '.')
		return -EINVAL;
	if (value[length] != '\0' && value[length] != stop)
		return -EINVAL;
	memset(ret_name, 0, TS_NAME_MAX + 1);
	memcpy(ret_name, value, length);
	*ret_rest = value + length;
	return 0;
}

static int parse_NAME(struct ts_config *config, void *field, const char *value)
{
	const char *rest;

	return take_name(value, '\0', field, &rest);
}

static int parse_DATASET(struct ts_config *config, void *field, const char *value)
{
	char name[TS_NAME_MAX + 1];
	const char *rest;

	if (take_name(value, '=', name, &rest) < 0 || (*rest == '=' && !rest[1]))
		return -EINVAL;
	memcpy(field, name, sizeof(name));
	config->dataset_dir = *rest == '=' ? rest + 1 : NULL;
	return 0;
}

static int parse_SIZE(struct ts_config *config, void *field, const char *value)
{
	static const char units[] = "KMGT";
	const char *unit;
	uint64_t number;
	unsigned shift = 0;

	if (take_digits(&value, UINT64_MAX, &number) < 0)
		return -EINVAL;
	if (*value) {
		unit = strchr(units, *value);
		if (!unit || value[1])
			return -EINVAL;
		shift = 10 * (unsigned)(unit - units + 1);
	}
	if (number > UINT64_MAX >> shift)
		return -EINVAL;
	*(uint64_t *)field = number << shift;
	return 0;
}

/* Up to four decimals: a millionth is the unit it is stored in. */
static int parse_PERCENT(struct ts_config *config, void *field, const char *value)
{
	uint64_t ppm;
	uint32_t unit = 10000;

	if (take_digits(&value, 100, &ppm) < 0)
		return -EINVAL;
	ppm *= unit;
	if (*value == '.') {
		value++;
		do {
			unit /= 10;
			if (!is_digit(*value) || unit == 0)
				return -EINVAL;
			ppm += (uint64_t)(*value++ - '0') * unit;
		} while (*value);
	}
	if (*value || ppm > 1000000)
		return -EINVAL;
	*(uint32_t *)field = (uint32_t)ppm;
	return 0;
}

static int parse_SUMMARY(struct ts_config *config, void *field, const char *value)
{
	uint64_t pid = 0;

	if (strncmp(value, "pid:", 4) == 0) {
		value += 4;
		if (take_digits(&value, INT32_MAX, &pid) < 0 || *value || pid == 0)
			return -EINVAL;
		*(bool *)field = true;
	} else if (parse_BOOL(config, field, value) < 0) {
		return -EINVAL;
	}
	config->summary_pid = (int32_t)pid;
	return 0;
}

static int parse_LEVEL(struct ts_config *config, void *field, const char *value)
{
	static const char *const names[] = {[TS_LEVEL_ERROR] = "error",
		[TS_LEVEL_WARN] = "warn",
		[TS_LEVEL_INFO] = "info",
		[TS_LEVEL_DEBUG] = "debug"};

	for (size_t i = 0; i < TS_ARRAY_SIZE(names); i++) {
		if (strcmp(value, names[i]) == 0) {
			*(enum ts_level *)field = (enum ts_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

#define EXPECT_BOOL    "0 or 1"
#define EXPECT_NAME    "a name of at most 64 letters, digits, '_', '-' or '.'"
#define EXPECT_DATASET "NAME or NAME=DIR"
#define EXPECT_SIZE    "a size such as 512M or 4G"
#define EXPECT_PERCENT "a percentage from 0 to 100 such as 0.1"
#define EXPECT_SUMMARY "0, 1 or pid:NUMBER"
#define EXPECT_LEVEL   "error, warn, info or debug"

static const struct row {
	const char *env;
	const char *standard;
	const char *expect;
	int (*parse)(struct ts_config *config, void *field, const char *value);
	size_t field;
} rows[TS_OPTION_COUNT] = {
#define TS_X(name, env_, option, kind, standard_, help)                                           \
	[TS_OPTION_##name] = {env_, standard_, EXPECT_##kind, parse_##kind,                        \
		offsetof(struct ts_config, FIELD_##name)},
	TS_OPTIONS(TS_X)
#undef TS_X
};

int ts_config_set(struct ts_config *config, enum ts_option option, const char *value)
{
	if ((unsigned)option >= TS_OPTION_COUNT || !value)
		return -EINVAL;
	return rows[option].parse(config, (char *)config + rows[option].field, value);
}

const char *ts_config_expect(enum ts_option option)
{
	return (unsigned)option < TS_OPTION_COUNT ? rows[option].expect : "";
}

void ts_config_init(struct ts_config *config)
{
	memset(config, 0, sizeof(*config));
	for (int i = 0; i < TS_OPTION_COUNT; i++)
		ts_config_set(config, (enum ts_option)i, rows[i].standard);
}

/* The option whose variable is the @length bytes at @name, or TS_OPTION_COUNT. */
static enum ts_option find_option(const char *name, size_t length)
{
	int i = 0;

	while (i < TS_OPTION_COUNT &&
		(strncmp(rows[i].env, name, length) != 0 || rows[i].env[length]))
		i++;
	return (enum ts_option)i;
}

static const char *nearest_variable(const char *name)
{
	const char *names[TS_OPTION_COUNT + 1];

	for (int i = 0; i < TS_OPTION_COUNT; i++)
		names[i] = rows[i].env;
	names[TS_OPTION_COUNT] = NULL;
	return ts_config_nearest(name, names);
}

void ts_config_load(struct ts_config *config, char *const *env,
	void (*complain)(enum ts_option option, const char *name, const char *value,
		const char *suggestion))
{
	bool seen[TS_OPTION_COUNT] = {false};
	char name[TS_NAME_MAX + 1];

	ts_config_init(config);
	for (; env && *env; env++) {
		const char *equals = strchr(*env, '=');
		size_t length = equals ? (size_t)(equals - *env) : 0;
		enum ts_option option;

		if (!equals || strncmp(*env, PREFIX, sizeof(PREFIX) - 1) != 0 ||
			strncmp(*env, TEST_PREFIX, sizeof(TEST_PREFIX) - 1) == 0)
			continue;
		option = find_option(*env, length);
		if (option != TS_OPTION_COUNT && seen[option])
			continue; /* getenv() answers the first of two as well */
		if (option != TS_OPTION_COUNT) {
			seen[option] = true;
			if (ts_config_set(config, option, equals + 1) == 0)
				continue;
		}
		if (!complain)
			continue;
		length = ts_min_u64(length, sizeof(name) - 1);
		memcpy(name, *env, length);
		name[length] = '\0';
		complain(option, name, equals + 1,
			option == TS_OPTION_COUNT ? nearest_variable(name) : NULL);
	}
}

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned least = a < b ? a : b;

	return least < c ? least : c;
}

/* Insertions, deletions, changes and swaps of neighbours from @a to @b, letter case apart. */
static unsigned edit_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
	uint8_t table[3][TS_NAME_MAX + 1];
	uint8_t *two_ago = table[0], *last = table[1], *row = table[2];

	for (size_t j = 0; j <= b_length; j++)
		last[j] = (uint8_t)j;
	for (size_t i = 1; i <= a_length; i++) {
		uint8_t *recycled = two_ago;

		row[0] = (uint8_t)i;
		for (size_t j = 1; j <= b_length; j++) {
			char x = to_lower(a[i - 1]), y = to_lower(b[j - 1]);
			unsigned cost = min3(last[j] + 1u, row[j - 1] + 1u, last[j - 1] + (x != y));

			if (i > 1 && j > 1 && x == to_lower(b[j - 2]) && y == to_lower(a[i - 2]))
				cost = min3(cost, two_ago[j - 2] + 1u, cost);
			row[j] = (uint8_t)cost;
		}
		two_ago = last;
		last = row;
		row = recycled;
	}
	return last[b_length];
}

const char *ts_config_nearest(const char *word, const char *const *candidates)
{
	size_t length = strlen(word);
	/* A quarter of the letters, three at most: more is another word, not a slip. */
	unsigned best = (unsigned)ts_min_u64(3, 1 + length / 4) + 1;
	const char *found = NULL;

	if (length == 0 || length > TS_NAME_MAX)
		return NULL;
	for (; *candidates; candidates++) {
		size_t other = strlen(*candidates);
		unsigned distance;

		if (other == 0 || other > TS_NAME_MAX)
			continue;
		distance = edit_distance(word, length, *candidates, other);
		if (distance < best) {
			best = distance;
			found = *candidates;
		}
	}
	return found;
}

const struct ts_config *ts_config(void)
{
	static struct ts_config config;
	static _Atomic bool loaded;

	/* Two threads that come first together write the same values; the constructor, which
	 * is alone, has normally done it before. */
	if (TS_UNLIKELY(!ts_load_acquire(&loaded))) {
		ts_config_load(&config, environ, NULL);
		ts_store_release(&loaded, true);
	}
	return &config;
}
