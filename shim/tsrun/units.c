/* SPDX-License-Identifier: MIT */
/* How tsrun writes numbers and foreign texts for people. */
#include "shim/tsrun/units.h"
#include "leader/group/ledger.h"
#include "leader/object/limits.h"
#include "shim/utf8.h"

#include <inttypes.h>
#include <math.h>

#define NS_PER_SECOND UINT64_C(1000000000)

const char *ts_units_size(uint64_t bytes, char buffer[TS_UNITS_BYTES])
{
	static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
	uint64_t scale = 1;
	unsigned unit = 0;

	while (unit + 1 < TS_ARRAY_SIZE(units) && bytes / scale >= 1024) {
		scale *= 1024;
		unit++;
	}
	if (unit == 0)
		(void)snprintf(buffer, TS_UNITS_BYTES, "%llu bytes", (unsigned long long)bytes);
	else
		(void)snprintf(buffer, TS_UNITS_BYTES, "%llu.%llu %s",
			(unsigned long long)(bytes / scale),
			(unsigned long long)(bytes % scale * 10 / scale), units[unit]);
	return buffer;
}

const char *ts_units_ring(uint32_t why, char buffer[TS_UNITS_RING])
{
	static const char cut[] = "limits allow no more";
	char size[TS_UNITS_BYTES];
	uint64_t memory = (uint64_t)(why & ~TS_RING_CUT) << 20;
	bool is_cut = why & TS_RING_CUT;

	if (memory)
		(void)snprintf(buffer, TS_UNITS_RING, " (auto, for %s of memory%s%s)",
			ts_units_size(memory, size), is_cut ? "; " : "", is_cut ? cut : "");
	else
		(void)snprintf(buffer, TS_UNITS_RING, "%s%s%s", is_cut ? " (" : "",
			is_cut ? cut : "", is_cut ? ")" : "");
	return buffer;
}

const char *ts_units_grouped(uint64_t value, char buffer[TS_UNITS_BYTES])
{
	char digits[24];
	int length = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value);
	char *to = buffer;

	for (int i = 0; i < length; i++) {
		if (i > 0 && (length - i) % 3 == 0)
			*to++ = ' ';
		*to++ = digits[i];
	}
	*to = '\0';
	return buffer;
}

const char *ts_units_seconds(uint64_t ns, char buffer[TS_UNITS_BYTES])
{
	char whole[TS_UNITS_BYTES];

	(void)snprintf(buffer, TS_UNITS_BYTES, "%.28s.%02" PRIu64,
		ts_units_grouped(ns / NS_PER_SECOND, whole),
		ns % NS_PER_SECOND / (NS_PER_SECOND / 100));
	return buffer;
}

const char *ts_units_duration(uint64_t ns, char buffer[TS_UNITS_BYTES])
{
	uint64_t seconds = ns / NS_PER_SECOND;

	if (seconds >= 3600)
		(void)snprintf(buffer, TS_UNITS_BYTES, "%" PRIu64 " h %" PRIu64 " min",
			seconds / 3600, seconds % 3600 / 60);
	else if (seconds >= 60)
		(void)snprintf(buffer, TS_UNITS_BYTES, "%" PRIu64 " min %" PRIu64 " s",
			seconds / 60, seconds % 60);
	else
		(void)snprintf(buffer, TS_UNITS_BYTES, "%" PRIu64 ".%02" PRIu64 " s", seconds,
			ns % NS_PER_SECOND / (NS_PER_SECOND / 100));
	return buffer;
}

const char *ts_units_epochs(uint64_t position, char buffer[TS_UNITS_RATE])
{
	uint64_t whole = position / TS_EPOCH;

	if (whole < 1000)
		(void)snprintf(buffer, TS_UNITS_RATE, "%" PRIu64 ".%02" PRIu64, whole,
			position % TS_EPOCH * 100 / TS_EPOCH);
	else
		(void)snprintf(
			buffer, TS_UNITS_RATE, whole < 1000000 ? "%" PRIu64 : "many", whole);
	return buffer;
}

const char *ts_units_rate(double rate, char buffer[TS_UNITS_RATE])
{
	/* Each bound is what the format before it would round up to one digit more. */
	if (isnan(rate))
		(void)snprintf(buffer, TS_UNITS_RATE, "-");
	else if (rate < 9999.95)
		(void)snprintf(buffer, TS_UNITS_RATE, "%.1f", rate);
	else if (rate < 999999.5)
		(void)snprintf(buffer, TS_UNITS_RATE, "%.0f", rate);
	else if (rate < 999.95e6)
		(void)snprintf(buffer, TS_UNITS_RATE, "%.1fM", rate / 1e6);
	else
		(void)snprintf(
			buffer, TS_UNITS_RATE, rate < 99999e9 ? "%.0fG" : "many", rate / 1e9);
	return buffer;
}

void ts_units_make_printable(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

/* Whether the character of @length bytes at @s is one that is seen, and changes no other. */
static bool is_visible(const unsigned char *s, unsigned length)
{
	if (length == 1)
		return s[0] >= ' ' && s[0] <= '~';
	if (length == 2)
		return s[0] != 0xc2 || s[1] >= 0xa0; /* U+0080 to U+009F command, too */
	/* Marks that turn the direction of the text, or join: U+200B to U+200F, U+2028 to
	 * U+202E, U+2060 to U+206F, U+FEFF. */
	if (length == 3 && s[0] == 0xe2 && s[1] == 0x80)
		return s[2] < 0x8b || (s[2] > 0x8f && s[2] < 0xa8) || s[2] > 0xae;
	if (length == 3 && s[0] == 0xe2 && s[1] == 0x81)
		return s[2] < 0xa0 || s[2] > 0xaf;
	return length != 3 || s[0] != 0xef || s[1] != 0xbb || s[2] != 0xbf;
}

void ts_units_print_safely(FILE *out, const char *text)
{
	for (const unsigned char *s = (const unsigned char *)text; *s;) {
		unsigned length = ts_utf8_length(s);
		bool is_seen = length > 0 && is_visible(s, length);
		for (unsigned i = 0; i < (length > 0 ? length : 1); i++, s++)
			if (is_seen)
				(void)putc(*s, out);
			else
				(void)fprintf(out, "\\x%02x", *s);
	}
}
