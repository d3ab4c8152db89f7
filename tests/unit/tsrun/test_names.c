/* SPDX-License-Identifier: MIT */
/* What is one of our objects by its name, and whose. */
#include "shim/tsrun/names.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct ts_names names;

static void init(void)
{
	cr_assert_eq(ts_names_init(&names), 0);
}

TestSuite(names, .init = init);

static struct ts_name parse(const char *name)
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
	return parse(name);
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
		cr_expect_eq(parse(whole[i]).kind, TS_NAME_OTHER, "%s", whole[i]);
	memset(longest, 'g', sizeof(longest));
	strcpy(longest + TS_GROUP_MAX, ".ring");
	cr_expect_eq(parse_own(longest).kind, TS_NAME_RING);
	memset(longest, 'g', sizeof(longest));
	strcpy(longest + TS_GROUP_MAX + 1, ".ring");
	cr_expect_eq(parse_own(longest).kind, TS_NAME_OTHER);
}

Test(names, objects_of_others)
{
	struct ts_name name = parse("tsshim.0.1-2.g.ring");
	cr_expect(name.kind == TS_NAME_RING && name.foreign && !name.same_pids);
	char text[TS_PATH_BYTES];
	(void)snprintf(text, sizeof(text), "tsshim.77.1%sg.ring", strrchr(names.prefix, '-'));
	name = parse(text);
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
