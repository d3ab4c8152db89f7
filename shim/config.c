/* SPDX-License-Identifier: MIT */
/* What the values of settings mean, by the table shim/options.def. */
#include "shim/config.h"

#include <string.h>

#define OFF "off"

#define TS_X(name, word, text) word,
static const char *const shares[] = {TS_SHARES(TS_X) NULL};
static const char *const orders[] = {TS_ORDERS(TS_X) NULL};
static const char *const stages[] = {TS_STAGES(TS_X) NULL};
static const char *const acrosses[] = {TS_ACROSSES(TS_X) NULL};
static const char *const copies[] = {TS_COPIES(TS_X) NULL};
static const char *const events[] = {TS_EVENTS(TS_X) NULL};
static const char *const levels[] = {TS_LEVELS(TS_X) NULL};
static const char *const offs[] = {OFF, NULL};
static const char *const autos[] = {"auto", NULL};
#undef TS_X

/* The words among the values of a form, or NULL, and what a valid one looks like. */
static const struct {
	const char *const *words;
	const char *expect;
} forms[] = {
#define TS_FORM(form, words, expect) {words, expect},
#include "shim/options.def"
};

const struct ts_option_row ts_options[TS_OPTION_COUNT] = {
#define TS_OPTION(name, option, argument, implied, form, field, standard, help) \
	{"TSSHIM_" #name, standard, TS_FORM_##form},
#include "shim/options.def"
};

/* Reads digits; returns how many, 0 when there are none or the number is too large. */
static size_t read_number(const char *text, uint64_t *ret_value)
{
	uint64_t value = 0;
	size_t length = 0;
	for (; text[length] >= '0' && text[length] <= '9'; length++) {
		uint64_t digit = (uint64_t)(text[length] - '0');
		if (value > (UINT64_MAX - digit) / 10)
			return 0;
		value = value * 10 + digit;
	}
	if (length)
		*ret_value = value;
	return length;
}

/* All of @value is one number up to @max. */
static int parse_number(const char *value, uint64_t max, uint64_t *ret_value)
{
	uint64_t number;
	size_t length = read_number(value, &number);
	if (length == 0 || value[length] != '\0' || number > max)
		return -EINVAL;
	*ret_value = number;
	return 0;
}

/* Position of @value in @words, which end with NULL; -EINVAL where it is none of them. */
static int parse_word(const char *value, const char *const *words)
{
	for (int i = 0; words[i]; i++)
		if (strcmp(value, words[i]) == 0)
			return i;
	return -EINVAL;
}

static int parse_bool(const char *value, bool *ret_flag)
{
	if ((value[0] != '0' && value[0] != '1') || value[1] != '\0')
		return -EINVAL;
	*ret_flag = value[0] == '1';
	return 0;
}

static bool is_name_character(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '-' || c == '.';
}

/* The name ends where the text does, or at @stop. */
static int parse_name(const char *value, char stop, char *ret_name, const char **ret_rest)
{
	size_t length = 0;
	while (is_name_character(value[length]))
		length++;
	if (length == 0 || length > TS_NAME_MAX || value[0] == '.')
		return -EINVAL;
	if (value[length] != '\0' && value[length] != stop)
		return -EINVAL;
	memcpy(ret_name, value, length);
	ret_name[length] = '\0';
	*ret_rest = value + length;
	return 0;
}

static int parse_dataset(const char *value, struct ts_config *config)
{
	char name[TS_NAME_MAX + 1] = {0};
	const char *rest;
	int r = parse_name(value, '=', name, &rest);
	if (r < 0)
		return r;
	if (*rest == '=' && rest[1] == '\0')
		return -EINVAL;
	memcpy(config->dataset, name, sizeof(name));
	config->dataset_dir = *rest == '=' ? rest + 1 : NULL;
	return 0;
}

int ts_config_parse_size(const char *value, uint64_t *ret_bytes)
{
	static const char units[] = "KMGT";
	uint64_t bytes;
	size_t length = read_number(value, &bytes);
	if (length == 0)
		return -EINVAL;
	const char *unit = value + length;
	if (*unit != '\0') {
		const char *found = strchr(units, *unit);
		unsigned shift = found ? 10u * (unsigned)(found - units + 1) : 0;
		if (!found || unit[1] != '\0' || bytes > UINT64_MAX >> shift)
			return -EINVAL;
		bytes <<= shift;
	}
	*ret_bytes = bytes;
	return 0;
}

static int parse_ring(const char *value, uint64_t *ret_bytes)
{
	if (parse_word(value, autos) < 0)
		return ts_config_parse_size(value, ret_bytes);
	*ret_bytes = TS_RING_AUTO;
	return 0;
}

/* Seconds, or a number with a unit as sleep(1) and systemd.time(7) have them. */
static int parse_time(const char *value, uint64_t max, uint32_t *ret_seconds)
{
	static const struct {
		const char *name;
		uint32_t seconds;
	} units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"min", 60}, {"h", 3600}, {"d", 86400}};
	uint64_t number;
	size_t length = read_number(value, &number);

	for (size_t i = 0; length && i < TS_ARRAY_SIZE(units); i++) {
		if (strcmp(value + length, units[i].name) != 0)
			continue;
		if (number > max / units[i].seconds)
			return -EINVAL;
		*ret_seconds = (uint32_t)number * units[i].seconds;
		return 0;
	}
	return -EINVAL;
}

/* Per cent with up to four decimals, as parts per million. */
static int parse_percent(const char *value, uint32_t *ret_ppm)
{
	uint64_t whole, ppm;
	size_t length = read_number(value, &whole);
	if (length == 0 || whole > 100)
		return -EINVAL;
	ppm = whole * 10000;
	if (value[length] == '.') {
		uint64_t scale = 1000;
		for (length++; value[length] >= '0' && value[length] <= '9'; length++) {
			if (scale == 0)
				return -EINVAL;
			ppm += (uint64_t)(value[length] - '0') * scale;
			scale /= 10;
		}
		if (value[length - 1] == '.')
			return -EINVAL;
	}
	if (value[length] != '\0' || ppm > 1000000)
		return -EINVAL;
	*ret_ppm = (uint32_t)ppm;
	return 0;
}

/* <launch>:<device>:<inode> */
static int parse_line_place(const char *value, struct ts_line_place *ret_place)
{
	uint64_t numbers[3];
	for (size_t i = 0; i < TS_ARRAY_SIZE(numbers); i++) {
		size_t length = read_number(value, &numbers[i]);
		char stop = i + 1 < TS_ARRAY_SIZE(numbers) ? ':' : '\0';
		if (length == 0 || value[length] != stop)
			return -EINVAL;
		value += length + 1;
	}
	if (numbers[0] == 0)
		return -EINVAL;
	*ret_place = (struct ts_line_place){
		.launch = numbers[0], .device = numbers[1], .inode = numbers[2]};
	return 0;
}

/*
 * 0, 1, or what tsrun sets for the process it becomes: pid:<n>, or line:<where>; plain:<where>
 * is set by an interpreter that tsrun has not started, for those below it.
 */
static int parse_summary(const char *value, struct ts_config *config)
{
	struct ts_line_place line = {0};
	uint64_t pid = 0;
	bool summary = true;
	if (strncmp(value, "pid:", 4) == 0) {
		if (parse_number(value + 4, INT32_MAX, &pid) < 0 || pid == 0)
			return -EINVAL;
	} else if (strncmp(value, "line:", 5) == 0) {
		if (parse_line_place(value + 5, &line) < 0)
			return -EINVAL;
		summary = false;
	} else if (strncmp(value, "plain:", 6) == 0) {
		if (parse_line_place(value + 6, &line) < 0)
			return -EINVAL;
		line.is_plain = true;
		summary = false;
	} else if (parse_bool(value, &summary) < 0) {
		return -EINVAL;
	}
	config->summary = summary;
	config->summary_pid = (int32_t)pid;
	config->line = line;
	return 0;
}

/* A word, or a directory; a relative one would be another in every process. */
static int parse_stage(const char *value, struct ts_config *config)
{
	bool is_dir = value[0] == '/' && strlen(value) <= TS_STAGE_DIR_MAX;
	int mode = is_dir ? TS_STAGE_DIR : parse_word(value, stages);
	if (mode < 0)
		return mode;
	config->stage = (enum ts_stage_mode)mode;
	config->stage_dir = is_dir ? value : NULL;
	return 0;
}

/* A relative one would be another in every process. */
static int parse_file(const char *value, const char **ret_path)
{
	bool is_off = value[0] == '\0' || strcmp(value, OFF) == 0;
	if (!is_off && (value[0] != '/' || strlen(value) > TS_FILE_MAX))
		return -EINVAL;
	*ret_path = is_off ? NULL : value;
	return 0;
}

/* Job scripts switch off by a variable that is empty. */
static int parse_events(const char *value, struct ts_config *config)
{
	bool is_file = value[0] == '/' && strlen(value) <= TS_FILE_MAX;
	int mode = is_file            ? TS_EVENTS_FILE
		   : value[0] == '\0' ? TS_EVENTS_OFF
				      : parse_word(value, events);
	if (mode < 0)
		return mode;
	config->events = (enum ts_events_mode)mode;
	config->events_file = is_file ? value : NULL;
	return 0;
}

/* Job scripts switch off by a variable that is empty; tsrun refuses "--align=" itself. */
static int parse_seed(const char *value, struct ts_config *config)
{
	uint64_t seed = 0;
	bool align = value[0] != '\0' && strcmp(value, OFF) != 0;
	if (align && parse_number(value, TS_SEED_MAX, &seed) < 0)
		return -EINVAL;
	config->align = align;
	config->align_seed = seed;
	return 0;
}

/* The Python half reads the variable itself. */
static int check_names(const char *value)
{
	size_t length = 0;

	for (; *value; value++) {
		bool is_digit = *value >= '0' && *value <= '9';
		if (*value == ',' ? length == 0
				  : *value == '.' || *value == '-' ||
					    !is_name_character(*value) ||
					    (is_digit && length == 0))
			return -EINVAL;
		length = *value == ',' ? 0 : length + 1;
	}
	return length > 0 ? 0 : -EINVAL;
}

/* One number up to @max, which a uint32_t holds. */
static int parse_small(const char *value, uint64_t max, uint32_t *ret_value)
{
	uint64_t number;
	int r = parse_number(value, max, &number);
	if (r == 0)
		*ret_value = (uint32_t)number;
	return r;
}

/* How a value of each form is read into its field of @config. */
#define SET_BOOL(field)    parse_bool(value, &config->field)
#define SET_NAME(field)    parse_name(value, '\0', config->field, &rest)
#define SET_DATASET(field) parse_dataset(value, config)
#define SET_SHARE(field)   SET_WORD(field, shares)
#define SET_SEED(field)    parse_seed(value, config)
#define SET_NAMES(field)   check_names(value)
#define SET_EPOCH(field)   parse_small(value, TS_EPOCH_MAX, &config->field)
#define SET_ORDER(field)   SET_WORD(field, orders)
#define SET_FILE(field)    parse_file(value, &config->field)
#define SET_DIR(field)     parse_file(value, &config->field)
#define SET_SIZE(field)    ts_config_parse_size(value, &config->field)
#define SET_RING(field)    parse_ring(value, &config->field)
#define SET_STAGE(field)   parse_stage(value, config)
#define SET_SECONDS(field) parse_small(value, TS_SECONDS_MAX, &config->field)
#define SET_TIME(field)    parse_time(value, TS_KEEP_MAX, &config->field)
#define SET_ACROSS(field)  SET_WORD(field, acrosses)
#define SET_COPIES(field)  SET_WORD(field, copies)
#define SET_EVENTS(field)  parse_events(value, config)
#define SET_PERCENT(field) parse_percent(value, &config->field)
#define SET_SUMMARY(field) parse_summary(value, config)
#define SET_LEVEL(field)   SET_WORD(field, levels)
#define SET_WORD(field, words) \
	((word = parse_word(value, words)) < 0 ? word : (config->field = word, 0))

int ts_config_set(struct ts_config *config, enum ts_option option, const char *value)
{
	const char *rest;
	int word;

	switch (option) {
#define TS_OPTION(name, option, argument, implied, form, field, standard, help) \
	case TS_OPTION_##name:                                                  \
		return SET_##form(field);
#include "shim/options.def"
	default:
		return -EINVAL;
	}
}

void ts_config_init(struct ts_config *config)
{
	memset(config, 0, sizeof(*config));
	for (int i = 0; i < TS_OPTION_COUNT; i++)
		(void)ts_config_set(config, (enum ts_option)i, ts_options[i].standard);
}

const char *const *ts_config_words(enum ts_option option)
{
	return forms[ts_options[option].form].words;
}

const char *ts_order_word(uint64_t order)
{
	return order < TS_ARRAY_SIZE(orders) ? orders[order] : NULL;
}

const char *ts_config_expect(enum ts_option option)
{
	return forms[ts_options[option].form].expect;
}
