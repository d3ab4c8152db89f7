/* SPDX-License-Identifier: MIT */
/* Copies past the caches, of all alignments and lengths around a line. */
#include "fixture.h"

#include "shim/stream.h"

#include <string.h>

#define ROOM  10240u
#define GUARD 0xa5

static unsigned char source[ROOM], target[ROOM];

TestSuite(stream);

static void expect_copied(size_t to, size_t from, size_t bytes)
{
	bool right = true;

	memset(target, GUARD, sizeof(target));
	ts_stream_copy(target + to, source + from, bytes);
	for (size_t i = 0; i < ROOM; i++) {
		bool inside = i >= to && i < to + bytes;
		right &= target[i] == (inside ? source[i - to + from] : GUARD);
	}
	cr_expect(right, "%zu bytes from %zu to %zu", bytes, from, to);
}

/* No byte of the source is like the guard, nor like the one a line away. */
static void fill_source(void)
{
	for (size_t i = 0; i < ROOM; i++)
		source[i] = (unsigned char)(i % 163);
}

Test(stream, what_is_asked_for_far_ahead_is_copied_as_well)
{
	fill_source();
	for (size_t bytes = 8100; bytes < 8500; bytes += 7)
		expect_copied(bytes % 64, bytes % 61, bytes);
}

Test(stream, all_bytes_are_copied_and_no_others)
{
	static const size_t lengths[] = {
		0, 1, 2, 63, 64, 65, 127, 128, 129, 191, 192, 193, 255, 256, 300, 511, 640};

	fill_source();
	for (size_t to = 0; to < 66; to++)
		for (size_t from = 0; from < 66; from += 5)
			for (size_t i = 0; i < TS_ARRAY_SIZE(lengths); i++)
				expect_copied(to, from, lengths[i]);
}
