/* SPDX-License-Identifier: MIT */
/* What tsrun says of other nodes, by a table that was filled by hand. */
#include "printed.h"

#include "shim/tsrun/nodes.h"
#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/tsrun/baseline.h"
#include "shim/tsrun/rates.h"
#include "shim/tsrun/report.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

static struct ts_mail_table *table;
static struct ts_report report;
static char *text;

static struct ts_mail_table *make(void)
{
	struct ts_mail_table *made = aligned_alloc(64, ts_align_up(sizeof(*made), 64));

	cr_assert_not_null(made);
	memset(made, 0, sizeof(*made));
	return made;
}

static void begin(void)
{
	table = make();
	ts_write_relaxed(&table->helper, ts_process_id(getpid(), false));
	report = (struct ts_report){.group = "g", .nodes = table};
}

static void end(void)
{
	free(table);
	free(text);
}

TestSuite(nodes, .init = begin, .fini = end);

/* Counter i of the row is @first + i. */
static void fill(uint32_t row, const char *name, uint64_t first)
{
	struct ts_mail_peer *peer = &table->peers[row];

	memcpy(peer->name, name, strnlen(name, sizeof(peer->name)));
	ts_write_relaxed(&peer->state, TS_MAIL_PEER_OPEN);
	for (uint32_t i = 0; i < TS_MAIL_COUNTER_COUNT; i++)
		ts_write_relaxed(&peer->counters[i], first + i);
	if (ts_load_relaxed(&table->peer_count) <= row)
		ts_write_relaxed(&table->peer_count, row + 1);
}

static const char *print(void (*how)(const struct ts_report *, FILE *))
{
	return printed(&text, &report, how);
}

static void expect(const char *part)
{
	cr_expect_not_null(strstr(text, part), "no '%s' in\n%s", part, text);
}

Test(nodes, people_see_what_came_and_why_not)
{
	fill(0, "10.1.0.11:11300", 0);
	struct ts_mail_peer *peer = &table->peers[0];
	ts_write_relaxed(&peer->counters[TS_MAIL_COUNT_ASKED], 4000);
	ts_write_relaxed(&peer->counters[TS_MAIL_COUNT_GOT], 3000);
	ts_write_relaxed(&peer->counters[TS_MAIL_COUNT_GOT_BYTES], 3 << 20);
	ts_write_relaxed(&peer->error, ECONNREFUSED);
	print(ts_report_text);
	expect("\nOther nodes: asked by process ");
	expect("\nNode 10.1.0.11:11300  (connected)\n");
	expect("\n  values asked for                   4 000\n"
	       "    came                             3 000  (75.0 %), 3.0 MiB\n");
	expect("\n    handed over                          4  5 bytes\n");
	expect("\n    late                                 7  values not waited for any "
	       "longer\n");
	expect("\n    last failure: no server there\n");
}

Test(nodes, nothing_of_nothing_is_no_number)
{
	fill(0, "one:1", 0);
	memset(table->peers[0].counters, 0, sizeof(table->peers[0].counters));
	ts_write_relaxed(&table->helper, 0);
	ts_write_relaxed(&table->error, ESTALE);
	print(ts_report_text);
	expect("    came                                 0  (n/a)\n");
	expect("nobody asks them now: the list of nodes, the settings or a certificate "
	       "changed\n");
	cr_expect_null(strstr(text, "last failure"), "%s", text);
	print(ts_report_json);
	expect("\"helper\": null,");
	expect("\"error\": null,");
	report.nodes = NULL;
	print(ts_report_json);
	expect("\"nodes\": null,");
	cr_expect_null(strstr(print(ts_report_text), "Other nodes"), "%s", text);
	cr_expect_null(strstr(print(ts_report_verbose), "Other nodes"), "%s", text);
	cr_expect_null(strstr(print(ts_report_prometheus), "node="), "%s", text);
}

Test(nodes, every_counter_is_in_every_form)
{
	char line[160];

	fill(0, "one:1", 1000);
	fill(1, "two:2", 2000);
	for (uint32_t i = 0; i < TS_MAIL_COUNTER_COUNT; i++) {
		const struct ts_node_counter *counter = &ts_node_counters[i];
		print(ts_report_verbose);
		snprintf(line, sizeof(line), "\n    %-18s %17s%03u  %s\n", counter->id, "1 ", i,
			counter->text);
		expect(line);
		print(ts_report_json);
		snprintf(line, sizeof(line), "\"%s\": %u", counter->id, 2000 + i);
		expect(line);
		print(ts_report_prometheus);
		snprintf(line, sizeof(line),
			"\ntsshim_node_%s_total{group=\"g\",node=\"two:2\"} %u\n", counter->id,
			2000 + i);
		expect(line);
	}
}

/* The part of what was printed between two lines; NULL: to its end. */
static void expect_within(const char *begin, const char *end, const char *line)
{
	const char *from = begin ? strstr(text, begin) : text;

	cr_assert_not_null(from, "%s", text);
	const char *to = end ? strstr(from, end) : from + strlen(from);
	const char *found = strstr(from, line);
	cr_assert_not_null(to, "%s", text);
	cr_expect(found && found < to, "%s not in %s", line, from);
}

/* In seconds, where they are nanoseconds; @what is "samples" or "pictures". */
static void expect_of(const char *what, unsigned number, bool is_seconds, const char *id,
	const char *metric, const char *meaning)
{
	char line[160], value[40];
	bool is_pictures = strcmp(what, "pictures") == 0;

	snprintf(value, sizeof(value), is_seconds ? "%u.500000000" : "%u", number);
	print(ts_report_json);
	snprintf(line, sizeof(line), "\"%s\": %s", id, value);
	expect_within(is_pictures ? "\"pictures\": {" : "\"nodes\": {",
		is_pictures ? "\"list\": [" : "\"pictures\": {", line);
	print(ts_report_prometheus);
	snprintf(line, sizeof(line), "\ntsshim_nodes_%s_%s{group=\"g\"} %s\n", what, metric,
		value);
	expect(line);
	print(ts_report_verbose);
	snprintf(value, sizeof(value), is_seconds ? "%u.50" : "%u", number);
	snprintf(line, sizeof(line), "\n    %-18s %20s  %s\n", id, value, meaning);
	expect_within(is_pictures ? "\nPictures between" : "\nSamples between",
		is_pictures ? NULL : "\nPictures between", line);
}

enum { number = 0, seconds = 1 };

static void give(_Atomic uint64_t *counter, bool is_seconds, unsigned *given)
{
	ts_write_relaxed(counter, is_seconds ? *given * SECOND + SECOND / 2 : *given);
	++*given;
}

Test(nodes, all_that_is_told_of_samples_and_pictures_is_in_every_form)
{
	unsigned given = 100;

#define TS_X(member, as, ...) give(&table->samples.member, as == seconds, &given);
	TS_NODE_FLOW(TS_X)
#undef TS_X
#define TS_X(member, as, ...) give(&table->use.member, as == seconds, &given);
	TS_NODE_USE(TS_X)
#undef TS_X
	given = 200;
#define TS_X(member, as, ...) give(&table->pictures.member, as == seconds, &given);
	TS_NODE_FLOW(TS_X)
#undef TS_X
	given = 100;
#define TS_X(member, as, id, metric, meaning) \
	expect_of("samples", given++, as == seconds, id, metric, meaning);
	TS_NODE_FLOW(TS_X)
	TS_NODE_USE(TS_X)
#undef TS_X
	given = 200;
#define TS_X(member, as, id, metric, meaning) \
	expect_of("pictures", given++, as == seconds, id, metric, meaning);
	TS_NODE_FLOW(TS_X)
#undef TS_X
	print(ts_report_text);
	expect("\n  samples: 100 asked for, 101 came, 102 were ours to make\n"
	       "    getting one took 1044.6 ms, making it 1054.5 ms\n"
	       "    left alone 107 times: getting them took longer\n"
	       "  pictures: 200 asked for, 201 came, 202 were ours to make\n"
	       "    getting one took 1022.4 ms, making it 1027.4 ms\n"
	       "    left alone 207 times: getting them took longer\n"
	       "    other nodes were told of 112, and told of 113\n"
	       "    left alone 111 times: no node fetched them\n"
	       "    meanwhile 316 were asked for all the same, at most one in 16\n");
}

Test(nodes, how_long_nobody_asks_for_samples)
{
	expect_of("samples", 0, false, "asked", "asked_total",
		"Those that other nodes were asked for.");
	print(ts_report_json);
	expect("\"off_seconds\": 0.000000000");
	ts_write_relaxed(&table->samples.asked, 1);
	ts_write_relaxed(&table->samples.times_off, 2);
	cr_expect_null(strstr(print(ts_report_text), "now as well"), "%s", text);
	ts_write_relaxed(&table->samples.worth.off_until, UINT64_MAX);
	print(ts_report_json);
	expect("\"off_seconds\": 30.000000000");
	print(ts_report_prometheus);
	expect("\ntsshim_nodes_samples_off_seconds{group=\"g\"} 30.000000000\n");
	print(ts_report_text);
	expect("left alone 2 times: getting them took longer; now as well\n");
	cr_expect_null(strstr(text, "fetched them"), "%s", text);
}

Test(nodes, how_long_nobody_asks_for_what_no_node_takes)
{
	ts_write_relaxed(&table->samples.asked, 1);
	ts_write_relaxed(&table->use.times_unused, 3);
	cr_expect_null(strstr(print(ts_report_text), "all the same"), "%s", text);
	ts_write_relaxed(&table->samples.tried, 1234);
	print(ts_report_text);
	expect("left alone 3 times: no node fetched them\n");
	expect("    meanwhile 1 234 were asked for all the same, at most one in 16\n");
	print(ts_report_json);
	expect("\"unused_seconds\": 0.000000000");
	ts_write_relaxed(&table->use.unused_until, UINT64_MAX);
	print(ts_report_json);
	expect("\"off_seconds\": 0.000000000");
	expect("\"unused_seconds\": 120.000000000");
	print(ts_report_prometheus);
	expect("\ntsshim_nodes_samples_unused_seconds{group=\"g\"} 120.000000000\n");
	print(ts_report_text);
	expect("left alone 3 times: no node fetched them; now as well\n");
}

/* Who writes there may write anything. */
Test(nodes, names_are_cut_and_escaped)
{
	char name[TS_MAIL_PEER_NAME + 1];

	memset(name, 'n', TS_MAIL_PEER_NAME);
	name[TS_MAIL_PEER_NAME] = '\0';
	fill(0, name, 0);
	fill(1, "\033[2J\"\\\n", 0);
	print(ts_report_text);
	snprintf(name, sizeof(name), "\nNode %.50s",
		"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn");
	expect(name);
	expect("\nNode \\x1b[2J\"\\\\x0a  (");
	print(ts_report_verbose);
	expect("\nNode \\x1b[2J\"\\\\x0a\n");
	print(ts_report_json);
	expect("\"name\": \"\\u001b[2J\\\"\\\\\\u000a\",");
	print(ts_report_prometheus);
	expect("node=\"\033[2J\\\"\\\\\\n\"}");
}

Test(nodes, damaged_tables_are_bounded)
{
	memset(table, 0xff, sizeof(*table));
	print(ts_report_text);
	expect("nobody asks them now: an unknown error\n");
	expect("  (unknown)\n");
	expect("    last failure: an unknown error\n");
	cr_expect_eq(ts_nodes_count(table), TS_MAIL_PEERS);
	print(ts_report_verbose);
	print(ts_report_json);
	print(ts_report_prometheus);
	/* A row without a name is none. */
	memset(table->peers, 0, sizeof(table->peers));
	cr_expect_null(strstr(print(ts_report_text), "\nNode "));
}

Test(nodes, a_reset_is_of_counters_of_the_same_names)
{
	static struct ts_baseline_nodes then;

	fill(0, "one:1", 1000);
	fill(1, "two:2", 1000);
	ts_write_relaxed(&table->posted, 7);
	memcpy(then.peers, table->peers, sizeof(then.peers));
	memcpy(then.peers[1].name, "2wo", 3);
	ts_write_relaxed(&then.posted, 3);
	ts_write_relaxed(&then.peers[0].counters[TS_MAIL_COUNT_GOT], 900);
	ts_write_relaxed(&table->samples.took_ns, 9);
	ts_write_relaxed(&then.samples.took_ns, 4);
	ts_write_relaxed(&table->samples.worth.off_until, 5);
	ts_baseline_subtract_nodes(table, &then);
	cr_expect_eq(ts_load_relaxed(&table->samples.took_ns), 5);
	cr_expect_eq(ts_load_relaxed(&table->samples.worth.off_until), 5);
	cr_expect_eq(ts_load_relaxed(&table->posted), 4);
	cr_expect_eq(ts_load_relaxed(&table->peers[0].counters[TS_MAIL_COUNT_ASKED]), 0);
	cr_expect_eq(ts_load_relaxed(&table->peers[0].counters[TS_MAIL_COUNT_GOT]), 101);
	cr_expect_eq(ts_load_relaxed(&table->peers[0].state), TS_MAIL_PEER_OPEN);
	cr_expect_eq(ts_load_relaxed(&table->peers[1].counters[TS_MAIL_COUNT_ASKED]), 1000);
}

/* tsrun top: rates of all nodes in a line that every terminal holds. */
Test(nodes, top_has_one_line)
{
	struct ts_mail_table *before = make();
	size_t length;

	fill(0, "one:1", 1000);
	fill(1, "two:2", 1000);
	memcpy(before, table, sizeof(*before));
	for (uint32_t row = 0; row < 2; row++) {
		ts_add_relaxed(&table->peers[row].counters[TS_MAIL_COUNT_ASKED], 20);
		ts_add_relaxed(&table->peers[row].counters[TS_MAIL_COUNT_GOT], 10);
		ts_add_relaxed(&table->peers[row].counters[TS_MAIL_COUNT_GOT_BYTES], 2048);
	}
	FILE *out = open_memstream(&text, &length);
	ts_rates_write_nodes(out, before, table, 2 * SECOND);
	ts_rates_write_nodes(out, NULL, table, 0);
	ts_rates_write_nodes(out, table, before, SECOND); /* they shrank */
	ts_write_relaxed(&table->helper, 0);
	for (uint32_t row = 0; row < 2; row++)
		memset(table->peers[row].counters, 0x7f, sizeof(table->peers[row].counters));
	ts_rates_write_nodes(out, before, table, 1);
	cr_assert_eq(fclose(out), 0);
	expect("  nodes: came 10.0 of 20.0/s, 2.0 KiB/s; stored 0.0/s; 2/2 open\n");
	expect("  nodes: came - of -/s, -/s; stored -/s; 2/2 open\n");
	expect("  nodes: came - of -/s, -/s; stored 0.0/s; 2/2 open\n");
	expect("many/s; stored many/s; no helper\n");
	for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
		cr_expect_leq(strcspn(line, "\n"), TS_RATES_COLUMNS, "%s", line);
	free(before);
}

/* Each error has its own words, and those that belong together have the same. */
Test(nodes, errors_are_told_in_words)
{
	static const struct {
		const char *(*explain)(uint64_t error);
		int error;
		const char *text;
	} told[] = {
		{ts_nodes_explain, ECONNREFUSED, "no server there"},
		{ts_nodes_explain, ETIMEDOUT, "it did not answer in time"},
		{ts_nodes_explain, ECONNRESET, "it closed the connection"},
		{ts_nodes_explain, EHOSTUNREACH, "the network does not reach it"},
		{ts_nodes_explain, EACCES, "it refused our token, or has another certificate"},
		{ts_nodes_explain, EPROTO, "it answered what no memcached answers"},
		{ts_nodes_explain_helper, ENOENT,
			"the directory of the cluster, or a file in it, is not there"},
		{ts_nodes_explain_helper, ESTALE,
			"the list of nodes, the settings or a certificate changed"},
		{ts_nodes_explain_helper, EPERM,
			"the directory of the cluster, or a file in it, is open to others"},
		{ts_nodes_explain_helper, EINVAL, "a file of the cluster has a fault"},
		{ts_nodes_explain, 1 << 20, "an unknown error"},
	};

	for (size_t i = 0; i < TS_ARRAY_SIZE(told); i++)
		for (size_t k = 0; k < TS_ARRAY_SIZE(told); k++) {
			bool is_told = told[i].explain == told[k].explain &&
				       told[i].error == told[k].error;
			const char *words = told[k].explain((uint64_t)told[k].error);
			cr_expect_eq(strcmp(words, told[i].text) == 0, is_told || i == k, "%s",
				words);
		}
	cr_expect_null(ts_nodes_explain(0));
}
