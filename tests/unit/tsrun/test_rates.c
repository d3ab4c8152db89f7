/* SPDX-License-Identifier: MIT */
/* What `tsrun top` says of two looks at counters that were filled by hand. */
#include "shim/tsrun/top.h"
#include "shim/tsrun/units.h"
#include "shim/atomic.h"
#include "shim/identity.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

/* Two looks at one group, two seconds apart: [0] before, [1] now. */
static struct ts_sample_group groups[2];
static struct ts_sample samples[2];
static struct ts_view_member members[2];
static uint32_t dataset, job;
static char *text;

static struct ts_ledger *copy_of(const struct ts_ledger *ledger)
{
	struct ts_ledger *copy = aligned_alloc(64, TS_LEDGER_BYTES);
	cr_assert_not_null(copy);
	if (ledger)
		memcpy(copy, ledger, TS_LEDGER_BYTES);
	else
		memset(copy, 0, TS_LEDGER_BYTES);
	return copy;
}

static void begin(void)
{
	uint64_t self = ts_process_id(getpid(), false);
	struct ts_ledger *ledger = copy_of(NULL);
	int d = ts_ledger_find_dataset(ledger, "photos");
	int j = ts_ledger_find_job(ledger, self);
	cr_assert(d >= 0 && j >= 0);
	dataset = (uint32_t)d;
	job = (uint32_t)j;
	ts_ledger_note(ledger, job, dataset);
	(void)prctl(PR_SET_NAME, "a\033trainer");
	for (int i = 0; i < 2; i++) {
		members[i] =
			(struct ts_view_member){.job = self, .alive = true, .live = i == 1};
		groups[i] = (struct ts_sample_group){.name = "g",
			.report = {.group = "g", .ledger = i ? copy_of(ledger) : ledger},
			.at_ns = (uint64_t)(2 * i + 1) * SECOND,
			.inode = 7};
		samples[i] = (struct ts_sample){.groups = &groups[i], .count = 1};
	}
	groups[1].report.ring = (struct ts_view_ring){
		.capacity = 4 << 20, .used = 1 << 20, .member_count = 2, .members = members};
	ts_sample_count(&groups[0]);
	ts_sample_count(&groups[1]);
}

static void end(void)
{
	free(groups[0].report.ledger);
	free(groups[1].report.ledger);
	free(text);
}

TestSuite(rates, .init = begin, .fini = end);

/* The counters of look @i: so much by the data set, and by the job. */
static void fill(int i, enum ts_kind kind, uint64_t made, uint64_t taken)
{
	struct ts_ledger *ledger = groups[i].report.ledger;
	struct ts_tally *tallies[] = {&ts_ledger_dataset(ledger, dataset)->kinds[kind],
		&ts_ledger_job(ledger, job)->kinds[kind]};

	for (size_t t = 0; t < TS_ARRAY_SIZE(tallies); t++) {
		ts_write_relaxed(&tallies[t]->produced, made);
		ts_write_relaxed(&tallies[t]->shared, taken);
		ts_write_relaxed(&tallies[t]->shared_bytes, 1024 * taken);
		ts_write_relaxed(&tallies[t]->saved_ns, SECOND / 100 * taken);
	}
}

static const char *print(bool with_before, bool everything)
{
	size_t length;

	free(text);
	FILE *out = open_memstream(&text, &length);
	cr_assert_not_null(out);
	ts_rates_write(out, with_before ? &samples[0] : NULL, &samples[1], everything);
	cr_assert_eq(fclose(out), 0);
	return text;
}

static void expect_line(const char *line)
{
	const char *found = strstr(text, line);
	cr_expect(found && (found == text || found[-1] == '\n') && found[strlen(line)] == '\n',
		"no line '%s' in\n%s", line, text);
}

Test(rates, of_two_looks)
{
	char line[128];

	fill(0, TS_KIND_PIXELS, 100, 1000);
	fill(1, TS_KIND_PIXELS, 120, 1300);
	print(true, false);
	expect_line("  1 job; ring 1.0 MiB of 4.0 MiB, 25 %; late 0.0/s; saved 1.50 CPU");
	expect_line("  photos               pixels     10.0    150.0   94 %    150.0 KiB  1.50 "
		    "    1");
	snprintf(line, sizeof(line),
		" %7d a?traine     1      -      - pixels   10.0   150.0    0.0    0.0  1.50",
		getpid());
	expect_line(line);
}

Test(rates, what_is_not_known_is_no_number)
{
	char line[128];

	fill(1, TS_KIND_SAMPLE, 120, 1300);
	groups[1].report.ring = (struct ts_view_ring){.capacity = 0};
	print(false, false);
	expect_line("  1 job; ring -; late -/s; saved - CPU");
	expect_line("  photos               sample        -        -      -            -     - "
		    "    -");
	snprintf(line, sizeof(line),
		" %7d a?traine     -      -      - sample      -       -      -      -     -",
		getpid());
	expect_line(line);
	/* Nothing was done: the rates are known, a share of nothing is not. */
	fill(0, TS_KIND_SAMPLE, 120, 1300);
	print(true, false);
	expect_line("  photos               sample      0.0      0.0      -      0 bytes  0.00 "
		    "    -");
}

Test(rates, counters_of_another_ledger_say_nothing)
{
	fill(0, TS_KIND_PIXELS, 100, 1000);
	fill(1, TS_KIND_PIXELS, 120, 1300);
	groups[0].inode = 8;
	print(true, false);
	expect_line("  photos               pixels        -        -      -            -     - "
		    "    1");
	groups[0].inode = 7;
	strcpy(groups[0].name, "h");
	cr_expect_not_null(strstr(print(true, false), "saved - CPU"), "%s", text);
	strcpy(groups[0].name, "g");
	cr_expect_not_null(strstr(print(true, false), "saved 1.50 CPU"), "%s", text);
}

Test(rates, a_job_that_has_just_begun_has_none)
{
	fill(0, TS_KIND_PIXELS, 100, 1000);
	fill(1, TS_KIND_PIXELS, 120, 1300);
	ts_write_relaxed(&ts_ledger_job(groups[0].report.ledger, job)->id, 12345);
	print(true, false);
	cr_expect_not_null(
		strstr(text, " pixels      -       -      -      -     -\n"), "%s", text);
	cr_expect_not_null(strstr(text, " pixels     10.0    150.0 "), "%s", text);
}

Test(rates, a_counter_that_shrinks_is_not_known)
{
	fill(0, TS_KIND_PIXELS, 121, 1000);
	fill(1, TS_KIND_PIXELS, 120, 1300);
	print(true, false);
	expect_line("  photos               pixels        -    150.0      -    150.0 KiB  1.50 "
		    "    1");
}

Test(rates, counters_at_their_end_do_not_wrap)
{
	fill(1, TS_KIND_PIXELS, UINT64_MAX, UINT64_MAX);
	print(true, false);
	cr_expect_not_null(strstr(text, " pixels     many     many   50 % "), "%s", text);
}

Test(rates, all_kinds_have_their_line)
{
	for (int kind = 0; kind < TS_KIND_COUNT; kind++)
		fill(1, (enum ts_kind)kind, 2, 4);
	print(true, false);
	expect_line("  photos               pixels      1.0      2.0   67 %      2.0 KiB  0.02 "
		    "    1");
	expect_line("                       sample      1.0      2.0   67 %      2.0 KiB  0.02 "
		    "     ");
	/* What an open of a copy saves is no CPU time. */
	expect_line("                       bytes       1.0      2.0   67 %      2.0 KiB     - "
		    "     ");
	expect_line("                       device      1.0      2.0   67 %      2.0 KiB  0.02 "
		    "     ");
}

Test(rates, reasons_and_waits_of_a_job)
{
	struct ts_ledger *now = groups[1].report.ledger;
	_Atomic uint64_t *passed = ts_ledger_job(now, job)->passed;

	fill(1, TS_KIND_PIXELS, 2, 2);
	ts_write_relaxed(&passed[TS_REASON_TIMEOUT], 6);
	ts_write_relaxed(&passed[TS_REASON_ALONE], 40);
	ts_write_relaxed(&now->passed[TS_REASON_TIMEOUT], 7);
	print(true, false);
	cr_expect_not_null(
		strstr(text, " pixels    1.0     1.0   23.0    3.0  0.01\n"), "%s", text);
	cr_expect_not_null(strstr(text, "; late 3.5/s; "), "%s", text);
}

Test(rates, how_far_jobs_are)
{
	struct ts_ledger *now = groups[1].report.ledger;
	uint32_t second = job + 1, third = job + 2;

	fill(1, TS_KIND_SAMPLE, 2, 2);
	ts_ledger_job(now, second)->id = ts_process_id(getppid(), false);
	ts_ledger_job(now, third)->id = 1; /* has ended */
	ts_ledger_advance(now, job, 77, 9 * (TS_EPOCH / 4), TS_ORDER_STRICT);
	ts_ledger_advance(now, second, 77, 17 * (TS_EPOCH / 4), TS_ORDER_STRICT);
	ts_ledger_advance(now, third, 77, 90 * (TS_EPOCH / 4), TS_ORDER_STRICT);
	ts_sample_count(&groups[1]);
	print(true, false);
	cr_expect_not_null(strstr(text, "Group g\n  2 jobs;"), "%s", text);
	cr_expect_not_null(strstr(text, "     1   2.25   2.00 sample "), "%s", text);
	cr_expect_not_null(strstr(text, "     0   4.25   0.00 -   "), "%s", text);
	cr_expect_null(strstr(text, "22.50"), "%s", text);
}

Test(rates, groups_without_jobs_are_counted)
{
	ts_write_relaxed(&ts_ledger_job(groups[1].report.ledger, job)->id, 1);
	ts_sample_count(&groups[1]);
	cr_expect_null(strstr(print(true, false), "without jobs"), "its ring is there");
	groups[1].report.ring.capacity = 0;
	cr_expect_str_eq(print(true, false), "No job is running; 1 group without jobs\n");
	cr_expect_not_null(
		strstr(print(true, true), "Group g\n  0 jobs; ring -; "), "%s", text);
	samples[1].count = 0;
	cr_expect_str_eq(print(true, false), "No job is running\n");
}

Test(rates, a_group_that_cannot_be_read_is_told)
{
	free(groups[1].report.ledger);
	groups[1].report.ledger = NULL;
	groups[1].error = -EPROTO;
	ts_sample_count(&groups[1]);
	print(true, false);
	expect_line("  cannot be read: it was made by another version of tsshim");
}

Test(rates, no_line_is_wider_than_a_terminal)
{
	char name[TS_DATASET_NAME];
	struct ts_ledger *now = groups[1].report.ledger;

	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	memcpy(ts_ledger_dataset(now, dataset)->name, name, sizeof(name));
	memset(groups[1].name, 'y', sizeof(groups[1].name) - 1);
	memcpy(groups[0].name, groups[1].name, sizeof(groups[1].name));
	for (int kind = 0; kind < TS_KIND_COUNT; kind++)
		fill(1, (enum ts_kind)kind, UINT64_MAX / 2048, UINT64_MAX / 2048);
	for (int i = 0; i < TS_REASON_SLOTS; i++)
		ts_write_relaxed(&ts_ledger_job(now, job)->passed[i], UINT64_MAX / 128);
	ts_ledger_advance(now, job, 77, UINT64_MAX, TS_ORDER_STRICT);
	groups[1].report.ring.capacity = groups[1].report.ring.used = UINT64_MAX;
	print(true, false);
	for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
		cr_expect_leq(strcspn(line, "\n"), TS_RATES_COLUMNS, "%s", line);
}

/* Counters carry no checksum. */
Test(rates, garbage_stays_within_the_columns)
{
	uint64_t noise = 1;

	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < 2; i++) {
			uint64_t *words = (uint64_t *)groups[i].report.ledger;
			for (size_t w = 16; w < TS_LEDGER_BYTES / sizeof(*words); w++) {
				noise = noise * UINT64_C(6364136223846793005) + 1;
				words[w] = round % 2 ? noise : noise & 0xff ? 0 : UINT64_MAX;
			}
			memset(groups[i].alive, 1, sizeof(groups[i].alive));
		}
		groups[1].jobs = TS_JOB_MAX;
		print(true, false);
		unsigned lines = 0;
		for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
			cr_assert_leq(strcspn(line, "\n"), TS_RATES_COLUMNS, "%s", line);
			lines++;
		}
		cr_expect_geq(lines, TS_JOB_MAX);
		cr_expect_null(strchr(text, '\033'));
	}
}

Test(rates, formats)
{
	static const struct {
		double rate;
		const char *text;
	} cases[] = {{NAN, "-"}, {0, "0.0"}, {1.5, "1.5"}, {9999.9, "9999.9"},
		{99999.499, "99999"}, {999999, "999999"}, {1.5e6, "1.5M"}, {1e9, "1G"},
		{1.8e28, "many"}};
	char buffer[TS_UNITS_RATE];

	for (size_t i = 0; i < TS_ARRAY_SIZE(cases); i++)
		cr_expect_str_eq(ts_units_rate(cases[i].rate, buffer), cases[i].text,
			"case %zu: %s", i, buffer);
}

Test(rates, times_and_epochs)
{
	char text_of[TS_UNITS_BYTES], epochs[TS_UNITS_RATE];

	cr_expect_str_eq(ts_units_duration(SECOND / 100, text_of), "0.01 s");
	cr_expect_str_eq(ts_units_duration(60 * SECOND - 1, text_of), "59.99 s");
	cr_expect_str_eq(ts_units_duration(3599 * SECOND, text_of), "59 min 59 s");
	cr_expect_str_eq(ts_units_duration(7260 * SECOND, text_of), "2 h 1 min");
	cr_expect_str_eq(ts_units_seconds(1234567 * SECOND - 1, text_of), "1 234 566.99");
	cr_expect_str_eq(ts_units_seconds(UINT64_MAX, text_of), "18 446 744 073.70");
	cr_expect_str_eq(ts_units_epochs(TS_EPOCH * 1000 - 1, epochs), "999.99");
	cr_expect_str_eq(ts_units_epochs(TS_EPOCH * 1000, epochs), "1000");
	cr_expect_str_eq(ts_units_epochs(UINT64_MAX, epochs), "many");
}

/* ---- other nodes ------------------------------------------------------------------------- */

static struct ts_mail_table *make_table(void)
{
	struct ts_mail_table *table = aligned_alloc(64, ts_align_up(sizeof(*table), 64));

	cr_assert_not_null(table);
	memset(table, 0, sizeof(*table));
	memcpy(table->peers[0].name, "one:1", 5);
	memcpy(table->peers[1].name, "two:2", 5);
	ts_write_relaxed(&table->peer_count, 2);
	ts_write_relaxed(&table->helper, ts_process_id(getpid(), false));
	for (uint32_t row = 0; row < 2; row++)
		ts_write_relaxed(&table->peers[row].state, TS_MAIL_PEER_OPEN);
	return table;
}

/* Rates of all nodes in a line that every terminal holds. */
Test(rates, other_nodes_have_one_line)
{
	struct ts_mail_table *before = make_table(), *table = make_table();

	for (uint32_t row = 0; row < 2; row++) {
		ts_add_relaxed(&table->peers[row].counters[TS_MAIL_COUNT_ASKED], 20);
		ts_add_relaxed(&table->peers[row].counters[TS_MAIL_COUNT_GOT], 10);
		ts_add_relaxed(&table->peers[row].counters[TS_MAIL_COUNT_GOT_BYTES], 2048);
	}
	groups[0].report.nodes = before;
	groups[1].report.nodes = table;
	print(true, false);
	expect_line("  nodes: came 10.0 of 20.0/s, 2.0 KiB/s; stored 0.0/s; 2/2 open");
	print(false, false);
	expect_line("  nodes: came - of -/s, -/s; stored -/s; 2/2 open");
	groups[0].report.nodes = table;
	groups[1].report.nodes = before; /* they shrank */
	print(true, false);
	expect_line("  nodes: came - of -/s, -/s; stored 0.0/s; 2/2 open");
	groups[0].report.nodes = before;
	groups[1].report.nodes = table;
	ts_write_relaxed(&table->helper, 0);
	for (uint32_t row = 0; row < 2; row++)
		memset(table->peers[row].counters, 0x7f, sizeof(table->peers[row].counters));
	print(true, false);
	expect_line("  nodes: came many of many/s, many/s; stored many/s; no helper");
	for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
		cr_expect_leq(strcspn(line, "\n"), TS_RATES_COLUMNS, "%s", line);
	free(before);
	free(table);
}
