/* SPDX-License-Identifier: MIT */
/* Every setting with every kind of good and bad value, and what is said about bad ones. */
#include "fixture.h"

#include "shim/config.h"

#include <stdlib.h>
#include <string.h>

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
	cr_expect(eq(u64, config.ring_bytes, UINT64_C(2) << 30));
	cr_expect(eq(int, config.copies, TS_COPIES_OFF));
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

static const struct {
	enum ts_option option;
	const char *value;
} bad[] = {
	{TS_OPTION_DISABLE, ""},
	{TS_OPTION_DISABLE, "2"},
	{TS_OPTION_DISABLE, "yes"},
	{TS_OPTION_DISABLE, "01"},
	{TS_OPTION_DISABLE, "1 "},
	{TS_OPTION_DISABLE, " 1"},
	{TS_OPTION_DISABLE, "-1"},
	{TS_OPTION_GROUP, ""},
	{TS_OPTION_GROUP, "."},
	{TS_OPTION_GROUP, ".."},
	{TS_OPTION_GROUP, ".hidden"},
	{TS_OPTION_GROUP, "a/b"},
	{TS_OPTION_GROUP, "a b"},
	{TS_OPTION_GROUP, "a=b"},
	{TS_OPTION_GROUP, "a\n"},
	{TS_OPTION_GROUP, "gr\xc3\xbc"},
	{TS_OPTION_GROUP, too_long_name},
	{TS_OPTION_DATASET, ""},
	{TS_OPTION_DATASET, "="},
	{TS_OPTION_DATASET, "=/data"},
	{TS_OPTION_DATASET, "name="},
	{TS_OPTION_DATASET, "na me=/data"},
	{TS_OPTION_DATASET, ".name"},
	{TS_OPTION_DATASET, too_long_name},
	{TS_OPTION_STAGE, ""},
	{TS_OPTION_STAGE, "SHM"},
	{TS_OPTION_STAGE, "shm "},
	{TS_OPTION_STAGE, "1"},
	{TS_OPTION_STAGE, "relative/dir"},
	{TS_OPTION_STAGE_SIZE, ""},
	{TS_OPTION_STAGE_SIZE, "16g"},
	{TS_OPTION_STAGE_METADATA, ""},
	{TS_OPTION_STAGE_METADATA, "-1"},
	{TS_OPTION_STAGE_METADATA, "1s"},
	{TS_OPTION_STAGE_METADATA, "86401"},
	{TS_OPTION_CLUSTER, "nodes"},
	{TS_OPTION_CLUSTER, "on"},
	{TS_OPTION_LOCALITY, ""},
	{TS_OPTION_LOCALITY, "yes"},
	{TS_OPTION_ACROSS, ""},
	{TS_OPTION_ACROSS, "on"},
	{TS_OPTION_ACROSS, "Nodes"},
	{TS_OPTION_COPIES, ""},
	{TS_OPTION_COPIES, "on"},
	{TS_OPTION_COPIES, "Auto"},
	{TS_OPTION_COPIES, "1"},
	{TS_OPTION_SHARE, ""},
	{TS_OPTION_SHARE, "Auto"},
	{TS_OPTION_SHARE, "sample"},
	{TS_OPTION_SHARE, "samples,pixels"},
	{TS_OPTION_SHARE, "pixels "},
	{TS_OPTION_SHARE, "0"},
	{TS_OPTION_ALIGN, "on"},
	{TS_OPTION_ALIGN, "Off"},
	{TS_OPTION_ALIGN, "-1"},
	{TS_OPTION_ALIGN, "+1"},
	{TS_OPTION_ALIGN, "0x1"},
	{TS_OPTION_ALIGN, "1 "},
	{TS_OPTION_ALIGN, " "},
	{TS_OPTION_ALIGN, "1.0"},
	{TS_OPTION_ALIGN, "9223372036854775808"},
	{TS_OPTION_ALIGN, "18446744073709551617"},
	{TS_OPTION_IGNORE, ""},
	{TS_OPTION_IGNORE, "lr,"},
	{TS_OPTION_IGNORE, ",lr"},
	{TS_OPTION_IGNORE, "lr,,seed"},
	{TS_OPTION_IGNORE, "lr, seed"},
	{TS_OPTION_IGNORE, "opt.lr"},
	{TS_OPTION_IGNORE, "2x"},
	{TS_OPTION_EPOCH, ""},
	{TS_OPTION_EPOCH, "-1"},
	{TS_OPTION_EPOCH, "off"},
	{TS_OPTION_EPOCH, "3 "},
	{TS_OPTION_EPOCH, "1e3"},
	{TS_OPTION_EPOCH, "2147483648"},
	{TS_OPTION_ORDER, ""},
	{TS_OPTION_ORDER, "Free"},
	{TS_OPTION_ORDER, "any"},
	{TS_OPTION_RECORD, "relative/file"},
	{TS_OPTION_REPLAY, "On"},
	{TS_OPTION_EVENTS, "On"},
	{TS_OPTION_EVENTS, "1"},
	{TS_OPTION_EVENTS, "on "},
	{TS_OPTION_EVENTS, "relative/file"},
	{TS_OPTION_RING, ""},
	{TS_OPTION_RING, "G"},
	{TS_OPTION_RING, "1g"},
	{TS_OPTION_RING, "1GB"},
	{TS_OPTION_RING, "1 G"},
	{TS_OPTION_RING, "1.5G"},
	{TS_OPTION_RING, "-1"},
	{TS_OPTION_RING, "+1"},
	{TS_OPTION_RING, "0x10"},
	{TS_OPTION_RING, "1P"},
	{TS_OPTION_RING, "18446744073709551616"},
	{TS_OPTION_RING, "18014398509481984K"},
	{TS_OPTION_RING, "16777216T"},
	{TS_OPTION_ALIGN_ORDERS, ""},
	{TS_OPTION_ALIGN_ORDERS, "2"},
	{TS_OPTION_ALIGN_ORDERS, "yes"},
	{TS_OPTION_KEEP, ""},
	{TS_OPTION_KEEP, "min"},
	{TS_OPTION_KEEP, "-1"},
	{TS_OPTION_KEEP, "1 h"},
	{TS_OPTION_KEEP, "1.5h"},
	{TS_OPTION_KEEP, "10minutes"},
	{TS_OPTION_KEEP, "1H"},
	{TS_OPTION_KEEP, "2592001"},
	{TS_OPTION_KEEP, "31d"},
	{TS_OPTION_KEEP, "213503982334602d"},
	{TS_OPTION_VERIFY, ""},
	{TS_OPTION_VERIFY, "."},
	{TS_OPTION_VERIFY, ".5"},
	{TS_OPTION_VERIFY, "1."},
	{TS_OPTION_VERIFY, "1.00001"},
	{TS_OPTION_VERIFY, "1.0.0"},
	{TS_OPTION_VERIFY, "100.0001"},
	{TS_OPTION_VERIFY, "101"},
	{TS_OPTION_VERIFY, "1%"},
	{TS_OPTION_VERIFY, "1e1"},
	{TS_OPTION_VERIFY, "-1"},
	{TS_OPTION_VERIFY, "1,5"},
	{TS_OPTION_VERIFY, "99999999999999999999"},
	{TS_OPTION_SUMMARY, ""},
	{TS_OPTION_SUMMARY, "2"},
	{TS_OPTION_SUMMARY, "pid:"},
	{TS_OPTION_SUMMARY, "pid:0"},
	{TS_OPTION_SUMMARY, "pid:-1"},
	{TS_OPTION_SUMMARY, "pid:1x"},
	{TS_OPTION_SUMMARY, "pid:2147483648"},
	{TS_OPTION_SUMMARY, "line:"},
	{TS_OPTION_SUMMARY, "line:1"},
	{TS_OPTION_SUMMARY, "line:1:2"},
	{TS_OPTION_SUMMARY, "line:0:2:3"},
	{TS_OPTION_SUMMARY, "line:1:2:3:"},
	{TS_OPTION_SUMMARY, "line:1:2:-3"},
	{TS_OPTION_SUMMARY, "line:1::3"},
	{TS_OPTION_SUMMARY, "line:18446744073709551616:2:3"},
	{TS_OPTION_QUIET, ""},
	{TS_OPTION_QUIET, "2"},
	{TS_OPTION_DEBUG, ""},
	{TS_OPTION_DEBUG, "Warn"},
	{TS_OPTION_DEBUG, "warning"},
	{TS_OPTION_DEBUG, "1"},
	{TS_OPTION_COUNT, "1"},
};

Test(config, bad_values_change_nothing)
{
	bool covered[TS_OPTION_COUNT + 1] = {false};

	for (size_t i = 0; i < TS_ARRAY_SIZE(bad); i++) {
		struct ts_config before;
		ts_config_init(&config);
		memcpy(&before, &config, sizeof(before));
		covered[bad[i].option] = true;
		cr_expect(eq(int, set(bad[i].option, bad[i].value), -EINVAL), "%d '%s'",
			(int)bad[i].option, bad[i].value);
		cr_expect(memcmp(&before, &config, sizeof(before)) == 0, "%d '%s'",
			(int)bad[i].option, bad[i].value);
	}
	for (int i = 0; i < TS_OPTION_COUNT; i++)
		cr_expect(covered[i], "option %d has no bad value here", i);
}

static const struct {
	const char *value;
	uint32_t seconds;
} times[] = {{"0", 0}, {"90", 90}, {"90s", 90}, {"5m", 300}, {"10min", 600}, {"2h", 7200},
	{"1d", 86400}, {"30d", TS_KEEP_MAX}, {"2592000", TS_KEEP_MAX}};

Test(config, times)
{
	ts_config_init(&config);
	cr_expect(eq(u32, config.keep, 0));
	for (size_t i = 0; i < TS_ARRAY_SIZE(times); i++) {
		cr_expect(
			eq(int, set(TS_OPTION_KEEP, times[i].value), 0), "%s", times[i].value);
		cr_expect(eq(u32, config.keep, times[i].seconds), "%s", times[i].value);
	}
}

static const struct {
	const char *value;
	uint64_t bytes;
} sizes[] = {
	{"0", 0},
	{"1", 1},
	{"007", 7},
	{"3K", 3 << 10},
	{"512M", UINT64_C(512) << 20},
	{"4G", UINT64_C(4) << 30},
	{"2T", UINT64_C(2) << 40},
	{"0T", 0},
	{"18446744073709551615", UINT64_MAX},
	{"18014398509481983K", UINT64_MAX - 1023},
	{"16777215T", UINT64_C(16777215) << 40},
};

Test(config, sizes)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(sizes); i++) {
		cr_assert(
			eq(int, set(TS_OPTION_RING, sizes[i].value), 0), "%s", sizes[i].value);
		cr_expect(eq(u64, config.ring_bytes, sizes[i].bytes), "%s", sizes[i].value);
	}
}

static const struct {
	const char *value;
	uint32_t ppm;
} shares[] = {
	{"0", 0},
	{"0.0", 0},
	{"0.0001", 1},
	{"0.1", 1000},
	{"0.10", 1000},
	{"1.2345", 12345},
	{"50", 500000},
	{"99.9999", 999999},
	{"100", 1000000},
	{"100.0000", 1000000},
	{"00100", 1000000},
};

Test(config, per_cent)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(shares); i++) {
		cr_assert(eq(int, set(TS_OPTION_VERIFY, shares[i].value), 0), "%s",
			shares[i].value);
		cr_expect(eq(u32, config.verify_ppm, shares[i].ppm), "%s", shares[i].value);
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

Test(config, switches)
{
	cr_assert(eq(int, set(TS_OPTION_DISABLE, "1"), 0));
	cr_expect(config.disable);
	cr_assert(eq(int, set(TS_OPTION_DISABLE, "0"), 0));
	cr_expect(not(config.disable));
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

Test(config, what_is_shared)
{
	static const char *const names[] = {"auto", "samples", "pixels", "off"};

	for (int i = TS_SHARE_AUTO; i <= TS_SHARE_OFF; i++) {
		cr_assert(eq(int, set(TS_OPTION_SHARE, names[i]), 0));
		cr_expect(eq(int, config.share, i));
	}
}

Test(config, copies_to_a_gpu)
{
	cr_assert(eq(int, set(TS_OPTION_COPIES, "auto"), 0));
	cr_expect(eq(int, config.copies, TS_COPIES_AUTO));
	cr_assert(eq(int, set(TS_OPTION_COPIES, "off"), 0));
	cr_expect(eq(int, config.copies, TS_COPIES_OFF));
}

static const struct {
	const char *value;
	bool align;
	uint64_t seed;
} seeds[] = {
	{"0", true, 0},
	{"off", false, 0},
	{"7", true, 7},
	{"", false, 0},
	{"007", true, 7},
	{"9223372036854775807", true, TS_SEED_MAX},
	{"off", false, 0},
};

Test(config, alignment_is_off_or_has_a_seed)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(seeds); i++) {
		cr_assert(
			eq(int, set(TS_OPTION_ALIGN, seeds[i].value), 0), "%s", seeds[i].value);
		cr_expect(eq(int, config.align, seeds[i].align), "%s", seeds[i].value);
		cr_expect(eq(u64, config.align_seed, seeds[i].seed), "%s", seeds[i].value);
	}
}

Test(config, epochs)
{
	cr_assert(eq(int, set(TS_OPTION_EPOCH, "2147483647"), 0));
	cr_expect(eq(u32, config.epoch, TS_EPOCH_MAX));
	cr_assert(eq(int, set(TS_OPTION_EPOCH, "0"), 0));
	cr_expect(eq(u32, config.epoch, 0));
}

Test(config, orders_and_recordings)
{
	cr_assert(eq(int, set(TS_OPTION_ORDER, "free"), 0));
	cr_expect(eq(int, config.order, TS_ORDER_FREE));
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
	cr_expect(ts_config_words(TS_OPTION_RING) == NULL);
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

Test(config, levels)
{
	static const char *const names[] = {"error", "warn", "info", "debug"};

	for (int i = TS_LEVEL_ERROR; i <= TS_LEVEL_DEBUG; i++) {
		cr_assert(eq(int, set(TS_OPTION_DEBUG, names[i]), 0));
		cr_expect(eq(int, config.debug, i));
	}
}

Test(config, every_option_says_what_it_expects)
{
	for (int i = 0; i < TS_OPTION_COUNT; i++)
		cr_expect(strlen(ts_config_expect((enum ts_option)i)) > 0, "%d", i);
}
