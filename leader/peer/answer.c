/* SPDX-License-Identifier: MIT */
/* Lines of a server: leader/peer/answer.h explains them. */
#include "leader/peer/answer.h"

#include <string.h>

struct rest {
	const char *at, *end;
};

/* The next word up to a blank, of which there is one between two words and none at the end. */
static bool next_word(struct rest *rest, const char **ret_word, size_t *ret_bytes)
{
	if (rest->at == rest->end)
		return false;
	const char *blank = memchr(rest->at, ' ', (size_t)(rest->end - rest->at));
	*ret_word = rest->at;
	*ret_bytes = (size_t)((blank ? blank : rest->end) - rest->at);
	rest->at = blank ? blank + 1 : rest->end;
	return true;
}

/* Digits, and nothing else.  No sign, no hexadecimal, no room for doubt. */
static int read_long(const char *text, size_t bytes, uint64_t *ret_number)
{
	uint64_t number = 0;

	if (bytes == 0)
		return -EPROTO;
	for (size_t i = 0; i < bytes; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -EPROTO;
		uint64_t digit = (uint64_t)(text[i] - '0');
		if (number > (UINT64_MAX - digit) / 10)
			return -EMSGSIZE;
		number = number * 10 + digit;
	}
	*ret_number = number;
	return 0;
}

static int read_number(const char *text, size_t bytes, uint32_t *ret_number)
{
	uint64_t number;
	int r = read_long(text, bytes, &number);

	if (r < 0 || number > UINT32_MAX)
		return r < 0 ? r : -EMSGSIZE;
	*ret_number = (uint32_t)number;
	return 0;
}

static int read_mark(struct ts_answer *answer, uint32_t flag, size_t bytes)
{
	if (bytes != 1 || (answer->flags & flag) != 0)
		return -EPROTO;
	answer->flags |= flag;
	return 0;
}

static int read_fetched(struct ts_answer *answer, const char *digit, size_t bytes)
{
	if (answer->has_fetched || bytes != 1 || (digit[0] != '0' && digit[0] != '1'))
		return -EPROTO;
	answer->has_fetched = true;
	answer->flags |= digit[0] == '1' ? TS_ANSWER_FETCHED : 0;
	return 0;
}

static int read_flag(struct ts_answer *answer, const char *word, size_t bytes)
{
	if (bytes == 0)
		return -EPROTO;
	switch (word[0]) {
	case 'W':
		return read_mark(answer, TS_ANSWER_WON, bytes);
	case 'Z':
		return read_mark(answer, TS_ANSWER_MADE, bytes);
	case 'X':
		return read_mark(answer, TS_ANSWER_STALE, bytes);
	case 'h':
		return read_fetched(answer, word + 1, bytes - 1);
	case 'O':
		if (answer->has_opaque || read_number(word + 1, bytes - 1, &answer->opaque) < 0)
			return -EPROTO;
		answer->has_opaque = true;
		return 0;
	case 'c':
		if (answer->has_cas || read_long(word + 1, bytes - 1, &answer->cas) < 0)
			return -EPROTO;
		answer->has_cas = true;
		return 0;
	default:
		return -EPROTO;
	}
}

static int find_word(const char *word, size_t bytes, enum ts_answer_word *ret_word)
{
	static const char *const words[] = {
#define ONE(name, text) text,
		TS_ANSWERS(ONE)
#undef ONE
	};

	for (size_t i = 0; i < TS_ARRAY_SIZE(words); i++) {
		if (strlen(words[i]) == bytes && memcmp(words[i], word, bytes) == 0) {
			*ret_word = (enum ts_answer_word)i;
			return 0;
		}
	}
	return -EPROTO;
}

int ts_answer_parse(const char *line, size_t bytes, struct ts_answer *ret_answer)
{
	struct rest rest = {line, line + bytes};
	struct ts_answer answer = {.text = line};
	const char *word;
	size_t length;

	if (!next_word(&rest, &word, &length) || find_word(word, length, &answer.word) < 0)
		return -EPROTO;
	/* A blank at the end would be an empty word. */
	bool empty_end = bytes > 0 && line[bytes - 1] == ' ';
	if (answer.word == TS_ANSWER_CLIENT_ERROR || answer.word == TS_ANSWER_SERVER_ERROR) {
		answer.text = rest.at;
		answer.text_bytes = (size_t)(rest.end - rest.at);
		rest.at = rest.end;
	} else if (empty_end) {
		return -EPROTO;
	}
	int r = 0;
	if (answer.word == TS_ANSWER_VA)
		r = next_word(&rest, &word, &length) ? read_number(word, length, &answer.bytes)
						     : -EPROTO;
	while (r == 0 && next_word(&rest, &word, &length))
		r = answer.word < TS_ANSWER_MN ? read_flag(&answer, word, length) : -EPROTO;
	if (r == 0)
		*ret_answer = answer;
	return r;
}

bool ts_answer_says(const struct ts_answer *answer, const char *text)
{
	return answer->text_bytes == strlen(text) &&
	       memcmp(answer->text, text, answer->text_bytes) == 0;
}
