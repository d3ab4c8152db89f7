/* SPDX-License-Identifier: MIT */
/* What `tsrun stats` prints of counters that were filled by hand. */
#include "printed.h"

#include "shim/tsrun/report.h"
#include "shim/atomic.h"
#include "shim/identity.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Columns of the text: a name, and a number that ends here. */
#define NUMBER_END 42

static struct ts_ledger *ledger;
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

static const char *print(void (*how)(const struct ts_report *, FILE *))
{
	return printed(&text, &report, how);
}

/* As ts_report_json() prints it, without blanks and line ends: none of its strings has any. */
static const char *print_json(void)
{
	(void)print(ts_report_json);
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
	print(ts_report_text);
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
	print(ts_report_text);
	snprintf(line, sizeof(line),
		"\nJobs\n    pid %d; finished samples: 250 made, 750 taken\n\n", getpid());
	cr_expect_not_null(strstr(text, line), "%s", text);
	add_jobs();
	print(ts_report_text);
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
	print(ts_report_text);
	cr_expect_not_null(
		strstr(text, "; samples not shared: dataset.table: a?table\n"), "%s", text);
	cr_expect_not_null(
		strstr(print_json(), "\"refused\":\"dataset.table:a?table\""), "%s", text);

	/* Rows are used again, and long texts cut. */
	ts_refusal_clear(ts_ledger_refusal_row(ledger, job));
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
	print(ts_report_text);
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
	print(ts_report_text);
	for (int i = 0; i < TS_REASON_COUNT; i++)
		cr_expect(is_aligned_row("    ", ts_reasons[i].id), "'%s' in %s",
			ts_reasons[i].id, text);
	cr_expect_not_null(strstr(text, "  an input file of a shared sample is not the same"));
}
