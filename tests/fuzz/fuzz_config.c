/* SPDX-License-Identifier: MIT */
/* Environment strings, separated by NUL bytes; names may be left out for a known one. */
#include "fuzz.h"

#include "shim/config.h"

#include <string.h>

#define STRINGS 32

static void complain(
	enum ts_option option, const char *name, const char *value, const char *suggestion)
{
	/* Everything handed over is a string that can be printed. */
	FUZZ_CHECK(name && strlen(name) < SIZE_MAX);
	FUZZ_CHECK(!value || strlen(value) < SIZE_MAX);
	FUZZ_CHECK(!suggestion || strlen(suggestion) > 0);
	FUZZ_CHECK((int)option <= (int)TS_OPTION_COUNT);
}

static bool is_name(const char *text)
{
	size_t length = strnlen(text, TS_NAME_MAX + 1);

	return length <= TS_NAME_MAX && text[0] != '.' && text[0] != '\0' && !strchr(text, '/');
}

/* What every later reader relies on. */
static void check(const struct ts_config *config)
{
	FUZZ_CHECK(is_name(config->group));
	FUZZ_CHECK(is_name(config->dataset));
	FUZZ_CHECK(config->share >= TS_SHARE_AUTO && config->share <= TS_SHARE_OFF);
	FUZZ_CHECK(config->align_seed <= (config->align ? TS_SEED_MAX : 0));
	FUZZ_CHECK(config->epoch <= TS_EPOCH_MAX);
	FUZZ_CHECK(config->verify_ppm <= 1000000);
	FUZZ_CHECK(config->debug >= TS_LEVEL_ERROR && config->debug <= TS_LEVEL_DEBUG);
	FUZZ_CHECK(config->summary_pid >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *env[STRINGS + 1];
	struct ts_config config;
	size_t count = 0;

	FUZZ_CHECK(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	for (size_t at = 0; at < size && count < STRINGS; at += strlen(text + at) + 1)
		env[count++] = text + at;
	env[count] = NULL;
	ts_config_load(&config, env, complain);
	check(&config);
	ts_config_load(&config, env, NULL);
	check(&config);
	for (int option = 0; option < TS_OPTION_COUNT; option++) {
		ts_config_init(&config);
		ts_config_set(&config, (enum ts_option)option, text);
		check(&config);
		FUZZ_CHECK(ts_config_expect((enum ts_option)option) != NULL);
	}
	free(text);
	return 0;
}
