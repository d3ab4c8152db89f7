/* SPDX-License-Identifier: MIT */
/* Characters of UTF-8: each one of them, and what is none. */
#include "fixture.h"

#include "shim/utf8.h"

#include <string.h>

TestSuite(utf8);

/* The sequence of @code, whether it may have one or not: the shortest form, with NUL. */
static unsigned encode(uint32_t code, unsigned char text[5])
{
	unsigned length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
	static const uint8_t marks[] = {0, 0, 0xc0, 0xe0, 0xf0};

	memset(text, 0, 5);
	for (unsigned i = length; i-- > 1; code >>= 6)
		text[i] = (unsigned char)(0x80 | (code & 0x3f));
	text[0] = (unsigned char)(marks[length] | code);
	return length;
}

Test(utf8, every_character_has_its_length)
{
	unsigned char text[5];

	for (uint32_t code = 0; code < 0x110000; code++) {
		unsigned length = encode(code, text);
		bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
		cr_assert(eq(u32, ts_utf8_length(text), is_surrogate ? 0 : length), "U+%04X",
			code);
	}
	for (uint32_t code = 0x110000; code < 0x140000; code++) {
		encode(code, text);
		cr_assert(eq(u32, ts_utf8_length(text), 0), "U+%04X", code);
	}
}

Test(utf8, a_sequence_that_is_cut_is_none)
{
	static const uint32_t codes[] = {0x80, 0x7ff, 0x800, 0x20ac, 0xffff, 0x10000, 0x10ffff};
	unsigned char text[5];

	for (size_t i = 0; i < TS_ARRAY_SIZE(codes); i++)
		for (unsigned at = 1, length = encode(codes[i], text); at < length; at++) {
			(void)encode(codes[i], text);
			text[at] = '\0';
			cr_expect(eq(u32, ts_utf8_length(text), 0), "U+%04X", codes[i]);
			text[at] = 'z';
			cr_expect(eq(u32, ts_utf8_length(text), 0), "U+%04X", codes[i]);
			text[at] = 0xc3;
			cr_expect(eq(u32, ts_utf8_length(text), 0), "U+%04X", codes[i]);
		}
}

Test(utf8, longer_forms_and_other_bytes_begin_nothing)
{
	static const char *const none[] = {"\x80", "\xbf\xbf", "\xc0\xaf", "\xc1\xbf",
		"\xe0\x80\xaf", "\xe0\x9f\xbf", "\xf0\x80\x80\xaf", "\xf0\x8f\xbf\xbf",
		"\xf5\x80\x80\x80", "\xf8\x88\x80\x80\x80", "\xfe", "\xff"};

	for (size_t i = 0; i < TS_ARRAY_SIZE(none); i++)
		cr_expect(eq(u32, ts_utf8_length((const unsigned char *)none[i]), 0), "row %zu",
			i);
}
