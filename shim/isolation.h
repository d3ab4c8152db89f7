/* SPDX-License-Identifier: MIT */
/* Whether an interpreter of Python is told not to look for our start-up file. */
#ifndef TS_ISOLATION_H
#define TS_ISOLATION_H

#include "shim/base.h"

#include <string.h>

/**
 * The option of Python, 'I', 'E' or 'S', in @words (ending with NULL; the first is the program)
 * that makes an interpreter ignore PYTHONPATH or import no `site`; 0: none.  Read as CPython's
 * Python/getopt.c does: letters may be joined, -W and -X take a value, -c and -m end the list.
 * Threads and signals: any.
 */
static inline char ts_isolation(char *const *words)
{
	for (size_t i = 1; words[0] && words[i]; i++) {
		const char *word = words[i];
		if (word[0] != '-' || word[1] == '\0' || strcmp(word, "--") == 0)
			return 0;
		if (word[1] == '-') {
			if (strcmp(word, "--check-hash-based-pycs") == 0 && words[i + 1])
				i++;
			continue;
		}
		const char *letter = word + 1 + strcspn(word + 1, "IEScmWX");
		if (*letter == 'I' || *letter == 'E' || *letter == 'S')
			return *letter;
		if (*letter == 'c' || *letter == 'm')
			return 0;
		/* The value of -W and -X is the rest, or the next word. */
		if (*letter != '\0' && letter[1] == '\0' && words[i + 1])
			i++;
	}
	return 0;
}

#endif
