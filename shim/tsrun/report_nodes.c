/* SPDX-License-Identifier: MIT */
/* What `tsrun stats` says of other nodes, for people. */
#include "leader/mail/samples.h"
#include "shim/atomic.h"
#include "shim/tsrun/nodes.h"
#include "shim/tsrun/report.h"
#include "shim/tsrun/units.h"

#include <inttypes.h>

/* Texts and numbers stand below each other, as in shim/tsrun/report.c. */
static void print_count(FILE *out, const char *what, uint64_t count)
{
	char number[TS_UNITS_BYTES];

	fprintf(out, "    %-22s %15s", what, ts_units_grouped(count, number));
}

static void print_size(FILE *out, uint64_t bytes)
{
	char size[TS_UNITS_BYTES];

	if (bytes > 0)
		fprintf(out, "  %s", ts_units_size(bytes, size));
	fputs("\n", out);
}

/* What came of what was asked for; of nothing there is no share. */
static void print_came(FILE *out, const struct ts_node *node)
{
	uint64_t asked = node->counters[TS_MAIL_COUNT_ASKED];
	uint64_t got = node->counters[TS_MAIL_COUNT_GOT];
	char number[TS_UNITS_BYTES], size[TS_UNITS_BYTES];

	fprintf(out, "  %-24s %15s\n", "values asked for", ts_units_grouped(asked, number));
	print_count(out, "came", got);
	/* Damaged counters may say anything. */
	if (asked == 0 || got > asked)
		fputs("  (n/a)", out);
	else
		fprintf(out, "  (%.1f %%)", 100.0 * (double)got / (double)asked);
	if (got > 0)
		fprintf(out, ", %s",
			ts_units_size(node->counters[TS_MAIL_COUNT_GOT_BYTES], size));
	fputs("\n", out);
}

static void print_failures(FILE *out, const struct ts_node *node)
{
	const char *error = ts_nodes_explain(node->error);

	for (int i = 0; i < TS_MAIL_COUNTER_COUNT; i++) {
		if (!ts_nodes_is_failure((enum ts_mail_counter)i) || node->counters[i] == 0)
			continue;
		print_count(out, ts_node_counters[i].id, node->counters[i]);
		fprintf(out, "  %s\n", ts_node_counters[i].text);
	}
	if (error)
		fprintf(out, "    last failure: %s\n", error);
}

static void print_node(FILE *out, const struct ts_node *node)
{
	fputs("\nNode ", out);
	ts_units_print_safely(out, node->name);
	fprintf(out, "  (%s)\n", ts_nodes_state_text(node->state));
	print_came(out, node);
	print_count(out, "ours to make", node->counters[TS_MAIL_COUNT_WON]);
	fputs("\n", out);
	print_count(out, "handed over", node->counters[TS_MAIL_COUNT_STORED]);
	print_size(out, node->counters[TS_MAIL_COUNT_STORED_BYTES]);
	print_count(out, "paths told of", node->counters[TS_MAIL_COUNT_TOLD]);
	fputs("\n", out);
	print_count(out, "copies, paths brought", node->counters[TS_MAIL_COUNT_BROUGHT]);
	fputs("\n", out);
	print_failures(out, node);
}

static void print_helper(FILE *out, struct ts_mail_table *table)
{
	const char *error = ts_nodes_explain_helper(ts_load_relaxed(&table->error));
	char posted[TS_UNITS_BYTES], left[TS_UNITS_BYTES], unposted[TS_UNITS_BYTES];
	int helper = ts_nodes_helper(table);

	fputs("\nOther nodes: ", out);
	if (helper > 0)
		fprintf(out, "asked by process %d", helper);
	else
		fprintf(out, "nobody asks them now%s%s", error ? ": " : "", error ? error : "");
	fprintf(out, "\n  %s requests, %s not waited for, %s without a slot\n",
		ts_units_grouped(ts_load_relaxed(&table->posted), posted),
		ts_units_grouped(ts_load_relaxed(&table->left), left),
		ts_units_grouped(ts_load_relaxed(&table->unposted), unposted));
}

static void print_notes(FILE *out, struct ts_mail_use *use)
{
	uint64_t told = ts_load_relaxed(&use->notes_told);
	uint64_t heard = ts_load_relaxed(&use->notes_heard);
	char number[2][TS_UNITS_BYTES];

	if (told + heard > 0)
		fprintf(out, "    other nodes were told of %s, and told of %s\n",
			ts_units_grouped(told, number[0]), ts_units_grouped(heard, number[1]));
}

static void print_times_off(FILE *out, uint64_t times, bool is_now, const char *why)
{
	char number[TS_UNITS_BYTES];

	if (times > 0)
		fprintf(out, "    left alone %s times: %s%s\n", ts_units_grouped(times, number),
			why, is_now ? "; now as well" : "");
}

/* What asking for these costs, on the average of those that came. */
static void print_flow(FILE *out, const char *what, struct ts_mail_flow *flow)
{
	uint64_t asked = ts_load_relaxed(&flow->asked), got = ts_load_relaxed(&flow->got);
	char number[3][TS_UNITS_BYTES];

	if (asked == 0)
		return;
	fprintf(out, "  %s: %s asked for, %s came, %s were ours to make\n", what,
		ts_units_grouped(asked, number[0]), ts_units_grouped(got, number[1]),
		ts_units_grouped(ts_load_relaxed(&flow->won), number[2]));
	if (got > 0)
		fprintf(out, "    getting one took %.1f ms, making it %.1f ms\n",
			(double)ts_load_relaxed(&flow->took_ns) / (double)got / 1e6,
			(double)ts_load_relaxed(&flow->made_ns) / (double)got / 1e6);
	print_times_off(out, ts_load_relaxed(&flow->times_off), ts_nodes_flow_off(flow) > 0,
		"getting them took longer");
}

static void print_use(FILE *out, struct ts_mail_table *table)
{
	uint64_t tried = ts_load_relaxed(&table->samples.tried) +
			 ts_load_relaxed(&table->pictures.tried);
	char number[TS_UNITS_BYTES];

	print_notes(out, &table->use);
	print_times_off(out, ts_load_relaxed(&table->use.times_unused),
		ts_nodes_unused(table) > 0, "no node fetched them");
	if (tried > 0)
		fprintf(out,
			"    meanwhile %s were asked for all the same, at most one in %u\n",
			ts_units_grouped(tried, number), (unsigned)TS_MAIL_TRY_ONE_IN);
}

void ts_report_nodes(const struct ts_report *report, FILE *out)
{
	struct ts_node node;

	if (!report->nodes)
		return;
	print_helper(out, report->nodes);
	print_flow(out, "samples", &report->nodes->samples);
	print_flow(out, "pictures", &report->nodes->pictures);
	print_use(out, report->nodes);
	for (uint32_t i = 0; i < ts_nodes_count(report->nodes); i++)
		if (ts_nodes_read(report->nodes, i, &node))
			print_node(out, &node);
}
