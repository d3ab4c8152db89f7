/* SPDX-License-Identifier: MIT */
/* Every setting with every kind of good and bad value, and what is said about bad ones. */
#include "fixture.h"

#include "shim/config.h"

static struct ts_config config;

static int set(enum ts_option option, const char *value)
{
	return ts_config_set(&config, option, value);
}

TestSuite(config);

/* ---- values ----------------------------------------------------------------------------- */

Test(config, defaults_are_those_of_the_table)
{
	ts_config_init(&config);
	cr_expect(not(config.disable));
	cr_expect(eq(str, config.group, (char *)"default"));
	cr_expect(eq(str, config.dataset, (char *)"default"));
	cr_expect(config.dataset_dir == NULL);
	cr_expect(eq(int, config.share, TS_SHARE_AUTO));
	cr_expect(not(config.align));
	cr_expect(eq(u64, config.align_seed, 0));
	cr_expect(eq(u32, config.epoch, 0));
	cr_expect(eq(int, config.order, TS_ORDER_STRICT));
	cr_expect(config.record == NULL && config.replay == NULL);
	cr_expect(eq(u64, config.ring_bytes, TS_RING_AUTO));
	cr_expect(eq(int, config.copies, TS_COPIES_AUTO));
	cr_expect(eq(u32, config.verify_ppm, 1000));
	cr_expect(not(config.summary));
	cr_expect(eq(int, config.summary_pid, 0));
	cr_expect(eq(u64, config.line.launch, 0));
	cr_expect(not(config.quiet));
	cr_expect(eq(int, config.debug, TS_LEVEL_WARN));
}

static const char long_name[] =
	"0123456789012345678901234567890123456789012345678901234567890123"; /* 64 */
static const char too_long_name[] =
	"01234567890123456789012345678901234567890123456789012345678901234";

#define MOST_BAD 16

static const struct {
	enum ts_option option;
	const char *values[MOST_BAD];
} bad[] = {
	{TS_OPTION_DISABLE, {"", "2", "yes", "01", "1 ", " 1", "-1"}},
	{TS_OPTION_GROUP, {"", ".", "..", ".hidden", "a/b", "a b", "a=b", "a\n", "gr\xc3\xbc",
				  too_long_name}},
	{TS_OPTION_DATASET,
		{"", "=", "=/data", "name=", "na me=/data", ".name", too_long_name}},
	{TS_OPTION_STAGE, {"", "SHM", "shm ", "1", "relative/dir"}},
	{TS_OPTION_STAGE_SIZE, {"", "16g"}},
	{TS_OPTION_STAGE_METADATA, {"", "-1", "1s", "86401"}},
	{TS_OPTION_CLUSTER, {"nodes", "on"}},
	{TS_OPTION_LOCALITY, {"", "yes"}},
	{TS_OPTION_ACROSS, {"", "on", "Nodes"}},
	{TS_OPTION_COPIES, {"", "On", "Auto", "1"}},
	{TS_OPTION_SHARE, {"", "Auto", "sample", "samples,pixels", "pixels ", "0"}},
	{TS_OPTION_ALIGN, {"on", "Off", "-1", "+1", "0x1", "1 ", " ", "1.0",
				  "9223372036854775808", "18446744073709551617"}},
	{TS_OPTION_IGNORE, {"", "lr,", ",lr", "lr,,seed", "lr, seed", "opt.lr", "2x"}},
	{TS_OPTION_EPOCH, {"", "-1", "off", "3 ", "1e3", "2147483648"}},
	{TS_OPTION_ORDER, {"", "Free", "any"}},
	{TS_OPTION_RECORD, {"relative/file"}},
	{TS_OPTION_REPLAY, {"On"}},
	{TS_OPTION_EVENTS, {"On", "1", "on ", "relative/file"}},
	{TS_OPTION_RING, {"", "G", "1g", "1GB", "1 G", "1.5G", "-1", "+1", "0x10", "1P",
				 "18446744073709551616", "18014398509481984K", "16777216T"}},
	{TS_OPTION_ALIGN_ORDERS, {"", "2", "yes"}},
	{TS_OPTION_KEEP, {"", "min", "-1", "1 h", "1.5h", "10minutes", "1H", "2592001", "31d",
				 "213503982334602d"}},
	{TS_OPTION_VERIFY, {"", ".", ".5", "1.", "1.00001", "1.0.0", "100.0001", "101", "1%",
				   "1e1", "-1", "1,5", "99999999999999999999"}},
	{TS_OPTION_SUMMARY, {"", "2", "pid:", "pid:0", "pid:-1", "pid:1x", "pid:2147483648",
				    "line:", "line:1", "line:1:2", "line:0:2:3",
				    "line:1:2:3:", "line:1:2:-3", "line:1::3",
				    "line:18446744073709551616:2:3"}},
	{TS_OPTION_QUIET, {"", "2"}},
	{TS_OPTION_DEBUG, {"", "Warn", "warning", "1"}},
	{TS_OPTION_COUNT, {"1"}},
};

Test(config, bad_values_change_nothing)
{
	bool covered[TS_OPTION_COUNT + 1] = {false};

	for (size_t i = 0; i < TS_ARRAY_SIZE(bad); i++) {
		enum ts_option option = bad[i].option;
		covered[option] = true;
		for (const char *const *value = bad[i].values; *value; value++) {
			struct ts_config before;
			ts_config_init(&config);
			memcpy(&before, &config, sizeof(before));
			cr_expect(eq(int, set(option, *value), -EINVAL), "%d '%s'", (int)option,
				*value);
			cr_expect(memcmp(&before, &config, sizeof(before)) == 0, "%d '%s'",
				(int)option, *value);
		}
	}
	for (int i = 0; i < TS_OPTION_COUNT; i++)
		cr_expect(covered[i], "option %d has no bad value here", i);
}

/* Values in the order in which they are set, and the number that a field is then. */
static const struct {
	enum ts_option option;
	const char *value;
	const void *field;
	size_t bytes;
	uint64_t number;
} good[] = {
#define GOOD(option, value, field, number) \
	{TS_OPTION_##option, value, &config.field, sizeof(config.field), number},
	GOOD(KEEP, "0", keep, 0) GOOD(KEEP, "90", keep, 90) GOOD(KEEP, "90s", keep, 90) GOOD(
		KEEP, "5m", keep, 300) GOOD(KEEP, "10min", keep, 600) GOOD(KEEP, "2h", keep,
		7200) GOOD(KEEP, "1d", keep, 86400) GOOD(KEEP, "30d", keep,
		TS_KEEP_MAX) GOOD(KEEP, "2592000", keep, TS_KEEP_MAX) GOOD(RING, "0",
		ring_bytes, 0) GOOD(RING, "1", ring_bytes, 1) GOOD(RING, "007", ring_bytes,
		7) GOOD(RING, "3K", ring_bytes, 3 << 10) GOOD(RING, "512M", ring_bytes,
		UINT64_C(512) << 20) GOOD(RING, "4G", ring_bytes, UINT64_C(4) << 30) GOOD(RING,
		"2T", ring_bytes, UINT64_C(2) << 40) GOOD(RING, "0T", ring_bytes, 0) GOOD(RING,
		"18446744073709551615", ring_bytes, UINT64_MAX) GOOD(RING, "18014398509481983K",
		ring_bytes, UINT64_MAX - 1023) GOOD(RING, "16777215T", ring_bytes,
		UINT64_C(16777215) << 40) GOOD(VERIFY, "0", verify_ppm, 0) GOOD(VERIFY, "0.0",
		verify_ppm, 0) GOOD(VERIFY, "0.0001", verify_ppm, 1) GOOD(VERIFY, "0.1",
		verify_ppm, 1000) GOOD(VERIFY, "0.10", verify_ppm, 1000) GOOD(VERIFY, "1.2345",
		verify_ppm, 12345) GOOD(VERIFY, "50", verify_ppm, 500000) GOOD(VERIFY,
		"99.9999", verify_ppm, 999999) GOOD(VERIFY, "100", verify_ppm,
		1000000) GOOD(VERIFY, "100.0000", verify_ppm, 1000000) GOOD(VERIFY, "00100",
		verify_ppm, 1000000) GOOD(SHARE, "auto", share, TS_SHARE_AUTO) GOOD(SHARE,
		"samples", share, TS_SHARE_SAMPLES) GOOD(SHARE, "pixels", share,
		TS_SHARE_PIXELS) GOOD(SHARE, "off", share, TS_SHARE_OFF) GOOD(COPIES, "auto",
		copies, TS_COPIES_AUTO) GOOD(COPIES, "on", copies, TS_COPIES_ON) GOOD(COPIES,
		"off", copies, TS_COPIES_OFF) GOOD(DEBUG, "error", debug,
		TS_LEVEL_ERROR) GOOD(DEBUG, "warn", debug, TS_LEVEL_WARN) GOOD(DEBUG, "info",
		debug, TS_LEVEL_INFO) GOOD(DEBUG, "debug", debug, TS_LEVEL_DEBUG) GOOD(EPOCH,
		"2147483647", epoch, TS_EPOCH_MAX) GOOD(EPOCH, "0", epoch, 0) GOOD(ORDER,
		"free", order, TS_ORDER_FREE) GOOD(DISABLE, "1", disable, true) GOOD(DISABLE,
		"0", disable, false) GOOD(ALIGN, "0", align, true) GOOD(ALIGN, "0", align_seed,
		0) GOOD(ALIGN, "off", align, false) GOOD(ALIGN, "off", align_seed,
		0) GOOD(ALIGN, "7", align, true) GOOD(ALIGN, "7", align_seed, 7) GOOD(ALIGN, "",
		align, false) GOOD(ALIGN, "", align_seed, 0) GOOD(ALIGN, "007", align, true)
		GOOD(ALIGN, "007", align_seed, 7) GOOD(ALIGN, "9223372036854775807", align,
			true) GOOD(ALIGN, "9223372036854775807", align_seed, TS_SEED_MAX)
			GOOD(ALIGN, "off", align, false) GOOD(ALIGN, "off", align_seed, 0)
#undef GOOD
};

Test(config, good_values_are_taken)
{
	ts_config_init(&config);
	cr_expect(eq(u32, config.keep, 0));
	for (size_t i = 0; i < TS_ARRAY_SIZE(good); i++) {
		uint64_t number = 0;
		cr_assert(eq(int, set(good[i].option, good[i].value), 0), "%s", good[i].value);
		memcpy(&number, good[i].field, good[i].bytes);
		cr_expect(eq(u64, number, good[i].number), "option %d: '%s'",
			(int)good[i].option, good[i].value);
	}
}

Test(config, names)
{
	static const char *const names[] = {"a", "A-Z_0.9", "-", "_", "0", "a.", long_name};

	for (size_t i = 0; i < TS_ARRAY_SIZE(names); i++) {
		cr_assert(eq(int, set(TS_OPTION_GROUP, names[i]), 0), "%s", names[i]);
		cr_expect(eq(str, config.group, (char *)names[i]));
		cr_assert(eq(int, set(TS_OPTION_DATASET, names[i]), 0), "%s", names[i]);
		cr_expect(eq(str, config.dataset, (char *)names[i]));
		cr_expect(config.dataset_dir == NULL);
	}
}

Test(config, a_dataset_may_have_a_directory)
{
	cr_assert(eq(int, set(TS_OPTION_DATASET, "pets=/data/x=y"), 0));
	cr_expect(eq(str, config.dataset, (char *)"pets"));
	cr_expect(eq(str, (char *)config.dataset_dir, (char *)"/data/x=y"));
	cr_assert(eq(int, set(TS_OPTION_DATASET, "pets"), 0));
	cr_expect(config.dataset_dir == NULL);
}

Test(config, summaries)
{
	cr_assert(eq(int, set(TS_OPTION_SUMMARY, "pid:2147483647"), 0));
	cr_expect(config.summary);
	cr_expect(eq(int, config.summary_pid, INT32_MAX));
	cr_expect(eq(u64, config.line.launch, 0));
	cr_assert(eq(int, set(TS_OPTION_SUMMARY, "line:18446744073709551615:2:3"), 0));
	cr_expect(not(config.summary));
	cr_expect(eq(int, config.summary_pid, 0));
	cr_expect(eq(u64, config.line.launch, UINT64_MAX));
	cr_expect(eq(u64, config.line.device, 2));
	cr_expect(eq(u64, config.line.inode, 3));
	cr_assert(eq(int, set(TS_OPTION_SUMMARY, "1"), 0));
	cr_expect(eq(u64, config.line.launch, 0));
	cr_expect(config.summary);
	cr_expect(eq(int, config.summary_pid, 0));
	cr_assert(eq(int, set(TS_OPTION_SUMMARY, "0"), 0));
	cr_expect(not(config.summary));
}

Test(config, recordings)
{
	cr_assert(eq(int, set(TS_OPTION_RECORD, "/a file"), 0));
	cr_assert(eq(int, set(TS_OPTION_REPLAY, "/b"), 0));
	cr_expect(eq(str, (char *)config.record, (char *)"/a file"));
	cr_expect(eq(str, (char *)config.replay, (char *)"/b"));
	cr_assert(eq(int, set(TS_OPTION_RECORD, "off"), 0));
	cr_assert(eq(int, set(TS_OPTION_REPLAY, ""), 0));
	cr_expect(config.record == NULL && config.replay == NULL);
}

Test(config, events_are_a_word_or_an_absolute_file)
{
	cr_assert(eq(int, set(TS_OPTION_EVENTS, "/a/log"), 0));
	cr_expect(eq(int, config.events, TS_EVENTS_FILE));
	cr_expect(eq(str, (char *)config.events_file, (char *)"/a/log"));
	cr_assert(eq(int, set(TS_OPTION_EVENTS, "on"), 0));
	cr_expect(eq(int, config.events, TS_EVENTS_ON));
	cr_expect(config.events_file == NULL);
	cr_assert(eq(int, set(TS_OPTION_EVENTS, ""), 0));
	cr_expect(eq(int, config.events, TS_EVENTS_OFF));
}

Test(config, words_are_the_values_an_option_takes)
{
	for (int i = 0; i < TS_OPTION_COUNT; i++) {
		const char *const *allowed = ts_config_words((enum ts_option)i);
		for (; allowed && *allowed; allowed++)
			cr_expect(eq(int, set((enum ts_option)i, *allowed), 0), "%s", *allowed);
	}
	cr_expect(ts_config_words(TS_OPTION_SHARE) != NULL);
	cr_expect(ts_config_words(TS_OPTION_RING) != NULL);
	cr_expect(ts_config_words(TS_OPTION_STAGE_SIZE) == NULL);
}

Test(config, stage_is_a_word_or_an_absolute_directory)
{
	char directory[TS_STAGE_DIR_MAX + 2];

	cr_assert(eq(int, set(TS_OPTION_STAGE, "shm"), 0));
	cr_expect(eq(int, (int)config.stage, TS_STAGE_SHM));
	cr_expect(config.stage_dir == NULL);
	memset(directory, 'x', sizeof(directory));
	directory[0] = '/';
	directory[TS_STAGE_DIR_MAX] = '\0';
	cr_assert(eq(int, set(TS_OPTION_STAGE, directory), 0));
	cr_expect(eq(int, (int)config.stage, TS_STAGE_DIR));
	cr_expect(config.stage_dir == directory);
	directory[TS_STAGE_DIR_MAX] = 'x';
	directory[TS_STAGE_DIR_MAX + 1] = '\0';
	cr_expect(eq(int, set(TS_OPTION_STAGE, directory), -EINVAL));
	cr_expect(eq(int, (int)config.stage, TS_STAGE_DIR), "and nothing changed");
	cr_assert(eq(int, set(TS_OPTION_STAGE, "off"), 0));
	cr_expect(config.stage_dir == NULL);
}

Test(config, every_option_says_what_it_expects)
{
	for (int i = 0; i < TS_OPTION_COUNT; i++)
		cr_expect(strlen(ts_config_expect((enum ts_option)i)) > 0, "%d", i);
}
