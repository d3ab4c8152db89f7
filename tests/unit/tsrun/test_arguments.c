/* SPDX-License-Identifier: MIT */
/* The command line of tsrun. */
#include "shim/tsrun/arguments.h"
#include "shim/tsrun/json.h"
#include "shim/tsrun/names.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the command is looked at, which points into them, they have to be of the test's scope.
 */
#define WORDS(...) ((const char *[]){"tsrun", __VA_ARGS__, NULL})

static struct ts_arguments result;

/* argv is writable by tradition only: nothing here writes into the words. */
static int parse(const char **argv)
{
	int argc = 0;
	while (argv[argc])
		argc++;
	memset(&result, 0xff, sizeof(result));
	return ts_arguments_parse(argc, (char **)argv, &result);
}

Test(arguments, command_behind_dashes)
{
	const char **argv = WORDS("--", "-odd", "--group", "x");
	cr_assert_eq(parse(argv), 0);
	cr_assert_eq(result.mode, TS_MODE_RUN);
	cr_assert(result.separated);
	cr_assert_eq((const char **)result.command, argv + 2);
	cr_assert_null(result.setting[TS_OPTION_GROUP]);
}

Test(arguments, command_without_dashes_keeps_its_options)
{
	const char **argv = WORDS("--group", "a", "python", "--ring", "7", "--", "stats");
	cr_assert_eq(parse(argv), 0);
	cr_assert_not(result.separated);
	cr_assert_eq((const char **)result.command, argv + 3);
	cr_assert_str_eq(result.setting[TS_OPTION_GROUP], "a");
	cr_assert_null(result.setting[TS_OPTION_RING]);
}

Test(arguments, both_ways_to_give_a_value)
{
	cr_assert_eq(parse(WORDS("--ring=1G", "--dataset", "n=/d", "--verify=", "--", "c")), 0);
	cr_assert_str_eq(result.setting[TS_OPTION_RING], "1G");
	cr_assert_str_eq(result.setting[TS_OPTION_DATASET], "n=/d");
	cr_assert_str_eq(result.setting[TS_OPTION_VERIFY], "");
	cr_assert_eq(parse(WORDS("--dataset=n=/d=e", "c")), 0);
	cr_assert_str_eq(result.setting[TS_OPTION_DATASET], "n=/d=e");
}

Test(arguments, the_last_one_counts)
{
	cr_assert_eq(parse(WORDS("--group=a", "--group", "b", "c")), 0);
	cr_assert_str_eq(result.setting[TS_OPTION_GROUP], "b");
}

Test(arguments, summary_takes_no_value)
{
	cr_assert_eq(parse(WORDS("--summary", "c")), 0);
	cr_assert_str_eq(result.setting[TS_OPTION_SUMMARY], "");
	cr_redirect_stderr();
	cr_assert_eq(parse(WORDS("--summary=1", "c")), -EINVAL);
	fflush(stderr);
	cr_assert_stderr_eq_str("tsrun: option '--summary' takes no value\n");
}

Test(arguments, a_seed_may_be_left_out_and_is_joined)
{
	const char **argv = WORDS("--align", "c");
	cr_assert_eq(parse(argv), 0);
	cr_assert_str_eq(result.setting[TS_OPTION_ALIGN], "0");
	cr_assert_str_eq(result.command[0], "c");
	cr_assert_eq(parse(WORDS("--align", "--", "c")), 0);
	cr_assert_str_eq(result.setting[TS_OPTION_ALIGN], "0");
	cr_assert(result.separated);
	cr_assert_eq(parse(WORDS("--align=7", "--epoch", "3", "c")), 0);
	cr_assert_str_eq(result.setting[TS_OPTION_ALIGN], "7");
	cr_assert_str_eq(result.setting[TS_OPTION_EPOCH], "3");
	cr_assert_eq(parse(WORDS("--align", "--align=off", "c")), 0);
	cr_assert_str_eq(result.setting[TS_OPTION_ALIGN], "off");
	cr_assert_eq(parse(WORDS("--align=9", "--align", "c")), 0);
	cr_assert_str_eq(result.setting[TS_OPTION_ALIGN], "0");
	cr_assert_eq(parse(WORDS("--align")), 0);
	cr_assert_null(result.command);
}

Test(arguments, the_option_before_the_command_is_known_when_it_has_no_value)
{
	const char **argv = WORDS("--group=g", "--align", "7", "--", "c");
	cr_assert_eq(parse(argv), 0);
	cr_assert_str_eq(result.command[0], "7");
	cr_assert_not_null(result.last);
	cr_assert_str_eq(result.last->name, "--align");
	cr_assert_eq(parse(WORDS("--summary", "c")), 0);
	cr_assert_str_eq(result.last->name, "--summary");
	cr_assert_eq(parse(WORDS("--align", "--group", "g", "c")), 0);
	cr_assert_null(result.last);
	cr_assert_eq(parse(WORDS("--align=7", "c")), 0);
	cr_assert_null(result.last);
	cr_assert_eq(parse(WORDS("c")), 0);
	cr_assert_null(result.last);
}

Test(arguments, sub_commands)
{
	cr_assert_eq(parse(WORDS("stats", "--json", "--group=g")), 0);
	cr_assert_eq(result.mode, TS_MODE_STATS);
	cr_assert(result.flag[TS_FLAG_JSON]);
	cr_assert_null(result.command);
	cr_assert_eq(parse(WORDS("gc", "-n")), 0);
	cr_assert_eq(result.mode, TS_MODE_GC);
	cr_assert(result.flag[TS_FLAG_DRY_RUN]);
	const char **argv = WORDS("--", "stats");
	cr_assert_eq(parse(argv), 0);
	cr_assert_eq(result.mode, TS_MODE_RUN);
	cr_assert_str_eq(result.command[0], "stats");
}

Test(arguments, explain_takes_a_process)
{
	cr_assert_eq(parse(WORDS("explain", "--json", "--group", "g", "--pid", "12")), 0);
	cr_assert_eq(result.mode, TS_MODE_EXPLAIN);
	cr_assert(result.flag[TS_FLAG_JSON]);
	cr_assert_str_eq(result.value[TS_FLAG_PID], "12");
	cr_assert_null(result.command);
}

Test(arguments, doctor_takes_a_command)
{
	cr_assert_eq(parse(WORDS("doctor", "--json")), 0);
	cr_assert_eq(result.mode, TS_MODE_DOCTOR);
	cr_assert(result.flag[TS_FLAG_JSON]);
	cr_assert_null(result.command);
	const char **argv = WORDS("doctor", "--", "gc", "--json");
	cr_assert_eq(parse(argv), 0);
	cr_assert_eq(result.mode, TS_MODE_DOCTOR);
	cr_assert_not(result.flag[TS_FLAG_JSON]);
	cr_assert_eq((const char **)result.command, argv + 3);
	argv = WORDS("doctor", "stats", "-x");
	cr_assert_eq(parse(argv), 0);
	cr_assert_eq((const char **)result.command, argv + 2);
}

Test(arguments, report_takes_files)
{
	/* Of this scope, for the files are moved together in it. */
	const char **argv = WORDS("report", "a", "-o", "page", "-", "--", "-b");
	cr_assert_eq(parse(argv), 0);
	cr_assert_eq(result.mode, TS_MODE_REPORT);
	cr_assert_str_eq(result.value[TS_FLAG_OUTPUT], "page");
	cr_assert_str_eq(result.files[0], "a");
	cr_assert_str_eq(result.files[1], "-");
	cr_assert_str_eq(result.files[2], "-b");
	cr_assert_null(result.files[3]);
	cr_assert_null(result.command);
	cr_assert_eq(parse(WORDS("report", "-opage")), 0);
	cr_assert_null(result.files);
	argv = WORDS("report", "a", "b");
	cr_assert_eq(parse(argv), 0);
	cr_assert_str_eq(result.files[1], "b");
	cr_assert_eq(parse(WORDS("report", "a", "--json")), -EINVAL);
	cr_assert_eq(parse(WORDS("report", "a", "-o")), -EINVAL);
}

Test(arguments, values_of_flags)
{
	cr_assert_eq(parse(WORDS("top", "-b", "-n", "3", "-d0.5", "--group", "g")), 0);
	cr_assert_eq(result.mode, TS_MODE_TOP);
	cr_assert(result.flag[TS_FLAG_BATCH]);
	cr_assert_null(result.value[TS_FLAG_BATCH]);
	cr_assert_str_eq(result.value[TS_FLAG_BLOCKS], "3");
	cr_assert_str_eq(result.value[TS_FLAG_DELAY], "0.5");
	cr_assert_str_eq(result.setting[TS_OPTION_GROUP], "g");
	cr_assert_eq(parse(WORDS("top", "--count=4", "--delay", "7", "-n5")), 0);
	cr_assert_str_eq(result.value[TS_FLAG_BLOCKS], "5");
	cr_assert_str_eq(result.value[TS_FLAG_DELAY], "7");
	cr_assert_eq(parse(WORDS("top")), 0);
	cr_assert_null(result.value[TS_FLAG_BLOCKS]);
	cr_assert_not(result.flag[TS_FLAG_BLOCKS]);
}

Test(arguments, help_stops_the_parsing)
{
	cr_assert_eq(parse(WORDS("--help", "--nonsense")), 0);
	cr_assert(result.flag[TS_FLAG_HELP]);
	cr_assert_eq(parse(WORDS("gc", "-h")), 0);
	cr_assert(result.flag[TS_FLAG_HELP]);
	cr_assert_eq(result.mode, TS_MODE_GC);
}

Test(arguments, nothing_given)
{
	cr_assert_eq(parse((const char *[]){"tsrun", NULL}), 0);
	cr_assert_null(result.command);
	cr_assert_eq(parse(WORDS("--")), 0);
	cr_assert_null(result.command);
}

static const char *const wrong[][4] = {
	{"--grop", "x", "c"},
	{"-x", "c"},
	{"--group"},
	{"--group", "--", "c"},
	{"--json", "c"},
	{"--align=", "c"},
	{"--epoch", "--", "c"},
	{"--share"},
	{"gc", "--align"},
	{"--version=1", "c"},
	{"stats", "--dry-run"},
	{"stats", "--ring", "1G"},
	{"stats", "--summary"},
	{"gc", "now"},
	{"doctor", "--group", "g"},
	{"doctor", "-n"},
	{"explain", "--ring", "1G"},
	{"explain", "--pid"},
	{"gc", "-n3"},
	{"top", "-n"},
	{"top", "-b1"},
	{"top", "-n", "--batch"},
	{"top", "now"},
	{"gc", "--", "now"},
	{"--group", "g", "stats"},
};

Test(arguments, wrong_ones_are_refused_and_change_nothing)
{
	cr_redirect_stderr();
	for (size_t i = 0; i < TS_ARRAY_SIZE(wrong); i++) {
		const char *argv[6] = {"tsrun", wrong[i][0], wrong[i][1], wrong[i][2], NULL};
		cr_expect_eq(parse(argv), -EINVAL, "case %zu", i);
		cr_expect_eq(result.command, (char **)(uintptr_t)UINT64_MAX, "case %zu", i);
	}
}

Test(arguments, nearest_option_is_named)
{
	cr_redirect_stderr();
	cr_assert_eq(parse(WORDS("--grop=x", "c")), -EINVAL);
	fflush(stderr);
	cr_assert_stderr_eq_str(
		"tsrun: unknown option '--grop'\nhint: did you mean '--group'?\n");
}

Test(arguments, every_option_of_the_table_is_known)
{
	for (const struct ts_option_text *o = ts_arguments_options(); o->name; o++) {
		if (o->name[0] == '\0') {
			cr_expect_eq(o->modes, 0);
			continue;
		}
		const char *value = o->metavar ? "1" : NULL;
		const char *mode =
			o->modes & TS_MODE_RUN
				? NULL
				: ts_arguments_mode_name((enum ts_mode)(o->modes & -o->modes));
		const char *argv[5] = {"tsrun"};
		int at = 1;
		if (mode)
			argv[at++] = mode;
		argv[at++] = o->name;
		argv[at] = value;
		cr_expect_eq(parse(argv), 0, "%s", o->name);
		cr_expect_not_null(o->help, "%s", o->name);
	}
}

/* The JSON writer: nesting, escapes, numbers. */

static char *json_text;
static size_t json_length;

static struct ts_json start(void)
{
	return (struct ts_json){.out = open_memstream(&json_text, &json_length)};
}

/* What was written without blanks and line ends outside of strings that hold none. */
static const char *finish(struct ts_json *json)
{
	fclose(json->out);
	char *to = json_text;
	for (const char *from = json_text; *from; from++)
		if (*from != ' ' && *from != '\n')
			*to++ = *from;
	*to = '\0';
	return json_text;
}

Test(json, commas_and_nesting)
{
	struct ts_json json = start();
	ts_json_open(&json, NULL, '{');
	ts_json_number(&json, "a", 1);
	ts_json_open(&json, "b", '[');
	ts_json_string(&json, NULL, NULL);
	ts_json_bool(&json, NULL, true);
	ts_json_open(&json, NULL, '{');
	ts_json_close(&json, '}');
	ts_json_close(&json, ']');
	ts_json_bool(&json, "c", false);
	ts_json_close(&json, '}');
	cr_assert_str_eq(finish(&json), "{\"a\":1,\"b\":[null,true,{}],\"c\":false}");
	free(json_text);
}

Test(json, numbers_keep_all_digits)
{
	struct ts_json json = start();
	ts_json_open(&json, NULL, '[');
	ts_json_number(&json, NULL, UINT64_MAX);
	ts_json_seconds(&json, NULL, 0);
	ts_json_seconds(&json, NULL, 1);
	ts_json_seconds(&json, NULL, 12345678901234567890u);
	ts_json_close(&json, ']');
	cr_assert_str_eq(finish(&json),
		"[18446744073709551615,0.000000000,0.000000001,12345678901.234567890]");
	free(json_text);
}

static const struct {
	const char *in, *out;
} strings[] = {
	{"", "\"\""}, {"plain", "\"plain\""}, {"q\"b\\", "\"q\\\"b\\\\\""},
	{"\n\t\x01\x7f", "\"\\u000a\\u0009\\u0001\\u007f\""},
	{"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
	{"a\xff"
	 "b",
		"\"a\\ufffdb\""},
	{"\xc0\xaf", "\"\\ufffd\\ufffd\""},            /* overlong */
	{"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""}, /* surrogate */
	{"\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""},
	{"\xe2\x82", "\"\\ufffd\\ufffd\""}, /* cut off */
};

Test(json, strings_are_valid_utf8)
{
	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
		struct ts_json json = start();
		ts_json_string(&json, NULL, strings[i].in);
		cr_expect_str_eq(finish(&json), strings[i].out, "case %zu", i);
		free(json_text);
	}
}

/* What is one of our objects by its name, and whose. */

static struct ts_names names;

static void init(void)
{
	cr_assert_eq(ts_names_init(&names), 0);
}

TestSuite(names, .init = init);

static struct ts_name parse_name(const char *name)
{
	struct ts_name parsed;

	ts_names_parse(&names, name, &parsed);
	return parsed;
}

/* A name that begins as all of ours do. */
static struct ts_name parse_own(const char *rest)
{
	char name[2 * TS_PATH_BYTES];

	(void)snprintf(name, sizeof(name), "%s%s", names.prefix, rest);
	return parse_name(name);
}

Test(names, own_objects)
{
	static const struct {
		const char *rest, *group;
		enum ts_name_kind kind;
	} cases[] = {
		{"g.ring", "g", TS_NAME_RING},
		{"g.ledger", "g", TS_NAME_LEDGER},
		{"g.stage", "g", TS_NAME_BELONGING},
		{"g.places", "g", TS_NAME_BELONGING},
		{"g.reset", "g", TS_NAME_BELONGING},
		{"a.b-c_d.ring", "a.b-c_d", TS_NAME_RING},
		{"g.ring.ring", "g.ring", TS_NAME_RING},
		{"1-2.ring", "1-2", TS_NAME_RING},
		{"g.new.12", "g", TS_NAME_PRIVATE},
		{"g.new.new.12", "g.new", TS_NAME_PRIVATE},
	};
	for (size_t i = 0; i < TS_ARRAY_SIZE(cases); i++) {
		struct ts_name name = parse_own(cases[i].rest);
		cr_expect_eq(name.kind, cases[i].kind, "%s", cases[i].rest);
		cr_expect_str_eq(name.group, cases[i].group);
		cr_expect(!name.foreign && name.same_pids, "%s", cases[i].rest);
		size_t length = strlen(name.stem), group = strlen(name.group);
		cr_expect(length > group && name.stem[0] == '/');
		cr_expect_str_eq(name.stem + length - group, name.group);
	}
	cr_expect_eq(parse_own("g.new.12").maker, 12);
}

Test(names, what_only_looks_alike)
{
	static const char *const others[] = {"", ".", "ring", ".ring", "g.rings", "g.f.0123",
		"g.new.", "g.new.1x", ".new.1", "new.1", "g.old.1", "g.ring."};
	char longest[TS_GROUP_MAX + 16];

	for (size_t i = 0; i < TS_ARRAY_SIZE(others); i++)
		cr_expect_eq(parse_own(others[i]).kind, TS_NAME_OTHER, "%s", others[i]);
	static const char *const whole[] = {"", "tsshim.", "tsshim.0.g.ring",
		"tsshim.0.1.g.ring", "tsshim.0.1-.g.ring", "tsshim.0.-1.g.ring",
		"tsshim.0.1-2x.g.ring", "tsshim.0x.1-2.g.ring", "tsshim..1-2.g.ring",
		"xtsshim.0.1-2.g.ring", "tsshim.0.123456789012345678901-2.g.ring"};
	for (size_t i = 0; i < TS_ARRAY_SIZE(whole); i++)
		cr_expect_eq(parse_name(whole[i]).kind, TS_NAME_OTHER, "%s", whole[i]);
	memset(longest, 'g', sizeof(longest));
	strcpy(longest + TS_GROUP_MAX, ".ring");
	cr_expect_eq(parse_own(longest).kind, TS_NAME_RING);
	memset(longest, 'g', sizeof(longest));
	strcpy(longest + TS_GROUP_MAX + 1, ".ring");
	cr_expect_eq(parse_own(longest).kind, TS_NAME_OTHER);
}

Test(names, objects_of_others)
{
	struct ts_name name = parse_name("tsshim.0.1-2.g.ring");
	cr_expect(name.kind == TS_NAME_RING && name.foreign && !name.same_pids);
	char text[TS_PATH_BYTES];
	(void)snprintf(text, sizeof(text), "tsshim.77.1%sg.ring", strrchr(names.prefix, '-'));
	name = parse_name(text);
	cr_expect(name.kind == TS_NAME_RING && name.foreign && name.same_pids);
}

Test(names, own_group)
{
	struct ts_name name;

	cr_assert_eq(ts_names_own("g.h", &name), 0);
	cr_expect_str_eq(name.group, "g.h");
	cr_expect(!name.foreign && name.same_pids);
	cr_expect_str_eq(strrchr(name.stem, '/') + 1 + strlen(names.prefix), "g.h");
	cr_expect_eq(ts_names_own("a/b", &name), -EINVAL);
}
