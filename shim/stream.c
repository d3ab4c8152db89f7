/* SPDX-License-Identifier: MIT */
/* Copying past the caches. */
#include "shim/stream.h"

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__ /* every x86-64 */

#include <emmintrin.h>

/* What is written past the caches goes out line by line. */
#define LINE ((size_t)64)

/*
 * What is read is asked for so early, and as what will not be read again, so that it takes less
 * room in the caches.  Between two samples that it makes a job copies many more: with 56 copies
 * in between in one process the next one costs 1.5 % less, and a copy 5 % (Zen 3).  Two pages
 * ahead is more than the processor looks by itself, which stops at the end of a page: 16 lines
 * cost eight jobs 1 to 2 % of their CPU time more (Zen 5).
 */
#define AHEAD (128 * LINE)

static void copy_line(unsigned char *to, const unsigned char *from)
{
	__m128i part[4];

	for (int i = 0; i < 4; i++)
		part[i] = _mm_loadu_si128((const __m128i *)(const void *)from + i);
	for (int i = 0; i < 4; i++)
		_mm_stream_si128((__m128i *)(void *)to + i, part[i]);
}

void ts_stream_copy(void *to, const void *from, size_t bytes)
{
	unsigned char *target = to;
	const unsigned char *source = from;
	size_t head = (size_t)(-(uintptr_t)target & (LINE - 1)), done = head;

	if (bytes < 2 * LINE) {
		memcpy(to, from, bytes);
		return;
	}
	memcpy(target, source, head);
	for (; bytes - done >= AHEAD + LINE; done += LINE) {
		_mm_prefetch((const char *)(source + done + AHEAD), _MM_HINT_NTA);
		copy_line(target + done, source + done);
	}
	for (; bytes - done >= LINE; done += LINE)
		copy_line(target + done, source + done);
	memcpy(target + done, source + done, bytes - done);
	_mm_sfence(); /* stores past the caches are not ordered with others */
}

#else

void ts_stream_copy(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
}

#endif
