/* SPDX-License-Identifier: MIT */
/* What `tsrun stats` prints of counters that were filled by hand. */
#include "shim/tsrun/metrics.h"
#include "shim/tsrun/nodes.h"
#include "shim/tsrun/report.h"
#include "shim/tsrun/units.h"
#include "shim/atomic.h"
#include "shim/identity.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

/* Columns of the text: a name, and a number that ends here. */
#define NUMBER_END 42

static struct ts_ledger *ledger;
static struct ts_mail_table *nodes;
static struct ts_report report;
static uint32_t dataset, job;
static char *text;

static void begin(void)
{
	ledger = aligned_alloc(64, TS_LEDGER_BYTES);
	cr_assert_not_null(ledger);
	memset(ledger, 0, TS_LEDGER_BYTES);
	int d = ts_ledger_find_dataset(ledger, "photos");
	int j = ts_ledger_find_job(ledger, ts_process_id(getpid(), false));
	cr_assert(d >= 0 && j >= 0);
	dataset = (uint32_t)d;
	job = (uint32_t)j;
	ts_ledger_note(ledger, job, dataset);
	report = (struct ts_report){.group = "g", .ledger = ledger};
}

static void end(void)
{
	free(ledger);
	free(nodes);
	free(text);
}

TestSuite(report, .init = begin, .fini = end);

/* @count pieces of work of @kind, three quarters of which were taken from others. */
static void fill(enum ts_kind kind, uint64_t count)
{
	struct ts_tally *rows[] = {
		&ts_ledger_dataset(ledger, dataset)->kinds[kind],
		&ts_ledger_job(ledger, job)->kinds[kind],
	};
	for (size_t i = 0; i < TS_ARRAY_SIZE(rows); i++) {
		ts_write_relaxed(&rows[i]->produced, count / 4);
		ts_write_relaxed(&rows[i]->shared, count - count / 4);
		ts_write_relaxed(&rows[i]->shared_bytes, 1024 * count);
		ts_write_relaxed(&rows[i]->saved_ns, count * 1000000);
	}
}

static const char *print(enum ts_report_form form)
{
	size_t length;

	free(text);
	FILE *out = open_memstream(&text, &length);
	cr_assert_not_null(out);
	ts_report_print(&report, form, out);
	cr_assert_eq(fclose(out), 0);
	return text;
}

/* As JSON, without blanks and line ends: none of its strings has any. */
static const char *print_json(void)
{
	(void)print(TS_REPORT_JSON);
	char *to = text;
	for (const char *from = text; *from; from++)
		if (*from != ' ' && *from != '\n')
			*to++ = *from;
	*to = '\0';
	return text;
}

/* Whether each line of the text that begins with @start has its number in the column. */
static bool is_aligned(const char *start)
{
	unsigned found = 0;
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, start, strlen(start)) != 0)
			continue;
		found++;
		size_t length = strcspn(line, "\n");
		if (length < NUMBER_END || line[NUMBER_END - 1] < '0' ||
			line[NUMBER_END - 1] > '9' ||
			(length > NUMBER_END && line[NUMBER_END] != ' '))
			return false;
	}
	return found > 0;
}

static bool is_aligned_row(const char *blanks, const char *name)
{
	char start[128];

	snprintf(start, sizeof(start), "%s%s ", blanks, name);
	return is_aligned(start);
}

Test(report, samples_are_shown_to_people)
{
	fill(TS_KIND_SAMPLE, 10000);
	print(TS_REPORT_TEXT);
	cr_expect_not_null(
		strstr(text, "\n  finished samples                  10 000\n"), "%s", text);
	cr_expect_not_null(
		strstr(text, "\n    worked out by a job              2 500  (25.0 %)\n"
			     "    taken from the ring              7 500  (75.0 %)\n"
			     "    CPU time saved         10.00 s\n"),
		"%s", text);
	cr_expect_null(strstr(text, "decoded images"), "of what there is none nothing is said");
}

Test(report, samples_are_there_for_scripts)
{
	static const char sample[] = "\"sample\":{\"produced\":250,\"shared\":750,"
				     "\"shared_bytes\":1024000,\"saved_seconds\":1.000000000}";
	fill(TS_KIND_SAMPLE, 1000);
	const char *json = print_json();
	const char *first = strstr(json, sample);
	cr_assert_not_null(first, "%s", json);
	cr_expect_not_null(strstr(first + 1, sample), "the job has the same: %s", json);
	cr_expect_not_null(strstr(json, "\"pixels\":{\"produced\":0,\"shared\":0,"));
}

/* A second living job, with the same data set and two epochs behind; and one that ended. */
static void add_jobs(void)
{
	static const uint64_t quarter = TS_EPOCH / 4;
	uint32_t second = job + 1, third = job + 2;

	ts_ledger_job(ledger, second)->id = ts_process_id(getpid(), false);
	ts_ledger_job(ledger, third)->id = 1;
	ts_ledger_advance(ledger, job, 77, 17 * quarter, TS_ORDER_STRICT);
	ts_ledger_advance(ledger, second, 77, 9 * quarter, TS_ORDER_STRICT);
	ts_ledger_advance(ledger, third, 77, 90 * quarter, TS_ORDER_STRICT);
}

Test(report, how_far_each_job_is_is_shown_to_people)
{
	char line[128];

	fill(TS_KIND_SAMPLE, 1000);
	print(TS_REPORT_TEXT);
	snprintf(line, sizeof(line),
		"\nJobs\n    pid %d; finished samples: 250 made, 750 taken\n\n", getpid());
	cr_expect_not_null(strstr(text, line), "%s", text);
	add_jobs();
	print(TS_REPORT_TEXT);
	cr_expect_not_null(strstr(text, "750 taken; at epoch 4.25, in front\n"), "%s", text);
	cr_expect_not_null(strstr(text, "; at epoch 2.25, behind by 2.00\n"
					"    and 1 that ended\n"),
		"%s", text);
}

Test(report, how_far_each_job_is_is_there_for_scripts)
{
	const char *json = print_json();
	cr_expect_not_null(
		strstr(json, "\"order\":null,\"epoch\":null,\"behind\":null,"), "%s", json);
	add_jobs();
	json = print_json();
	cr_expect_not_null(strstr(json, "\"order\":\"strict\",\"epoch\":2.250000000,"
					"\"behind\":2.000000000,"),
		"%s", json);
}

Test(report, what_is_not_shared_of_a_job_is_told)
{
	char longest[TS_REFUSAL_BYTES + 10];

	cr_expect_not_null(strstr(print_json(), "\"refused\":null"), "%s", text);
	ts_ledger_refuse(ledger, job, "dataset.table: a\033table");
	ts_ledger_refuse(ledger, job, "another one");
	ts_ledger_refuse(ledger, TS_JOB_MAX, "nobody's");
	print(TS_REPORT_TEXT);
	cr_expect_not_null(
		strstr(text, "; samples not shared: dataset.table: a?table\n"), "%s", text);
	cr_expect_not_null(
		strstr(print_json(), "\"refused\":\"dataset.table:a?table\""), "%s", text);

	/* Rows are used again, and long texts cut. */
	ts_write_relaxed(&ts_ledger_refusal_row(ledger, job)->state, 0);
	cr_expect_not_null(strstr(print_json(), "\"refused\":null"), "%s", text);
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	ts_ledger_refuse(ledger, job, longest);
	char found[TS_REFUSAL_BYTES];
	cr_assert(ts_ledger_refusal(ledger, job, found));
	cr_expect_eq(strlen(found), TS_REFUSAL_BYTES - 1);
	cr_expect_eq(memcmp(found, longest, TS_REFUSAL_BYTES - 1), 0);

	/* Whoever died before it was written has said nothing. */
	ts_write_relaxed(&ts_ledger_refusal_row(ledger, job)->state, 1);
	cr_expect_not(ts_ledger_refusal(ledger, job, found));
}

Test(report, numbers_of_all_kinds_stand_below_each_other)
{
	for (int kind = 0; kind < TS_KIND_COUNT; kind++)
		fill((enum ts_kind)kind, 1281167);
	print(TS_REPORT_TEXT);
	for (int kind = 0; kind < TS_KIND_COUNT; kind++)
		cr_expect(is_aligned_row("  ", ts_kinds[kind].text), "'%s' in %s",
			ts_kinds[kind].text, text);
	cr_expect(is_aligned("    worked out by a job"));
	cr_expect(is_aligned("    taken from the ring"));
}

Test(report, numbers_of_all_reasons_stand_below_each_other)
{
	for (int i = 0; i < TS_REASON_COUNT; i++)
		ts_write_relaxed(&ledger->passed[i], 1000u + (unsigned)i);
	print(TS_REPORT_TEXT);
	for (int i = 0; i < TS_REASON_COUNT; i++)
		cr_expect(is_aligned_row("    ", ts_reasons[i].id), "'%s' in %s",
			ts_reasons[i].id, text);
	cr_expect_not_null(strstr(text, "  an input file of a shared sample is not the same"));
}

/* ---- each figure in each form ------------------------------------------------------------ */

static void make_nodes(void)
{
	nodes = aligned_alloc(64, ts_align_up(sizeof(*nodes), 64));
	cr_assert_not_null(nodes);
	memset(nodes, 0, sizeof(*nodes));
	report.nodes = nodes;
}

/* What stands around the figures of a part in JSON, and for people; NULL: they lie nowhere. */
static const struct {
	const char *json, *json_end, *people, *people_end;
} parts[] = {
	[TS_OF_TALLY] = {"\"sample\": {", "}", "\n  sample: ", "\n  bytes: "},
	[TS_OF_RING] = {"\"ring\": {", "}", "\nGroup\n", "\n\n"},
	[TS_OF_GROUP] = {"\"made_apart\": {", "\"nodes\": {", "\nGroup\n", "\n\n"},
	[TS_OF_NODES] = {"\"nodes\": {", "\"samples\": {", "\nOther nodes: ", "\n\n"},
	[TS_OF_SAMPLES] = {"\"samples\": {", "}", "\nSamples between nodes\n", "\n\n"},
	[TS_OF_USE] = {"\"samples\": {", "}", "\nSamples between nodes\n", "\n\n"},
	[TS_OF_NODE] = {"\"list\": [", "]", "\nNode one:1  (", "\n\n"},
};

static char *place_of(enum ts_metric_of of)
{
	char *const places[TS_ARRAY_SIZE(parts)] = {
		[TS_OF_TALLY] =
			(char *)&ts_ledger_dataset(ledger, dataset)->kinds[TS_KIND_SAMPLE],
		[TS_OF_RING] = (char *)&report.ring,
		[TS_OF_GROUP] = (char *)ledger,
		[TS_OF_NODES] = (char *)nodes,
		[TS_OF_SAMPLES] = (char *)&nodes->samples,
		[TS_OF_USE] = (char *)&nodes->use,
		[TS_OF_NODE] = (char *)&nodes->peers[0],
	};
	return places[of];
}

/* A number of its own for each row, of four digits. */
static unsigned number_of(const struct ts_metric *metric)
{
	return metric->unit == TS_UNIT_UNTIL ? 0 : 1000 + (unsigned)(metric - ts_metrics);
}

/* Times are that many seconds and a half; those to wait until are over. */
static void fill_all(void)
{
	make_nodes();
	for (const struct ts_metric *m = ts_metrics; m->meaning; m++) {
		uint64_t value = number_of(m);
		if (m->unit == TS_UNIT_TIME || m->unit == TS_UNIT_CPU)
			value = value * SECOND + SECOND / 2;
		if (parts[m->of].json)
			memcpy(place_of(m->of) + m->at, &value, sizeof(value));
	}
	memcpy(nodes->peers[0].name, "one:1", 5);
	memcpy(nodes->peers[1].name, "two:2", 5);
	ts_write_relaxed(&nodes->peer_count, 2);
}

/* Expect @line between @begin and the next @end of what is printed. */
static void expect_within(
	enum ts_report_form form, const char *begin, const char *end, const char *line)
{
	const char *from = strstr(print(form), begin);
	const char *to = from ? strstr(from + strlen(begin), end) : NULL;
	const char *found = from ? strstr(from, line) : NULL;

	cr_assert(from && to, "no '%s' in\n%s", begin, text);
	cr_expect(found && found < to, "no '%s' behind '%s' in\n%s", line, begin, text);
}

static void expect_row(const struct ts_metric *m)
{
	bool is_time = ts_metric_is_time(m);
	unsigned number = number_of(m);
	char line[256], value[40], grouped[TS_UNITS_BYTES];
	int half = is_time && m->unit != TS_UNIT_UNTIL ? 5 : 0;

	(void)ts_units_grouped(number, grouped);
	snprintf(value, sizeof(value), is_time ? "%s.%d0" : "%s", grouped, half);
	snprintf(line, sizeof(line), "    %-22s %15s  %s\n", m->id, value, m->meaning);
	expect_within(TS_REPORT_VERBOSE, parts[m->of].people, parts[m->of].people_end, line);
	snprintf(value, sizeof(value), is_time ? "%u.%d00000000" : "%u", number, half);
	snprintf(line, sizeof(line), "\"%s\": %s", m->id, value);
	expect_within(TS_REPORT_JSON, parts[m->of].json, parts[m->of].json_end, line);
	if (!m->metric)
		return;
	const char *label = m->of == TS_OF_TALLY  ? ",dataset=\"photos\",kind=\"sample\""
			    : m->of == TS_OF_NODE ? ",node=\"one:1\""
						  : "";
	snprintf(
		line, sizeof(line), "\ntsshim_%s{group=\"g\"%s} %s\n", m->metric, label, value);
	print(TS_REPORT_PROMETHEUS);
	cr_expect_not_null(strstr(text, line), "no '%s' in\n%s", line, text);
	snprintf(line, sizeof(line), "# HELP tsshim_%s %s\n# TYPE tsshim_%s %s\n", m->metric,
		m->meaning, m->metric, strstr(m->metric, "_total") ? "counter" : "gauge");
	cr_expect_not_null(strstr(text, line), "no '%s' in\n%s", line, text);
}

/* The same name, unit and number, and the same meaning. */
Test(report, each_figure_is_in_each_form)
{
	unsigned count = 0;

	fill_all();
	for (const struct ts_metric *m = ts_metrics; m->meaning; m++)
		if (parts[m->of].json) {
			expect_row(m);
			count++;
		}
	cr_expect_geq(count, 8 + TS_MAIL_COUNTER_COUNT);
}

Test(report, names_say_the_unit)
{
	for (const struct ts_metric *m = ts_metrics; m->meaning; m++) {
		const char *const names[] = {m->id, m->metric};
		for (size_t i = 0; i < TS_ARRAY_SIZE(names); i++) {
			const char *name = names[i];
			/* Room and use of the ring, whose keys in JSON say no unit. */
			if (!name || (i == 0 && m->of == TS_OF_RING))
				continue;
			cr_expect_eq(strstr(name, "seconds") != NULL, ts_metric_is_time(m),
				"%s", name);
			cr_expect_eq(strstr(name, "bytes") != NULL, m->unit == TS_UNIT_BYTES,
				"%s", name);
			for (const struct ts_metric *n = m + 1; n->meaning; n++)
				cr_expect(i == 0 || !n->metric || strcmp(name, n->metric) != 0,
					"%s is there twice", name);
		}
	}
}

/* A time to come; without a ring or a ledger nothing is known. */
Test(report, what_is_ahead_and_what_is_not_known)
{
	fill_all();
	ts_write_relaxed(&nodes->use.unused_until, UINT64_MAX);
	expect_within(TS_REPORT_JSON, "\"unused_seconds\": 1", "}", "\"unused_seconds\": 1");
	expect_within(TS_REPORT_TEXT, "\n    unused_seconds ", "\n", "unused_seconds ");
	report.ring.capacity = 0;
	expect_within(TS_REPORT_VERBOSE, "\n    capacity ", "\n", "  -  ");
	expect_within(TS_REPORT_JSON, "\"ring\": {", "}", "\"capacity\": 0,");
	expect_within(TS_REPORT_VERBOSE, "\n  bytes: ", "\n  device: ",
		"    saved_seconds                        -  CPU time");
	report.ledger = NULL;
	expect_within(TS_REPORT_VERBOSE, "\n    verified ", "\n", "  -  ");
	expect_within(TS_REPORT_VERBOSE, "\n    samples ", "\n", "  -  ");
	expect_within(TS_REPORT_JSON, "\"made_apart\": {", "}", "\"samples\": 0,");
	report.nodes = NULL;
	cr_expect_null(strstr(print(TS_REPORT_PROMETHEUS), "node"), "%s", text);
}

/* ---- other nodes ------------------------------------------------------------------------- */

/* Counter i of the row is @first + i. */
static void fill_node(uint32_t row, const char *name, uint64_t first)
{
	struct ts_mail_peer *peer = &nodes->peers[row];

	memset(peer, 0, sizeof(*peer));
	memcpy(peer->name, name, strnlen(name, sizeof(peer->name)));
	ts_write_relaxed(&peer->state, TS_MAIL_PEER_OPEN);
	for (uint32_t i = 0; i < TS_MAIL_COUNTER_COUNT; i++)
		ts_write_relaxed(&peer->counters[i], first + i);
	if (ts_load_relaxed(&nodes->peer_count) <= row)
		ts_write_relaxed(&nodes->peer_count, row + 1);
}

static void begin_nodes(void)
{
	begin();
	make_nodes();
	ts_write_relaxed(&nodes->helper, ts_process_id(getpid(), false));
}

TestSuite(nodes, .init = begin_nodes, .fini = end);

static void expect(const char *part)
{
	cr_expect_not_null(strstr(text, part), "no '%s' in\n%s", part, text);
}

Test(nodes, people_see_what_came_and_why_not)
{
	fill_node(0, "10.1.0.11:11300", 0);
	struct ts_mail_peer *peer = &nodes->peers[0];
	ts_write_relaxed(&peer->counters[TS_MAIL_COUNT_ASKED], 4000);
	ts_write_relaxed(&peer->counters[TS_MAIL_COUNT_GOT], 3000);
	ts_write_relaxed(&peer->counters[TS_MAIL_COUNT_GOT_BYTES], 3 << 20);
	ts_write_relaxed(&peer->error, ECONNREFUSED);
	print(TS_REPORT_TEXT);
	expect("\nOther nodes: asked by process ");
	expect("\nNode 10.1.0.11:11300  (connected)\n");
	expect("    asked                            4 000  values asked for\n"
	       "    got                              3 000  values that came whole\n"
	       "    got_bytes                      3.0 MiB  their bytes\n");
	expect("\n    late                                 7  values not waited for any "
	       "longer\n");
	expect("\n    last failure: no server there\n");
}

Test(nodes, nothing_of_nothing_is_no_number)
{
	fill_node(0, "one:1", 0);
	memset(nodes->peers[0].counters, 0, sizeof(nodes->peers[0].counters));
	ts_write_relaxed(&nodes->helper, 0);
	ts_write_relaxed(&nodes->error, ESTALE);
	print(TS_REPORT_TEXT);
	cr_expect_null(strstr(text, "values asked for"), "%s", text);
	expect("nobody asks them now: the list of nodes, the settings or a certificate "
	       "changed\n");
	cr_expect_null(strstr(text, "last failure"), "%s", text);
	print(TS_REPORT_JSON);
	expect("\"helper\": null,");
	expect("\"error\": null,");
	report.nodes = NULL;
	print(TS_REPORT_JSON);
	expect("\"nodes\": null,");
	cr_expect_null(strstr(print(TS_REPORT_TEXT), "Other nodes"), "%s", text);
	cr_expect_null(strstr(print(TS_REPORT_VERBOSE), "Other nodes"), "%s", text);
	cr_expect_null(strstr(print(TS_REPORT_PROMETHEUS), "node="), "%s", text);
}

/* Who writes there may write anything. */
Test(nodes, names_are_cut_and_escaped)
{
	char name[TS_MAIL_PEER_NAME + 1];

	memset(name, 'n', TS_MAIL_PEER_NAME);
	name[TS_MAIL_PEER_NAME] = '\0';
	fill_node(0, name, 0);
	fill_node(1, "\033[2J\"\\\n", 0);
	print(TS_REPORT_TEXT);
	snprintf(name, sizeof(name), "\nNode %.50s",
		"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn");
	expect(name);
	expect("\nNode \\x1b[2J\"\\\\x0a  (");
	print(TS_REPORT_VERBOSE);
	expect("\nNode \\x1b[2J\"\\\\x0a  (");
	print(TS_REPORT_JSON);
	expect("\"name\": \"\\u001b[2J\\\"\\\\\\u000a\",");
	print(TS_REPORT_PROMETHEUS);
	expect("node=\"\033[2J\\\"\\\\\\n\"}");
}

Test(nodes, damaged_tables_are_bounded)
{
	memset(nodes, 0xff, sizeof(*nodes));
	print(TS_REPORT_TEXT);
	expect("nobody asks them now: an unknown error\n");
	expect("  (unknown)\n");
	expect("    last failure: an unknown error\n");
	cr_expect_eq(ts_nodes_count(nodes), TS_MAIL_PEERS);
	print(TS_REPORT_VERBOSE);
	print(TS_REPORT_JSON);
	print(TS_REPORT_PROMETHEUS);
	/* A row without a name is none. */
	memset(nodes->peers, 0, sizeof(nodes->peers));
	cr_expect_null(strstr(print(TS_REPORT_TEXT), "\nNode "));
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
