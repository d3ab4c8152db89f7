/* SPDX-License-Identifier: MIT */
/* The table of RFC 3629, section 4. */
#include "shim/utf8.h"

unsigned ts_utf8_length(const unsigned char *s)
{
	unsigned char low = 0x80, high = 0xbf;
	unsigned more;

	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		more = 1;
	else if (s[0] >= 0xe0 && s[0] <= 0xef)
		more = 2;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		more = 3;
	else
		return 0;
	/* No overlong forms, no surrogates, nothing above U+10FFFF. */
	if (s[0] == 0xe0)
		low = 0xa0;
	else if (s[0] == 0xed)
		high = 0x9f;
	else if (s[0] == 0xf0)
		low = 0x90;
	else if (s[0] == 0xf4)
		high = 0x8f;
	for (unsigned i = 1; i <= more; i++) {
		if (s[i] < low || s[i] > high)
			return 0;
		low = 0x80;
		high = 0xbf;
	}
	return more + 1;
}
