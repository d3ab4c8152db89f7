/* SPDX-License-Identifier: MIT */
/* What somebody who mistyped a name probably meant. */
#include "shim/config.h"

#include <string.h>

/* Edit distance with transpositions (optimal string alignment), three rows. */
static unsigned distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
	unsigned char rows[3][TS_NAME_MAX + 1];
	for (size_t j = 0; j <= b_length; j++)
		rows[0][j] = (unsigned char)j;
	for (size_t i = 1; i <= a_length; i++) {
		unsigned char *row = rows[i % 3];
		const unsigned char *last = rows[(i + 2) % 3], *older = rows[(i + 1) % 3];
		row[0] = (unsigned char)i;
		for (size_t j = 1; j <= b_length; j++) {
			int best = last[j - 1] + (a[i - 1] != b[j - 1]);
			best = last[j] + 1 < best ? last[j] + 1 : best;
			best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				best = older[j - 2] + 1 < best ? older[j - 2] + 1 : best;
			row[j] = (unsigned char)best;
		}
	}
	return rows[a_length % 3][b_length];
}

/*
 * Length of what @word and all @candidates begin with, up to a '_' or '-': letters that nobody
 * typed wrong say nothing about the others.
 */
static size_t common_prefix(const char *word, const char *const *candidates)
{
	size_t length = strlen(word);
	for (; *candidates; candidates++) {
		size_t same = 0;
		while (same < length && (*candidates)[same] == word[same])
			same++;
		length = same;
	}
	while (length > 0 && word[length - 1] != '_' && word[length - 1] != '-')
		length--;
	return length;
}

const char *ts_config_nearest(const char *word, const char *const *candidates)
{
	const char *nearest = NULL;
	size_t prefix = common_prefix(word, candidates), length = strlen(word) - prefix;
	if (length > TS_NAME_MAX)
		return NULL;
	/* A third of the letters wrong is another word, not a typing mistake; but one may be.
	 */
	unsigned best = (unsigned)ts_max_u64(length / 3, 1) + 1;
	for (; *candidates; candidates++) {
		const char *candidate = *candidates + prefix;
		size_t candidate_length = strlen(candidate);
		if (candidate_length == 0 || candidate_length > TS_NAME_MAX)
			continue;
		unsigned d = distance(word + prefix, length, candidate, candidate_length);
		/* Something of the word must be left. */
		if (d < best && d < length) {
			best = d;
			nearest = *candidates;
		}
	}
	return nearest;
}
