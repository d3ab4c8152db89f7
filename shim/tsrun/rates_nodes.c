/* SPDX-License-Identifier: MIT */
/* The line of `tsrun top` about other nodes. */
#include "shim/tsrun/nodes.h"
#include "shim/tsrun/rates.h"
#include "shim/tsrun/units.h"

#include <inttypes.h>

#define UNKNOWN       "-"
#define NS_PER_SECOND 1e9

/* Two looks at the tables; .ns is 0 where they cannot be compared. */
struct looks {
	struct ts_mail_table *before, *now;
	uint64_t ns;
};

/* By how much the sum of a counter grew; false: it is not known. */
static bool grew(const struct looks *looks, enum ts_mail_counter counter, uint64_t *ret_count)
{
	if (!looks->before || looks->ns == 0)
		return false;
	uint64_t before = ts_nodes_sum(looks->before, counter);
	uint64_t now = ts_nodes_sum(looks->now, counter);
	*ret_count = now - before;
	/* One that shrank is of another table. */
	return now >= before;
}

static const char *rate(
	const struct looks *looks, enum ts_mail_counter counter, char buffer[TS_UNITS_RATE])
{
	uint64_t count;
	bool is_known = grew(looks, counter, &count);

	return ts_units_rate(is_known ? count : 0, is_known ? looks->ns : 0, buffer);
}

/* At most ten characters. */
static const char *size_rate(const struct looks *looks, char buffer[TS_UNITS_BYTES])
{
	uint64_t count;

	(void)snprintf(buffer, TS_UNITS_BYTES, UNKNOWN);
	if (!grew(looks, TS_MAIL_COUNT_GOT_BYTES, &count))
		return buffer;
	double bytes = (double)count * NS_PER_SECOND / (double)looks->ns;
	if (bytes >= 1e16)
		(void)snprintf(buffer, TS_UNITS_BYTES, "many");
	else
		ts_units_size((uint64_t)bytes, buffer);
	return buffer;
}

static uint32_t count_open(struct ts_mail_table *table)
{
	struct ts_node node;
	uint32_t count = 0;

	for (uint32_t i = 0; i < ts_nodes_count(table); i++)
		count += ts_nodes_read(table, i, &node) && node.state == TS_MAIL_PEER_OPEN;
	return count;
}

void ts_rates_write_nodes(
	FILE *out, struct ts_mail_table *before, struct ts_mail_table *now, uint64_t ns)
{
	const struct looks looks = {.before = before, .now = now, .ns = ns};
	char asked[TS_UNITS_RATE], got[TS_UNITS_RATE], stored[TS_UNITS_RATE];
	char size[TS_UNITS_BYTES];

	if (!now)
		return;
	fprintf(out, "  nodes: came %s of %s/s, %s/s; stored %s/s; ",
		rate(&looks, TS_MAIL_COUNT_GOT, got), rate(&looks, TS_MAIL_COUNT_ASKED, asked),
		size_rate(&looks, size), rate(&looks, TS_MAIL_COUNT_STORED, stored));
	if (ts_nodes_helper(now) > 0)
		fprintf(out, "%" PRIu32 "/%" PRIu32 " open\n", count_open(now),
			ts_nodes_count(now));
	else
		fputs("no helper\n", out);
}
